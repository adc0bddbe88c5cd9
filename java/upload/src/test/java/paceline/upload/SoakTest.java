package paceline.upload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import paceline.transfer.TransferClient;

/**
 * This many bytes up and down through an emulated path of 500 Mbit/s, with small writes, stalls, resets and kills of either end:
 * {@code -Dpaceline.soak.bytes=1000000000 -Dpaceline.bin=target/release/paceline}. Needs root. {@code -Dpaceline.soak.seed} draws
 * what happens, {@code -Dpaceline.soak.controller} is another one than copa.
 */
@Timeout(value = 2, unit = TimeUnit.HOURS)
class SoakTest {
    /** What happens to a transfer once it has come so far. */
    private enum Fate { CLIENT_KILLED, SERVER_KILLED, RESET, SERVER_STOPPED }

    /** Each of them so often in each direction. */
    private static final int EACH = 2;

    @TempDir
    File folder;

    private final long bytes = Long.getLong("paceline.soak.bytes", 0);
    private final String controller = System.getProperty("paceline.soak.controller", "copa");
    private final Random random = new Random(Long.getLong("paceline.soak.seed", 1));
    private String binary;
    private Process server;
    private String serverId;
    private String port = "0";

    @BeforeEach
    void find() throws Exception {
        binary = System.getProperty("paceline.bin", System.getenv("PACELINE_BIN"));
        String why = bytes == 0 ? "-Dpaceline.soak.bytes=1000000000 asks for it"
                : binary == null || !new File(binary).canExecute() ? "PACELINE_BIN or -Dpaceline.bin names no 'paceline'"
                : run("id", "-u").equals("0") ? null : "the emulated path to this machine needs root";
        if (why != null) {
            System.err.println("skipped: soak through the emulator: " + why);
            assumeTrue(false, "skipped: soak through the emulator: " + why);
        }
    }

    @AfterEach
    void stop() throws Exception {
        if (server != null) {
            server.destroyForcibly().waitFor(20, TimeUnit.SECONDS);
        }
    }

    private static String run(String... words) throws Exception {
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        process.waitFor();
        return line == null ? "" : line;
    }

