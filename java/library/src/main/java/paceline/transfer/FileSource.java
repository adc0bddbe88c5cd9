package paceline.transfer;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;

/** A file that is uploaded. */
public final class FileSource implements Source {
    private final RandomAccessFile file;
    private final long size;

    /**
     * Opens a file.
     *
     * @param path of the file
     * @throws IOException when it cannot be read
     */
    public FileSource(File path) throws IOException {
        if (path.isDirectory()) {
            throw new IOException(path + " is a folder; name a file");
        }
        file = new RandomAccessFile(path, "r");
        size = file.length();
    }

    /**
     * An id for an upload of this file: the same as long as its path, size and time of change are, so that an upload is resumed
     * after a restart without a record of it.
     *
     * @param path of the file
     * @param name at the server
     * @return 16 bytes
     * @throws IOException when the path cannot be resolved
     */
    public static byte[] id(File path, String name) throws IOException {
        String text = "paceline upload 1\n" + path.getCanonicalPath() + "\n" + name + "\n" + path.length() + "\n" + path.lastModified();
        byte[] hash = TransferClient.sha256().digest(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
        return java.util.Arrays.copyOf(hash, Request.ID);
    }

    @Override
    public long size() {
        return size;
    }

    @Override
    public int read(byte[] buffer, int offset, int length) throws IOException {
        return file.read(buffer, offset, length);
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
