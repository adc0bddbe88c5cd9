package paceline.transfer;

import java.io.Closeable;
import java.io.IOException;

/** What is uploaded. Read from its beginning, also when an upload is resumed: the hash is that of the whole. */
public interface Source extends Closeable {
    /**
     * Its size, which does not change.
     *
     * @return bytes
     */
    long size();

    /**
     * The next bytes.
     *
     * @param buffer takes them
     * @param offset where in the buffer
     * @param length how many at most
     * @return how many; -1 at the end
     * @throws IOException when they cannot be read
     */
    int read(byte[] buffer, int offset, int length) throws IOException;
}
