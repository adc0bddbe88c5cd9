package paceline.upload;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import paceline.transfer.Progress;
import paceline.transfer.Status;
import paceline.transfer.Summary;
import paceline.transfer.TransferClient;
import paceline.transfer.TransferException;

/** Fetches a file beside its place, and puts it there when it is whole. */
final class Download {
    private final File file;
    private final File part;
    private final MessageDigest hash = TransferClient.sha256();
    private final long held;

    /** Reads what is there already: before the connection, since a server waits half a minute for a request. */
    Download(File file) throws IOException {
        this.file = file;
        part = new File(file.getPath() + ".part");
        held = part.isFile() ? digest(part, hash) : 0;
    }

    Summary run(TransferClient client, String name, Progress progress) throws IOException {
        Summary summary;
        try (OutputStream to = new BufferedOutputStream(new FileOutputStream(part, held > 0), 1 << 16)) {
            summary = client.get(name, to, held, hash, progress);
        } catch (TransferException ended) {
            // What does not fit the server's file is of no use.
            if (ended.status() == Status.MISMATCH || !part.exists() || part.length() == 0) {
                Files.deleteIfExists(part.toPath());
            }
            throw ended;
        }
        Files.move(part.toPath(), file.toPath(), StandardCopyOption.REPLACE_EXISTING);
        return summary;
    }

    private static long digest(File file, MessageDigest hash) throws IOException {
        byte[] buffer = new byte[1 << 16];
        long size = 0;
        try (InputStream in = Files.newInputStream(file.toPath())) {
            for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
                hash.update(buffer, 0, count);
                size += count;
            }
        }
        return size;
    }
}
