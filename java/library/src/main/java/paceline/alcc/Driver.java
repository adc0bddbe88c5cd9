package paceline.alcc;

import paceline.cc.Ack;
import paceline.cc.Acked;
import paceline.cc.Controller;
import paceline.cc.Lost;
import paceline.cc.Loss;
import paceline.cc.Pacing;
import paceline.cc.Restart;
import paceline.cc.Sent;
import paceline.cc.Timeout;
import paceline.cc.Units;

/** Feeds a controller: measures, paces, and makes every event that it sees. The events are reused. */
final class Driver {
    final RttEstimator rtt = new RttEstimator();
    final RateSampler rate = new RateSampler();
    private final Controller controller;
    private final Pacer pacer = new Pacer();
    private final Pacing pacing = new Pacing();
    private final Sent sent = new Sent();
    private final Ack ack = new Ack();
    private final Loss loss = new Loss();
    private final Timeout timeout = new Timeout();
    private final Restart restart = new Restart();
    private long window;
    private long nextTick;
    private boolean outlasts;
    private long lastSentAt = -1;
    private boolean ranDry;
    private long lastEvent;

    Driver(Controller controller) {
        this.controller = controller;
        refresh();
    }

    Controller controller() {
        return controller;
    }

    long window() {
        return window;
    }

    long due() {
        return pacer.due();
    }

    long nextTick() {
        return nextTick;
    }

    /** Time never runs backwards for the controller, though news of an earlier moment may come late. */
    long advance(long now) {
        lastEvent = Math.max(lastEvent, now);
        return lastEvent;
    }

    /** Reads the controller's answers again. */
    void refresh() {
        ask();
        pacer.refresh(pacing);
    }

    private void ask() {
        window = controller.window();
        nextTick = controller.nextTick();
        outlasts = controller.outlastsDepartures();
        controller.pacing(pacing);
    }

    /** New data is about to leave although nothing is in flight. */
    void restart(long now) {
        if (lastSentAt >= 0 && ranDry) {
            restart.now = now;
            restart.idle = Units.since(now, lastSentAt);
            restart.rto = rtt.rto();
            controller.onRestart(restart);
        }
        rate.restart(now);
    }

    /** A chunk leaves; {@code inFlight} with it. */
    void sent(long now, Chunk chunk, long inFlight, long unsent) {
        chunk.sentAt = now;
        rate.stamp(chunk);
        ranDry = false;
        sent.now = now;
        sent.seq = chunk.seq;
        sent.bytes = chunk.bytes;
        sent.inFlight = inFlight;
        sent.retransmission = false;
        sent.appLimited = chunk.appLimited;
        sent.unsent = unsent;
        chunk.tag = controller.onSent(sent);
        lastSentAt = now;
        if (!outlasts) {
            ask();
        }
        pacer.sent(now, chunk.bytes, pacing);
        // Linux tcp_is_cwnd_limited in slow start.
        chunk.windowLimited = inFlight > window / 2;
    }

    /** The application has nothing to send although the window is open, or TCP takes nothing. */
    void runDry(long now, long inFlight) {
        rate.markAppLimited(inFlight);
        if (!ranDry) {
            ranDry = true;
            controller.onAppLimited(advance(now), inFlight);
            refresh();
        }
    }

    void tick(long now) {
        if (nextTick <= now) {
            controller.onTick(advance(now));
            refresh();
        }
    }

    void timeout(long now, long inFlight, int count) {
        timeout.now = advance(now);
        timeout.packets.clear();
        timeout.priorInFlight = inFlight;
        timeout.inFlight = inFlight;
        timeout.count = count;
        controller.onTimeout(timeout);
        refresh();
    }

    /** The first bytes of {@code chunk} were lost, and sent again by TCP. */
    void lose(long now, Chunk chunk, long bytes, long inFlight, boolean newEpisode) {
        loss.packets.clear();
        Lost lost = loss.packets.add();
        lost.seq = chunk.seq;
        lost.bytes = bytes;
        lost.sentAt = chunk.sentAt;
        lost.tag = chunk.tag;
        loss.now = now;
        loss.bytes = bytes;
        loss.priorInFlight = inFlight;
        loss.inFlight = inFlight;
        loss.newEpisode = newEpisode;
        controller.onLoss(loss);
    }

    /** The handshake was answered. */
    void connected(long now, long sample) {
        advance(now);
        rtt.sample(sample);
        rtt.observe(sample);
        ack.packets.clear();
        ack.rate.valid = false;
        ack.rtt = Units.NEVER;
        ack.bytes = 0;
        ack.windowLimited = false;
        acknowledge(0, 0, 0, 0);
    }

    /**
     * Takes in the oldest {@code count} chunks, which have come, and were sent {@code late} later than they say. {@code repaired}:
     * they say nothing about the RTT. Answers the RTT of the newest, {@link Units#NEVER} for none.
     */
    long delivered(long now, ChunkRing chunks, int count, long late, boolean repaired) {
        ack.packets.clear();
        long bytes = 0;
        for (int i = 0; i < count; i++) {
            Chunk chunk = chunks.get(i);
            Acked acked = ack.packets.add();
            acked.seq = chunk.seq;
            acked.bytes = chunk.bytes;
            acked.sentAt = chunk.sentAt + late;
            acked.tag = chunk.tag;
            acked.retransmitted = repaired;
            acked.appLimited = chunk.appLimited;
            acked.ce = false;
            bytes += chunk.bytes;
        }
        Chunk newest = chunks.get(count - 1);
        long sentAt = newest.sentAt + late;
        long sample = repaired ? Units.NEVER : Units.since(now, sentAt);
        if (!repaired) {
            rtt.observe(sample);
        }
        ack.rate.valid = rate.deliver(now, bytes, newest, sentAt, rtt.min());
        ack.rate.delivered = rate.sampleBytes();
        ack.rate.interval = rate.sampleInterval();
        ack.rate.priorDelivered = newest.priorDelivered;
        ack.rate.appLimited = newest.appLimited;
        ack.rate.retransmission = repaired;
        if (!repaired) {
            rtt.sample(sample);
        }
        ack.rtt = sample;
        ack.bytes = bytes;
        ack.windowLimited = newest.windowLimited;
        return sample;
    }

    /** Informs the controller of what was taken in. */
    void acknowledge(long prior, long inFlight, long una, long next) {
        if (ack.rtt != Units.NEVER) {
            rtt.advance(una, next);
        }
        ack.now = lastEvent;
        ack.srtt = rtt.smoothed();
        ack.minRtt = rtt.min();
        ack.priorInFlight = prior;
        ack.inFlight = inFlight;
        ack.lostBytes = 0;
        ack.delivered = rate.delivered();
        ack.una = una;
        ack.next = next;
        controller.onAck(ack);
        refresh();
    }
}
