package paceline.alcc;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** TCP itself. */
final class PlainLower implements Lower {
    private final SocketChannel channel;

    PlainLower(SocketChannel channel) {
        this.channel = channel;
    }

    @Override
    public boolean shake() {
        return true;
    }

    @Override
    public int read(ByteBuffer to) throws IOException {
        return channel.read(to);
    }

    @Override
    public void write(ByteBuffer from) throws IOException {
        channel.write(from);
    }

    @Override
    public boolean flush() {
        return true;
    }

    @Override
    public boolean shutdownOutput() throws IOException {
        channel.socket().shutdownOutput();
        return true;
    }
}
