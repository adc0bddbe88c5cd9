package paceline.cc;

/**
 * CUBIC's growth in whole packets, as Linux counts it ({@code core/cc/src/cubic/whole.rs}). Source: Linux {@code bictcp_update},
 * {@code tcp_cong_avoid_ai}. Numbers are of 32 bits without a sign, as there.
 */
final class WholePackets {
    /** Where the window stands still, the curve is read again after this time ({@code HZ / 32}). */
    private static final long READ_EVERY = 31_250_000;
    /** ... and never twice in a tick, of which Linux's default has 250 in a second. */
    private static final long TICK = 4_000_000;
    /** The window grows by a packet for this many acknowledged at least ({@code max(cnt, 2)}). */
    private static final long FASTEST = 2;
    /** ... and for this many windows, where the curve is not above it. */
    private static final long FLAT = 100;
    /** Rounding errors below this are not of a packet. */
    private static final double EXACT = 1e-9;

    private static final long LARGEST = 0xFFFF_FFFFL;

    /** A packet of window for this many acknowledged. */
    private long per;
    /** Acknowledged towards the next. */
    private long counted;
    /** Whether the curve was read, with which window, and when. */
    private boolean read;

    private long readWindow;
    private long readAt;
    /** Reno's window, and what was acknowledged towards its next packet. */
    private long reno;

    private long ofReno;

    /** Whole packets of a window. */
    static double floor(double packets) {
        return Math.floor(packets + EXACT);
    }

    /** A number without its fraction, within 32 bits. */
    private static long whole(double number) {
        return Math.min(Units.whole(number), LARGEST);
    }

    void clear() {
        per = 0;
        counted = 0;
        read = false;
        reno = 0;
        ofReno = 0;
    }

    /** What was counted towards a packet is counted no longer. */
    void forgetPart() {
        counted = 0;
    }

    /** Packets by which a window of {@code packets} grows when {@code acked} more have been acknowledged. */
    long grow(long now, long ahead, double acked, double packets, Cubic cubic) {
        long cwnd = whole(Math.max(floor(packets), 1.0));
        long more = Math.min(Math.round(acked), LARGEST);
        update(now, ahead, more, cwnd, cubic);
        long steps = 0;
        if (counted >= per) {
            // The number has become smaller than what was counted already: that is worth one packet.
            counted = 0;
            steps = 1;
        }
        counted = Math.min(counted + more, LARGEST);
        steps += counted / per;
        counted %= per;
        return steps;
    }

    private void update(long now, long ahead, long acked, long cwnd, Cubic cubic) {
        ofReno = Math.min(ofReno + acked, LARGEST);
        if (read && readWindow == cwnd && Units.since(now, readAt) <= READ_EVERY && per > 0) {
            return;
        }
        if (!cubic.begun() || per == 0 || !read || now / TICK != readAt / TICK) {
            readCurve(now, ahead, acked, cwnd, cubic);
        }
        if (cubic.renoFriendly()) {
            befriendReno(cwnd, cubic.beta());
        }
        per = Math.max(per, FASTEST);
    }

    private void readCurve(long now, long ahead, long acked, long cwnd, Cubic cubic) {
        read = true;
        readWindow = cwnd;
        readAt = now;
        if (!cubic.begun()) {
            ofReno = acked;
            reno = cwnd;
            cubic.begin(now, cwnd);
        }
        long target = whole(cubic.wholeTarget(now, ahead));
        per = target > cwnd ? cwnd / (target - cwnd) : Math.min(cwnd * FLAT, LARGEST);
        double least = cubic.least();
        if (least > 0.0) {
            per = Math.min(per, whole(1.0 / least));
        }
    }

    /** Never slower than Reno with this beta: packets acknowledged for one of Reno's window, in eighths of the window. */
    private void befriendReno(long cwnd, double beta) {
        double eighths = floor(8.0 * (1.0 + beta) / 3.0 / (1.0 - beta));
        long perPacket = whole(cwnd * eighths / 8.0);
        if (perPacket > 0 && ofReno > perPacket) {
            long packets = (ofReno - 1) / perPacket;
            ofReno -= packets * perPacket;
            reno = Math.min(reno + packets, LARGEST);
        }
        if (reno > cwnd) {
            per = Math.min(per, cwnd / (reno - cwnd));
        }
    }
}
