package paceline.cc;

/** A constant window, for tests of what is above it. Counts what it was informed of. */
public final class FixedController extends Controller {
    private final long window;
    /** Events so far. */
    public int acks;
    /** Packets lost. */
    public int losses;
    /** Timeouts. */
    public int timeouts;
    /** Silences of the application. */
    public int dry;
    /** Restarts after a silence. */
    public int restarts;
    /** The newest RTT and rate, in ns and bytes/s. */
    public long rtt;
    /** See rtt. */
    public long rate;

    /** A window of this many bytes. */
    public FixedController(long window) {
        this.window = window;
    }

    @Override
    public long onSent(Sent sent) {
        return sent.seq * 3 + 1;
    }

    @Override
    public void onAck(Ack ack) {
        acks++;
        for (int i = 0; i < ack.packets.count(); i++) {
            Acked acked = ack.packets.get(i);
            if (acked.tag != acked.seq * 3 + 1) {
                throw new AssertionError("the tag of another chunk");
            }
        }
        if (ack.rtt != Units.NEVER) {
            rtt = ack.rtt;
        }
        if (ack.rate.valid) {
            rate = Units.rate(ack.rate.delivered, ack.rate.interval);
        }
    }

    @Override
    public void onLoss(Loss loss) {
        losses += loss.packets.count();
    }

    @Override
    public void onTimeout(Timeout timeout) {
        timeouts++;
    }

    @Override
    public void onAppLimited(long now, long inFlight) {
        dry++;
    }

    @Override
    public void onRestart(Restart restart) {
        restarts++;
    }

    @Override
    public long window() {
        return window;
    }

    @Override
    public void describe(Variables variables) {}
}
