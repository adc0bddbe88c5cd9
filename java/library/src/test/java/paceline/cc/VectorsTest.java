package paceline.cc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The event logs in {@code vectors/}. */
class VectorsTest {
    /** What Java does not have: start-ups that need exact gaps or telemetry, and SEARCH. */
    private static final List<String> ELSEWHERE = Arrays.asList("eq1", "chirp", "search");

    @Test
    void eachIsAnsweredAsRustAnsweredIt() throws IOException {
        Path folder = Paths.get(System.getProperty("paceline.root"), "vectors");
        Set<String> replayed = new HashSet<>();
        try (DirectoryStream<Path> logs = Files.newDirectoryStream(folder, "*.jsonl")) {
            for (Path log : logs) {
                String file = log.getFileName().toString();
                String name = file.substring(0, file.indexOf('@')).split("-")[0];
                boolean variant = file.startsWith("cubic-l") || file.contains("ewma");
                if (!Controllers.names().contains(name) || variant || ELSEWHERE.stream().anyMatch(file::contains)) {
                    continue;
                }
                Replay replay = new Replay();
                try (BufferedReader text = Files.newBufferedReader(log)) {
                    replay.all(text);
                }
                assertTrue(replay.events > 100, file);
                replayed.add(name);
            }
        }
        assertEquals(new HashSet<>(Controllers.names()), replayed);
    }
}
