package paceline.cc;

/**
 * What BBR knows of the path and what follows from it: bandwidth, smallest RTT, rounds, the window for a gain, the pacing
 * rate. {@link Bbr} moves it through the modes.
 */
abstract class BbrModel extends Controller {
    /** Startup's pacing and window gain: 2/ln 2 ({@code bbr_high_gain}). */
    static final double HIGH_GAIN = 739.0 / 256.0;
    /** Initial window in packets (RFC 6928; {@code TCP_INIT_CWND}). */
    static final double INITIAL_CWND = 10.0;
    /** Smallest window in packets, and ProbeRTT's ({@code bbr_cwnd_min_target}). */
    static final double MIN_CWND = 4.0;
    /** Window of the bandwidth filter in rounds ({@code bbr_bw_rtts}: the cycle and 2). */
    private static final long BANDWIDTH_ROUNDS = 10;
    /** Pacing rate below which a burst may be one packet: 1.2 Mbit/s, in bytes per second ({@code bbr_min_tso_rate}). */
    private static final double SMALL_BURST_RATE = 1_200_000.0 / 8.0;
    /** A burst is what the pacing rate sends in 2^-10 s ({@code sk_pacing_shift}) ... */
    private static final double BURSTS_PER_SECOND = 1024.0;
    /** ... but at most 64 KB (GSO) and 127 packets ({@code bbr_tso_segs_goal}). */
    private static final double MAX_BURST_BYTES = 65535.0;
    private static final double MAX_BURST_PACKETS = 127.0;
    /** Share of the bandwidth at which to pace, against a queue that grows by errors ({@code bbr_pacing_margin_percent}). */
    private static final double PACING_SHARE = 0.99;
    /** Lowest pacing rate in packets per second: the smallest bandwidth that Linux's fixed point holds (2^-24 a us). */
    private static final double MIN_PACKETS_PER_SECOND = 1e6 / (1 << 24);

    /** The modes, in the order of Linux and of the Rust code. */
    enum Mode {
        STARTUP,
        DRAIN,
        PROBE_BW,
        PROBE_RTT
    }

    /** Whether to look for a policer. */
    private final boolean longTerm;
    /** Whether to make room for bursts of acknowledgements. */
    final boolean aggregates;
    /** ProbeRTT's window in bandwidth-delay products. */
    private final double probeRttGain;
    final BbrAggregation aggregation = new BbrAggregation();
    final BbrFilter bandwidth = new BbrFilter(BANDWIDTH_ROUNDS);
    final BbrPolicer policer = new BbrPolicer();
    Mode mode = Mode.STARTUP;
    double mss;
    long minRtt = Units.NEVER;
    boolean roundStart;
    /** Startup has filled the pipe. */
    boolean fullReached;
    /** Phase of ProbeBW's gain cycle. */
    int cycle;
    double cwnd = INITIAL_CWND;
    /** Bytes per second. */
    double pacingRate;
    double pacingGain = HIGH_GAIN;
    /** When pacing lets the next packet leave. */
    long departure;
    long delivered;
    long lost;
    double cwndGain = HIGH_GAIN;
    long nextRoundDelivered;
    /** The window before recovery or ProbeRTT shrank it. */
    double priorCwnd;
    boolean packetConservation;
    Phase priorPhase = Phase.OPEN;

    /** Of the acknowledgement at hand, in packets: what it delivered, what was lost before it, what is in flight. */
    double acked;
    double losses;
    double inFlight;

    BbrModel(Env env, Params params) {
        longTerm = params.on("long_term");
        aggregates = params.on("aggregation");
        probeRttGain = params.number("probe_rtt_gain");
        mss = env.mss;
    }

    /** Bytes per second: the policed rate while one is believed in, else the filter's maximum. */
    final double bw() {
        return policer.inUse ? policer.bandwidth : bandwidth.get();
    }

    /** Packets in flight that keep a path of bandwidth {@code bw} busy at {@code gain} ({@code bbr_bdp}). */
    final double bdp(double bw, double gain) {
        if (minRtt == Units.NEVER) {
            return INITIAL_CWND;
        }
        return Math.ceil(bw * Units.seconds(minRtt) * gain / mss);
    }

