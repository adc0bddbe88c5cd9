package paceline.alcc;

import java.io.IOException;
import java.nio.ByteBuffer;

/** What frames travel in: TCP, or TLS above TCP. Never waits. */
interface Lower {
    /** Does what a handshake needs; true when bytes of frames can pass. */
    boolean shake() throws IOException;

    /** Reads what has come; 0 for nothing, -1 for the end. */
    int read(ByteBuffer to) throws IOException;

    /** Takes what it can; see {@link #isFlushed}. */
    void write(ByteBuffer from) throws IOException;

    /** Hands on what was taken before; true when TCP has all of it. */
    boolean flush() throws IOException;

    /** Ends our direction, after everything was flushed; true when that has left as well. */
    boolean shutdownOutput() throws IOException;
}
