package paceline.cc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class EnvTest {
    @Test
    void defaultsAreThoseOfRust() {
        Env env = new Env();
        assertEquals(1448, env.mss);
        assertEquals(1, env.seed);
    }

    @Test
    void anMssOfNothingIsRefused() {
        assertThrows(IllegalArgumentException.class, () -> new Env(0, 1, false));
    }
}
