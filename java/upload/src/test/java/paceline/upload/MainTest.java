package paceline.upload;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import paceline.transfer.TestServer;

/** The tool, run in this process. */
class MainTest {
    @TempDir
    File folder;

    private String out;
    private String err;

    private int run(String... words) {
        ByteArrayOutputStream outBytes = new ByteArrayOutputStream();
        ByteArrayOutputStream errBytes = new ByteArrayOutputStream();
        int status = Main.run(words, null, new PrintStream(outBytes), new PrintStream(errBytes), false);
        out = outBytes.toString();
        err = errBytes.toString();
        return status;
    }

    private File file(int size) throws Exception {
        File file = new File(folder, "a b.bin");
        byte[] bytes = new byte[size];
        new Random(1).nextBytes(bytes);
        Files.write(file.toPath(), bytes);
        return file;
    }

    @Test
    void upAndDown() throws Exception {
        File file = file(300_000);
        byte[] bytes = Files.readAllBytes(file.toPath());
        try (TestServer server = new TestServer()) {
            String host = "127.0.0.1:" + server.address().getPort();
            assertEquals(0, run(host, file.getPath()), () -> err);
            assertEquals("", err);
            assertTrue(out.startsWith("0.300 MB sent in "), out);
            assertArrayEquals(bytes, server.files.get("a b.bin"));
            assertEquals(0, run(host, file.getPath(), "--name", "other", "--controller=copa:delta=0.1", "--json"), () -> err);
            assertTrue(out.contains("\"name\":\"other\",\"bytes\":300000,") && out.endsWith("\"status\":\"done\",\"message\":\"\"}" + System.lineSeparator()), out);
            File back = new File(folder, "back.bin");
            Files.write(new File(folder, "back.bin.part").toPath(), java.util.Arrays.copyOf(bytes, 1000));
            assertEquals(0, run(host, back.getPath(), "--get", "--name=other"), () -> err);
            assertTrue(out.contains("resumed from byte 1000"), out);
            assertArrayEquals(bytes, Files.readAllBytes(back.toPath()));
            server.fullAfter = 50_000;
            assertEquals(1, run(host, file.getPath(), "--name=c", "--json"));
            assertEquals("paceline-upload: 127.0.0.1: the server says: no room: the disk is full", err.trim());
            assertTrue(out.contains("\"status\":\"no room\""), out);
            server.fullAfter = Integer.MAX_VALUE;
            server.killAfter = 100_000;
            assertEquals(1, run(host, file.getPath(), "--name=d"));
            assertTrue(err.contains("he same command goes on where this one ended"), err);
            server.secret = new byte[32];
            assertEquals(1, run(host, file.getPath()));
            assertTrue(err.contains("refused"), err);
        }
    }

    @Test
    void mistakesHaveOneLineAndTheFix() throws Exception {
        String file = file(1).getPath();
        String[][] mistakes = {{}, {"host"}, {"host", "/no/such/file"}, {"host", file, "more"}, {"host", file, "--what"},
            {"host", file, "--seconds", "1"}, {"host", "--seconds", "x"}, {"host", "--seconds"}, {"host:0", file}, {"host:x", file},
            {"host", file, "--token", "abc"}, {"host", file, "--controller", "cupa"}, {"host", file, "--ca", "/no/file"},
            {"host", file, "--controller"}, {":1", file}, {"host", "--bytes", "5", "--name", "n"}};
        for (String[] words : mistakes) {
            assertEquals(2, run(words), () -> String.join(" ", words));
            assertTrue(err.startsWith("paceline-upload: ") && err.trim().indexOf('\n') < 0, err);
            assertEquals("", out);
        }
        assertEquals(0, run("--help"));
        assertTrue(out.contains("--controller SPEC"));
    }

    @Test
    void aServerThatIsNotThereIsOneLine() throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        assertEquals(1, run("127.0.0.1:" + port, file(10).getPath()));
        assertTrue(err.trim().indexOf('\n') < 0 && err.contains("is the server running there?"), err);
    }

    @Test
    void hosts() throws Exception {
        String[][] cases = {{"h", "h", "4436"}, {"h:1", "h", "1"}, {"[::1]", "::1", "4436"}, {"[::1]:7", "::1", "7"}, {"::1", "::1", "4436"}};
        for (String[] one : cases) {
            Arguments arguments = Arguments.parse(new String[] {one[0], "--bytes", "1"}, null);
            assertEquals(one[1], arguments.host);
            assertEquals(Integer.parseInt(one[2]), arguments.port);
        }
    }
}
