package paceline.cc;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/** What an acknowledgement and the packet that it lets go cost in the steady state. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
public class AckBenchmark {
    /** The controller. */
    @Param({"reno", "cubic", "bbr", "copa", "mdi"})
    public String controller;

    private Steady feed;

    /** Before each controller. */
    public AckBenchmark() {}

    /** Makes the flow. */
    @Setup
    public void flow() {
        feed = new Steady(controller);
    }

    /**
     * One step of it.
     *
     * @return what the controller answers
     */
    @Benchmark
    public long ack() {
        return feed.step();
    }
}