    /** Room for the ends' bursts on top ({@code bbr_quantization_budget}). */
    final double budget(double packets) {
        double even = 2.0 * Math.ceil((packets + 3.0 * burst()) / 2.0);
        return mode == Mode.PROBE_BW && cycle == 0 ? even + 2.0 : even;
    }

    /** {@code bbr_inflight}. */
    final double target(double bw, double gain) {
        return budget(bdp(bw, gain));
    }

    /** ProbeRTT's window in packets ({@code bbr_probe_rtt_cwnd}). */
    final double probeRttCwnd() {
        return Math.max(bdp(bw(), probeRttGain), MIN_CWND);
    }

    /** Packets sent at once ({@code bbr_tso_segs_goal}). */
    private double burst() {
        double bytes = Math.min(pacingRate / BURSTS_PER_SECOND, MAX_BURST_BYTES);
        double least = pacingRate < SMALL_BURST_RATE ? 1.0 : 2.0;
        return Math.min(Math.max(Math.floor(bytes / mss), least), MAX_BURST_PACKETS);
    }

    /** What will be in flight when the next packet leaves ({@code bbr_packets_in_net_at_edt}). */
    final double inFlightAtDeparture(long now, double inFlight) {
        double drained = bw() / mss * Units.seconds(Units.since(departure, now));
        double leaving = pacingGain > 1.0 ? burst() : 0.0;
        return Math.max(inFlight + leaving - Math.floor(drained), 0.0);
    }

    /** Paces the window over an RTT, before any bandwidth is known. */
    final void paceFromRtt(long rtt) {
        double seconds = Units.seconds(Math.max(rtt, 1_000));
        pacingRate = HIGH_GAIN * PACING_SHARE * cwnd * mss / seconds;
    }

    final void setPacing(double gain) {
        double rate = Math.max(bw() * gain * PACING_SHARE, mss * MIN_PACKETS_PER_SECOND);
        if (fullReached || rate > pacingRate) {
            pacingRate = rate;
        }
    }

    /** True when the policed rate has just served its time. */
    final boolean policerServed(long now, boolean losses, boolean appLimited) {
        boolean probing = mode == Mode.PROBE_BW;
        return longTerm && policer.update(now, delivered, lost, losses, appLimited, roundStart, probing);
    }

    final void setCwnd(Phase phase) {
        if (acked > 0.0 && !recoverOrRestore(phase)) {
            double bw = bw();
            double packets = bdp(bw, cwndGain);
            if (fullReached && aggregates) {
                packets += aggregation.allowance(bw / mss);
            }
            double target = budget(packets);
            if (fullReached) {
                cwnd = Math.min(cwnd + acked, target);
            } else if (cwnd < target || delivered < INITIAL_CWND * mss) {
                cwnd += acked;
            }
            cwnd = Math.max(cwnd, MIN_CWND);
        }
        if (mode == Mode.PROBE_RTT) {
            cwnd = Math.min(cwnd, probeRttCwnd());
        }
    }

    /** {@code bbr_set_cwnd_to_recover_or_restore}: true when the window is what is in flight, for a round. */
    private boolean recoverOrRestore(Phase phase) {
        if (losses > 0.0) {
            cwnd = Math.max(cwnd - losses, 1.0);
        }
        if (phase == Phase.RECOVERY && priorPhase != Phase.RECOVERY) {
            packetConservation = true;
            nextRoundDelivered = delivered;
            cwnd = inFlight + acked;
        } else if (repairing(priorPhase) && !repairing(phase)) {
            cwnd = Math.max(cwnd, priorCwnd);
            packetConservation = false;
        }
        priorPhase = phase;
        if (packetConservation) {
            cwnd = Math.max(cwnd, inFlight + acked);
        }
        return packetConservation;
    }

    /** Before recovery or ProbeRTT shrink the window. */
    final void saveCwnd() {
        boolean whole = !repairing(priorPhase) && mode != Mode.PROBE_RTT;
        priorCwnd = whole ? cwnd : Math.max(priorCwnd, cwnd);
    }

    private static boolean repairing(Phase phase) {
        return phase == Phase.RECOVERY || phase == Phase.LOSS;
    }

    final double packets(long bytes) {
        return bytes / mss;
    }
}
