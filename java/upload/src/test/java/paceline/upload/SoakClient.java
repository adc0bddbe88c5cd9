package paceline.upload;

import java.io.BufferedInputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.security.MessageDigest;
import java.util.Random;
import paceline.alcc.AlccOptions;
import paceline.transfer.FileSource;
import paceline.transfer.Progress;
import paceline.transfer.Source;
import paceline.transfer.Summary;
import paceline.transfer.TransferClient;

/**
 * A client in a process of its own, for {@link SoakTest} to kill: {@code put|get HOST PORT FILE NAME CONTROLLER SEED RESET_AT}. It reads
 * and writes in pieces of random sizes, stalls now and then, and resets its connection once the other end has RESET_AT bytes. It
 * says its progress on standard output. Status 0: done; 3: the network's error, to be tried again; 1: another.
 */
final class SoakClient {
    private final Random random;
    private final MessageDigest before = TransferClient.sha256();
    private long held;
    private int stalls;

    private SoakClient(long seed) {
        random = new Random(seed);
    }

    /** @param words see above */
    public static void main(String[] words) {
        try {
            new SoakClient(Long.parseLong(words[6])).run(words);
        } catch (paceline.transfer.TransferException said) {
            System.out.println("error " + said.getMessage());
            System.exit(1);
        } catch (IOException network) {
            System.out.println("lost " + network.getMessage());
            System.exit(3);
        } catch (RuntimeException bug) {
            System.out.println("error " + bug);
            System.exit(1);
        }
    }

    private void run(String[] words) throws IOException {
        InetSocketAddress server = new InetSocketAddress(words[1], Integer.parseInt(words[2]));
        File file = new File(words[3]);
        long resetAt = Long.parseLong(words[7]);
        if (words[0].equals("get") && file.exists()) {
            // Before the connection, since the server waits for the request.
            digest(file);
        }
        try (TransferClient client = new TransferClient(server, new AlccOptions().controller(words[5]), null)) {
            Progress progress = (done, total, statistics) -> {
                System.out.println("at " + done);
                if (done >= resetAt) {
                    client.cancel();
                }
            };
            Summary summary = words[0].equals("put") ? put(client, file, words[4], progress) : get(client, file, words[4], progress);
            System.out.println("done " + summary.statistics + ", " + stalls + " stalls");
        }
    }

    /** Mostly small; never more than {@code most}. */
    private int piece(int most) {
        return Math.min(most, 1 + random.nextInt(random.nextInt(8) == 0 ? 60_000 : 1500));
    }

    private void stallSometimes() {
        if (random.nextInt(4000) == 0) {
            stalls++;
            try {
                Thread.sleep(random.nextInt(300));
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private Summary put(TransferClient client, File file, String name, Progress progress) throws IOException {
        try (InputStream in = new BufferedInputStream(Files.newInputStream(file.toPath()), 1 << 16)) {
            return client.put(name, new Source() {
                @Override
                public long size() {
                    return file.length();
                }

                @Override
                public int read(byte[] buffer, int offset, int length) throws IOException {
                    stallSometimes();
                    return in.read(buffer, offset, piece(length));
                }

                @Override
                public void close() {}
            }, FileSource.id(file, name), progress);
        }
    }

    private void digest(File file) throws IOException {
        byte[] buffer = new byte[1 << 16];
        try (InputStream in = Files.newInputStream(file.toPath())) {
            for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
                before.update(buffer, 0, count);
                held += count;
            }
        }
    }

    private Summary get(TransferClient client, File file, String name, Progress progress) throws IOException {
        try (OutputStream to = new FileOutputStream(file, true)) {
            return client.get(name, new OutputStream() {
                @Override
                public void write(int one) throws IOException {
                    to.write(one);
                }

                @Override
                public void write(byte[] bytes, int offset, int length) throws IOException {
                    int at = offset;
                    while (at < offset + length) {
                        stallSometimes();
                        int count = piece(offset + length - at);
                        to.write(bytes, at, count);
                        at += count;
                    }
                }
            }, held, before, progress);
        }
    }
}
