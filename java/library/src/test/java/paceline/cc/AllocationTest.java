package paceline.cc;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** An acknowledgement in the steady state allocates nothing: what Android's collector does not see costs no pause. */
class AllocationTest {
    /** Steps before and in a measurement. */
    private static final int WARM_UP = 20_000;
    private static final int STEPS = 10_000;
    /** A measurement is repeated when something else in the thread allocated (a class that loads, a compiled method). */
    private static final int TRIES = 5;

    static List<String> controllers() {
        return Controllers.names();
    }

    @ParameterizedTest
    @MethodSource("controllers")
    void anAcknowledgementAllocatesNothing(String name) {
        boolean counted = ManagementFactory.getThreadMXBean() instanceof ThreadMXBean;
        Assumptions.assumeTrue(counted, "skipped: this JVM does not count what a thread allocates");
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long self = Thread.currentThread().getId();
        Steady feed = new Steady(name);
        for (int step = 0; step < WARM_UP; step++) {
            feed.step();
        }
        long least = Long.MAX_VALUE;
        for (int round = 0; round < TRIES && least > 0; round++) {
            long before = threads.getThreadAllocatedBytes(self);
            for (int step = 0; step < STEPS; step++) {
                feed.step();
            }
            least = Math.min(least, threads.getThreadAllocatedBytes(self) - before);
        }
        assertEquals(0, least, "bytes in " + STEPS + " steps");
    }
}
