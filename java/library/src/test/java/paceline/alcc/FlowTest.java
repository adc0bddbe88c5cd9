package paceline.alcc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.Random;
import org.junit.jupiter.api.Test;
import paceline.cc.Controllers;
import paceline.cc.Env;
import paceline.cc.FixedController;

/** The flow against worked numbers, and against a small model of a path. */
class FlowTest {
    private static final long MS = 1_000_000;
    private static final int MSS = 1000;

    private static int sendAll(Flow flow, long now) {
        int chunks = 0;
        for (int bytes = flow.poll(now); bytes > 0; bytes = flow.poll(now)) {
            flow.handed(now, bytes);
            chunks++;
        }
        return chunks;
    }

    @Test
    void theWindowBoundsWhatIsHandedOver() {
        FixedController controller = new FixedController(5 * MSS);
        Flow flow = new Flow(controller, MSS);
        assertEquals(Long.MAX_VALUE, flow.nextWake());
        flow.queued(7 * MSS + 10);
        assertEquals(5, sendAll(flow, MS));
        assertEquals(5 * MSS, flow.inFlight());
        assertEquals(2 * MSS + 10, flow.unsent());
        flow.acknowledged(51 * MS, 2 * MSS, 10 * MS);
        assertEquals(40 * MS, controller.rtt);
        assertEquals(2, sendAll(flow, 51 * MS));
        assertEquals(0, controller.dry);
        flow.acknowledged(60 * MS, 5 * MSS, 0);
        flow.acknowledged(60 * MS, 7 * MSS, 0);
        // The RTT of the newest chunk.
        assertEquals(9 * MS, controller.rtt);
        assertEquals(1, sendAll(flow, 60 * MS));
        assertEquals(1, controller.dry);
        flow.acknowledged(70 * MS, 7 * MSS + 10, 0);
        assertEquals(0, flow.inFlight());
        assertEquals(Long.MAX_VALUE, flow.nextWake());
        // After a silence it restarts.
        flow.queued(1);
        assertEquals(1, sendAll(flow, 900 * MS));
        assertEquals(1, controller.restarts);
    }

    @Test
    void aPartOfAChunkIsNotAcknowledged() {
        FixedController controller = new FixedController(5 * MSS);
        Flow flow = new Flow(controller, MSS);
        flow.queued(2 * MSS);
        sendAll(flow, 0);
        flow.acknowledged(MS, MSS - 1, 0);
        assertEquals(0, controller.acks);
        flow.acknowledged(MS, MSS, 0);
        assertEquals(MSS, flow.inFlight());
    }

    @Test
    void silenceIsATimeOutWithBackOff() {
        FixedController controller = new FixedController(5 * MSS);
        Flow flow = new Flow(controller, MSS);
        flow.connected(MS, 100 * MS);
        flow.queued(4 * MSS);
        sendAll(flow, 100 * MS);
        // 100 ms, and four deviations of 50 ms.
        assertEquals(400 * MS, flow.nextWake());
        flow.tick(399 * MS);
        assertEquals(0, controller.timeouts);
        flow.tick(400 * MS);
        assertEquals(1, controller.timeouts);
        assertEquals(1000 * MS, flow.nextWake());
        flow.tick(1000 * MS);
        assertEquals(2, controller.timeouts);
        long rtt = controller.rtt;
        flow.acknowledged(1100 * MS, 4 * MSS, 0);
        assertEquals(rtt, controller.rtt, "what waited for a repair says nothing");
        flow.queued(MSS);
        sendAll(flow, 1100 * MS);
        flow.acknowledged(1190 * MS, 5 * MSS, 0);
        assertEquals(90 * MS, controller.rtt);
    }

    @Test
    void whatWaitedBehindAHoleIsALoss() {
        FixedController controller = new FixedController(100 * MSS);
        Flow flow = new Flow(controller, MSS);
        flow.connected(0, 50 * MS);
        long position = 0;
        for (int i = 0; i < 100; i++) {
            flow.queued(MSS);
            sendAll(flow, i * MS);
            if (i >= 50) {
                position += MSS;
                flow.acknowledged(i * MS, position, 0);
            }
        }
        assertEquals(0, controller.losses);
        for (int i = 100; i < 160; i++) {
            flow.queued(MSS);
            sendAll(flow, i * MS);
        }
        // Nothing came for a round trip, then everything at once.
        flow.acknowledged(160 * MS, position + 60 * MSS, 0);
        assertEquals(1, controller.losses);
        assertEquals(50 * MS, controller.rtt);
    }

    @Test
    void burstsAndQuietReceiversAreNoLosses() {
        FixedController controller = new FixedController(40 * MSS);
        Flow flow = new Flow(controller, MSS);
        flow.connected(0, 50 * MS);
        flow.queued(40 * MSS);
        sendAll(flow, 0);
        flow.acknowledged(60 * MS, 40 * MSS, 0);
        assertEquals(0, controller.losses);
    }

    /** A path of one rate and one delay: each controller fills it and keeps to its window. */
    @Test
    void everyControllerFillsAPath() {
        for (String spec : new String[] {"copa", "cubic", "reno", "bbr"}) {
            Flow flow = new Flow(Controllers.create(spec, new Env(MSS, 1, false)), MSS);
            Random random = new Random(3);
            ArrayDeque<long[]> path = new ArrayDeque<>();
            long serial = 100_000; // ns for a byte... of 80 Mbit/s: 100 us for a packet of 1000 bytes.
            long free = 0;
            long position = 0;
            flow.connected(0, 40 * MS);
            flow.queued(Long.MAX_VALUE);
            for (long now = 0; now < 10_000 * MS; now += 100_000) {
                while (!path.isEmpty() && path.peek()[0] <= now) {
                    long[] arrived = path.poll();
                    flow.acknowledged(now, arrived[1], now - arrived[0]);
                }
                flow.tick(now);
                for (int bytes = flow.poll(now); bytes > 0; bytes = flow.poll(now)) {
                    assertTrue(flow.inFlight() + bytes <= flow.window(), spec);
                    flow.handed(now, bytes);
                    position += bytes;
                    free = Math.max(free, now) + serial * bytes / MSS;
                    path.add(new long[] {free + 40 * MS, position});
                    if (free > now + 400 * MS && random.nextBoolean()) {
                        break;
                    }
                }
            }
            double mbps = (position - flow.inFlight()) * 8 / 10e6;
            assertTrue(mbps > 55 && mbps <= 80.1, spec + ": " + mbps + " Mbit/s of 80");
        }
    }

    @Test
    void quantilesAreExactToTwoPerCent() {
        RttHistogram histogram = new RttHistogram();
        for (int i = 1; i <= 100_000; i++) {
            histogram.add(i * 1000L);
        }
        assertEquals(1000, histogram.min());
        assertEquals(100_000_000, histogram.max());
        assertEquals(50e6, histogram.quantile(0.5), 1e6);
        assertEquals(95e6, histogram.quantile(0.95), 2e6);
        histogram.add(Long.MAX_VALUE);
        histogram.add(-1);
        assertEquals(0, histogram.min());
    }
}