    private void serve() throws Exception {
        stop();
        String command = "echo $$; exec '" + binary + "' alcc serve --open --listen 0.0.0.0:" + port + " --dir '" + held() + "' --json --controller " + controller;
        server = new ProcessBuilder("sh", "-c", command).redirectErrorStream(true).start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(server.getInputStream()));
        serverId = lines.readLine();
        String listening = lines.readLine();
        assertTrue(listening != null && listening.contains("listening"), "it says: " + listening);
        port = listening.replaceAll(".*0\\.0\\.0\\.0:([0-9]+).*", "$1");
        Thread drain = new Thread(() -> {
            try {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    System.err.println("soak: server: " + line);
                }
            } catch (IOException over) {
                // The server is gone.
            }
        }, "server's words");
        drain.setDaemon(true);
        drain.start();
    }

    private File held() {
        return new File(folder, "held");
    }

    @Test
    void everyByteComesThroughKillsAndStalls() throws Exception {
        File up = new File(folder, "up.bin");
        byte[] hash = write(up);
        serve();
        transfer("put", up);
        assertEquals(Arrays.toString(hash), Arrays.toString(digest(new File(held(), "up.bin"))), "up");
        File down = new File(folder, "down.bin");
        transfer("get", down);
        assertEquals(Arrays.toString(hash), Arrays.toString(digest(down)), "down");
    }

    /** One direction, in as many attempts as its fates make of it. */
    private void transfer(String way, File file) throws Exception {
        TreeMap<Long, Fate> fates = new TreeMap<>();
        for (Fate fate : Fate.values()) {
            for (int i = 0; i < EACH; i++) {
                fates.put((long) (bytes * (0.02 + 0.95 * random.nextDouble())), fate);
            }
        }
        long begun = System.nanoTime();
        int attempts = 0;
        String said = "";
        while (!said.startsWith("done")) {
            assertTrue(++attempts <= 3 * EACH + 1, "after too many attempts: " + said);
            said = attempt(way, file, fates);
            System.err.println("soak: " + way + " " + attempts + ": " + said);
        }
        assertTrue(fates.isEmpty(), () -> "did not happen: " + fates);
        double seconds = (System.nanoTime() - begun) / 1e9;
        System.err.printf("soak: %s %d bytes in %d attempts, %.1f s%n", way, bytes, attempts, seconds);
    }

    private String attempt(String way, File file, TreeMap<Long, Fate> fates) throws Exception {
        long resetAt = Long.MAX_VALUE;
        for (TreeMap.Entry<Long, Fate> one : fates.entrySet()) {
            if (one.getValue() == Fate.RESET) {
                resetAt = one.getKey();
                break;
            }
        }
        String client = "exec java -cp '" + System.getProperty("java.class.path") + "' " + SoakClient.class.getName() + " " + way
                + " $PACELINE_BASE " + port + " '" + file + "' up.bin " + controller + " " + random.nextInt(1000) + " " + resetAt;
        List<String> words = new ArrayList<>(Arrays.asList(binary, "emulate", "--rate", "500Mbit/s", "--delay", "5ms"));
        words.addAll(Arrays.asList("--", "sh", "-c", client));
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        String last = "";
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("at ")) {
                    meet(Long.parseLong(line.substring(3)), fates, file);
                } else if (line.startsWith("done ") || line.startsWith("lost ")) {
                    last = line;
                } else if (line.startsWith("error ")) {
                    fail(line);
                }
            }
        } finally {
            process.waitFor();
        }
        return last;
    }

    /** What is due at this progress happens. */
    private void meet(long at, TreeMap<Long, Fate> fates, File file) throws Exception {
        while (!fates.isEmpty() && fates.firstKey() <= at) {
            Fate fate = fates.pollFirstEntry().getValue();
            System.err.println("soak: at " + at + ": " + fate);
            switch (fate) {
                case CLIENT_KILLED:
                    run("kill", "-9", clientOf(file));
                    return;
                case SERVER_KILLED:
                    serve();
                    return;
                case SERVER_STOPPED:
                    run("kill", "-STOP", serverId);
                    Thread.sleep(1500);
                    run("kill", "-CONT", serverId);
                    break;
                default:
                    // The client resets.
                    return;
            }
        }
    }

    /** The client's number here: within the emulated path it has another one. */
    private static String clientOf(File file) throws IOException {
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Paths.get("/proc"), "[0-9]*")) {
            for (Path one : all) {
                try {
                    String words = new String(Files.readAllBytes(one.resolve("cmdline")), StandardCharsets.UTF_8);
                    String name = new String(Files.readAllBytes(one.resolve("comm")), StandardCharsets.UTF_8).trim();
                    if (name.equals("java") && words.contains("\0" + SoakClient.class.getName() + "\0") && words.contains("\0" + file + "\0")) {
                        return one.getFileName().toString();
                    }
                } catch (IOException over) {
                    // That process has ended meanwhile.
                }
            }
        }
        throw new IOException("the client's process is not in /proc");
    }

    private byte[] write(File file) throws IOException {
        MessageDigest hash = TransferClient.sha256();
        byte[] block = new byte[1 << 20];
        try (OutputStream out = Files.newOutputStream(file.toPath())) {
            for (long left = bytes; left > 0; left -= block.length) {
                random.nextBytes(block);
                int count = (int) Math.min(left, block.length);
                hash.update(block, 0, count);
                out.write(block, 0, count);
            }
        }
        return hash.digest();
    }

    private static byte[] digest(File file) throws IOException {
        MessageDigest hash = TransferClient.sha256();
        byte[] buffer = new byte[1 << 16];
        try (InputStream in = Files.newInputStream(file.toPath())) {
            for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
                hash.update(buffer, 0, count);
            }
        }
        return hash.digest();
    }
}
