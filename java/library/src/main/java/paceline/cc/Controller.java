package paceline.cc;

/**
 * A congestion controller: a pure state machine that gets events and answers how many bytes may be in flight and when the
 * next packet may leave. It has the calls and answers of {@code core/cc/src/controller.rs}, less those that no controller
 * here listens to (causes of losses, telemetry, feedback of a receiver half).
 *
 * <p>Order of calls for one incoming acknowledgement: {@link #onLoss} when the acknowledgement showed packets to be lost,
 * then {@link #onAck}. For one outgoing packet: {@link #onSent}, then {@link #pacing}. After any event the datapath reads
 * {@link #window}, {@link #pacing} and {@link #nextTick} again. Time never runs backwards.
 *
 * <p>Obligations, tested for every controller: the window is at least one packet, every described number is finite, no
 * call throws whatever the order of events, and the steady state allocates nothing. A controller belongs to one thread at
 * a time, and keeps none of the objects that it is given.
 */
public abstract class Controller {
    /** For the controllers of this package. */
    Controller() {}

    /**
     * A packet left.
     *
     * @param sent the packet
     * @return a tag that comes back with the packet's {@link Acked} or {@link Lost}; all 64 bits count
     */
    public abstract long onSent(Sent sent);

    /**
     * Something was delivered or marked.
     *
     * @param ack the acknowledgement
     */
    public abstract void onAck(Ack ack);

    /**
     * Packets were declared lost.
     *
     * @param loss the packets
     */
    public abstract void onLoss(Loss loss);

    /**
     * The retransmission timer fired.
     *
     * @param timeout what it declares lost
     */
    public abstract void onTimeout(Timeout timeout);

    /**
     * The last reduction answered a spurious loss (reordering, a spurious timeout): undo it.
     *
     * @param now nanoseconds
     */
    public void onSpurious(long now) {}

    /**
     * The flow sends again after a silence.
     *
     * @param restart how long it was
     */
    public void onRestart(Restart restart) {}

    /**
     * The application has nothing more to send although the window is open.
     *
     * @param now nanoseconds
     * @param inFlight bytes
     */
    public void onAppLimited(long now, long inFlight) {}

    /**
     * Another flow over the same path, which shares what it knows, measured an RTT. It may come at any time, and may be
     * larger than what this controller has seen itself.
     *
     * @param now nanoseconds
     * @param min the smallest RTT in nanoseconds
     */
    public void onSharedRtt(long now, long min) {}

    /**
     * Full packets have another size from now on. The window keeps its bytes, if it holds a packet.
     *
     * @param now nanoseconds
     * @param mss payload bytes of a full packet
     */
    public void onMss(long now, long mss) {}

    /**
     * When {@link #onTick} wants to be called.
     *
     * @return nanoseconds; {@link Units#NEVER} for controllers without a clock of their own
     */
    public long nextTick() {
        return Units.NEVER;
    }

    /**
     * The time of {@link #nextTick} has come (or passed).
     *
     * @param now nanoseconds
     */
    public void onTick(long now) {}

    /**
     * Bytes that may be in flight. A packet may leave while bytes in flight plus its payload do not exceed this.
     *
     * @return bytes, at least one full packet
     */
    public abstract long window();

    /**
     * When the next packet may leave.
     *
     * @param answer takes the answer
     */
    public void pacing(Pacing answer) {
        answer.free();
    }

    /**
     * {@link #onSent} changes none of its answers at present: a datapath need not ask again after each packet.
     *
     * @return whether that is so
     */
    public boolean outlastsDepartures() {
        return false;
    }

    /**
     * The slow-start threshold: a datapath that paces what is left free does so by 200 % of the window while this is below
     * half of it, so that slow start can double, and by 120 % after that (Linux {@code tcp_update_pacing_rate}).
     *
     * @return bytes; {@link Units#NEVER} where none is known
     */
    public long threshold() {
        return Units.NEVER;
    }

    /**
     * The window is what is in flight and a budget on top of it: what is delivered makes no room for more. A datapath that applies
     * a window some time after it was given must take off what was delivered since.
     *
     * @return whether that is so
     */
    public boolean windowIsBudget() {
        return false;
    }

    /**
     * Who shapes the rate during recovery. Read as an episode begins: the answer may change from one to the next.
     *
     * @return who does
     */
    public Recovery recovery() {
        return Recovery.PRR;
    }

    /**
     * Use of ECN.
     *
     * @return how
     */
    public Ecn ecn() {
        return Ecn.OFF;
    }

    /**
     * Its pacing rate is the rate that it measured, and is meant to bound what is in flight by itself (BBR's ProbeBW).
     *
     * @return whether that is so at present
     */
    public boolean cruises() {
        return false;
    }

    /**
     * Reports the controller's own variables, for logs and plots.
     *
     * @param variables takes them
     */
    public abstract void describe(Variables variables);
}
