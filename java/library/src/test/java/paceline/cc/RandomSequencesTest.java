package paceline.cc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Random flows, written by the Rust code and replayed here: {@code -Dpaceline.sequences=10000} for more of them than 200 a
 * controller, {@code -Dpaceline.first=7} to begin at another one. {@code PACELINE_RANDOM_EVENTS} names the program that writes
 * them; without it, and for many, cargo builds it.
 */
class RandomSequencesTest {
    static List<String> controllers() {
        return Controllers.names();
    }

    // The first of them may compile the Rust code.
    @Timeout(value = 1, unit = TimeUnit.HOURS)
    @ParameterizedTest
    @MethodSource("controllers")
    void javaAnswersAsRust(String controller) throws Exception {
        long count = Long.getLong("paceline.sequences", 200);
        List<String> command = new ArrayList<>(program(count > 1000));
        command.addAll(Arrays.asList(controller, Long.getLong("paceline.first", 0).toString(), Long.toString(count)));
        command.addAll(StartUps.names());
        Process rust = start(command);
        Replay replay = new Replay();
        try (BufferedReader text =
                new BufferedReader(new InputStreamReader(rust.getInputStream(), StandardCharsets.UTF_8), 1 << 20)) {
            replay.all(text);
        } finally {
            rust.destroy();
        }
        assertEquals(0, rust.waitFor(), "random_events ends well");
        assertEquals(count, replay.logs);
        assertTrue(replay.events > count, "flows have events");
        if (count > 1000) {
            System.out.println(controller + ": " + replay.logs + " sequences, " + replay.events + " events, equal");
        }
    }

    private static List<String> program(boolean fast) {
        String built = System.getenv("PACELINE_RANDOM_EVENTS");
        if (built != null && !fast) {
            return Arrays.asList(built);
        }
        String profile = fast ? "--profile=release" : "--profile=dev";
        return Arrays.asList(
                "cargo", "run", "--quiet", "--locked", profile, "-p", "paceline-cc", "--example", "random_events", "--");
    }

    /** Started; without cargo, where it is needed, the test is skipped. */
    private static Process start(List<String> command) throws IOException {
        Path root = Paths.get(System.getProperty("paceline.root"));
        boolean workspace = root.resolve("core/cc/examples/random_events.rs").toFile().exists();
        Assumptions.assumeTrue(workspace, "skipped: no Rust workspace beside java/");
        try {
            return new ProcessBuilder(command)
                    .directory(root.toFile())
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
        } catch (IOException missing) {
            Assumptions.assumeTrue(false, "skipped: no cargo, which writes the random flows");
            throw missing;
        }
    }
}
