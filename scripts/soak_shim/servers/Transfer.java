// java Transfer.java FOLDER PORT: "GET NAME" is answered with the file, by FileChannel.transferTo on a non-blocking channel;
// "PUT BYTES" and these with their SHA-256. Then it closes.
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;

class Transfer {
    static Path folder;

    /** One connection. */
    static class Connection {
        final StringBuilder line = new StringBuilder();
        FileChannel file;
        long done, size;
        MessageDigest hash;
        ByteBuffer answer;

        void read(SocketChannel channel, SelectionKey key, ByteBuffer block) throws Exception {
            block.clear();
            if (channel.read(block) < 0) {
                channel.close();
                return;
            }
            block.flip();
            while (block.hasRemaining() && hash == null && file == null) {
                char next = (char) block.get();
                if (next == '\n') {
                    begin();
                } else {
                    line.append(next);
                }
            }
            if (hash != null) {
                done += block.remaining();
                hash.update(block);
                if (done == size) {
                    answer = ByteBuffer.wrap((HexFormat.of().formatHex(hash.digest()) + "\n").getBytes());
                }
            }
            if (file != null || answer != null) {
                key.interestOps(SelectionKey.OP_WRITE);
            }
        }

        void begin() throws Exception {
            String[] words = line.toString().split(" ");
            if (words[0].equals("GET")) {
                file = FileChannel.open(folder.resolve(words[1]));
                size = file.size();
            } else {
                hash = MessageDigest.getInstance("SHA-256");
                size = Long.parseLong(words[1]);
            }
        }

        void write(SocketChannel channel) throws Exception {
            if (answer != null) {
                channel.write(answer);
            } else {
                done += file.transferTo(done, size - done, channel);
            }
            if (answer == null ? done == size : !answer.hasRemaining()) {
                close(channel);
            }
        }

        void close(SocketChannel channel) throws Exception {
            if (file != null) {
                file.close();
            }
            channel.close();
        }
    }

    public static void main(String[] words) throws Exception {
        folder = Path.of(words[0]);
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open().bind(
            new InetSocketAddress("0.0.0.0", Integer.parseInt(words[1])), 128);
        listener.configureBlocking(false).register(selector, SelectionKey.OP_ACCEPT);
        ByteBuffer block = ByteBuffer.allocateDirect(1 << 16);
        while (true) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    SocketChannel channel = listener.accept();
                    if (channel != null) {
                        channel.configureBlocking(false).register(selector, SelectionKey.OP_READ, new Connection());
                    }
                    continue;
                }
                Connection connection = (Connection) key.attachment();
                SocketChannel channel = (SocketChannel) key.channel();
                try {
                    if (key.isReadable()) {
                        connection.read(channel, key, block);
                    } else if (key.isWritable()) {
                        connection.write(channel);
                    }
                } catch (java.io.IOException gone) {
                    connection.close(channel);
                }
            }
            selector.selectedKeys().clear();
        }
    }
}
