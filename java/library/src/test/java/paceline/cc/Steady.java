package paceline.cc;

/**
 * A steady feed for measuring what an event costs: one packet acknowledged and one sent per step, an RTT that breathes a
 * little, now and then a loss ({@code core/cc/src/testing/steady.rs}). It allocates nothing, so that what is measured is the
 * controller.
 */
public final class Steady {
    /** Packets in flight: 40 ms at one packet a millisecond (12 Mbit/s of full packets). */
    private static final int FLIGHT = 40;
    /** Time between packets. */
    private static final long GAP = Units.MILLISECOND;
    /** One packet in this many is lost: windows come back to where they were, so that the cost is that of a working point. */
    private static final long LOSS_EVERY = 1000;
    /** The RTT breathes by 62 us a step, up and down over 64 steps. */
    private static final long SWING = 62_000;
    private static final long PERIOD = 64;

    private final Controller controller;
    private final long mss;
    private final long[] sentAt = new long[FLIGHT];
    private final long[] tags = new long[FLIGHT];
    private final Sent sent = new Sent();
    private final Ack ack = new Ack();
    private final Loss loss = new Loss();
    private final Pacing pacing = new Pacing();
    private long now;
    private long step;

    /**
     * Makes a controller and fills its flight.
     *
     * @param spec the controller
     */
    public Steady(String spec) {
        Env env = new Env();
        controller = Controllers.create(spec, env);
        mss = env.mss;
        for (int packet = 0; packet < FLIGHT; packet++) {
            now += GAP;
            send(packet);
        }
    }

    /**
     * One packet's life: it is acknowledged (or, seldom, lost), and the next one leaves.
     *
     * @return the window in bytes and what paces it, so that nothing is optimised away
     */
    public long step() {
        now += GAP;
        long packet = step;
        step++;
        if (controller.nextTick() <= now) {
            controller.onTick(now);
        }
        if (packet % LOSS_EVERY == LOSS_EVERY - 1) {
            lose(packet);
        } else {
            acknowledge(packet);
        }
        send(packet + FLIGHT);
        controller.pacing(pacing);
        return controller.window() + pacing.value;
    }

    private void send(long packet) {
        sent.now = now;
        sent.seq = packet * mss;
        sent.bytes = mss;
        sent.inFlight = FLIGHT * mss;
        sent.unsent = Units.NEVER;
        int place = (int) (packet % FLIGHT);
        tags[place] = controller.onSent(sent);
        sentAt[place] = now;
    }

    private void acknowledge(long packet) {
        int place = (int) (packet % FLIGHT);
        long swing = Math.min(step % PERIOD, PERIOD - step % PERIOD);
        long rtt = now - sentAt[place] + SWING * swing;
        ack.packets.clear();
        Acked acked = ack.packets.add();
        acked.seq = packet * mss;
        acked.bytes = mss;
        acked.sentAt = sentAt[place];
        acked.tag = tags[place];
        ack.now = now;
        ack.bytes = mss;
        ack.rtt = rtt;
        ack.srtt = rtt;
        ack.minRtt = GAP * FLIGHT;
        ack.delivered = step * mss;
        ack.rate.valid = true;
        ack.rate.delivered = FLIGHT * mss;
        ack.rate.interval = rtt;
        ack.rate.priorDelivered = Units.since(ack.delivered, FLIGHT * mss);
        ack.priorInFlight = FLIGHT * mss;
        ack.inFlight = (FLIGHT - 1) * mss;
        ack.una = (packet + 1) * mss;
        ack.next = (packet + FLIGHT) * mss;
        ack.windowLimited = true;
        controller.onAck(ack);
    }

    private void lose(long packet) {
        int place = (int) (packet % FLIGHT);
        loss.packets.clear();
        Lost lost = loss.packets.add();
        lost.seq = packet * mss;
        lost.bytes = mss;
        lost.sentAt = sentAt[place];
        lost.tag = tags[place];
        loss.now = now;
        loss.bytes = mss;
        loss.priorInFlight = FLIGHT * mss;
        loss.inFlight = (FLIGHT - 1) * mss;
        loss.newEpisode = true;
        controller.onLoss(loss);
    }
}
