package paceline.cc;

/**
 * BBR version 1: paces at the measured bottleneck bandwidth and keeps about two bandwidth-delay products in flight (Linux
 * {@code tcp_bbr.c}; draft-cardwell-iccrg-bbr-congestion-control-00). What differs from Linux, and why, is at the head of
 * {@code core/cc/src/bbr.rs}.
 */
final class Bbr extends BbrModel {
    /** Drain's pacing gain: about the reciprocal of Startup's ({@code bbr_drain_gain}). */
    private static final double DRAIN_GAIN = 88.0 / 256.0;
    /** RTT assumed before the first sample ({@code bbr_init_pacing_rate_from_rtt}). */
    private static final long ASSUMED_RTT = Units.MILLISECOND;
    /** ProbeBW's pacing gains ({@code bbr_pacing_gain}). */
    private static final double[] CYCLE = {320.0 / 256.0, 192.0 / 256.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
    /** Possible first phases of the cycle: all but the one below 1 ({@code bbr_cycle_rand}). */
    private static final int CYCLE_CHOICES = 7;
    /** ProbeRTT's duration ({@code bbr_probe_rtt_mode_ms}). */
    private static final long PROBE_RTT_TIME = 200 * Units.MILLISECOND;
    /** Growth of the bandwidth by which Startup goes on ({@code bbr_full_bw_thresh}). */
    private static final double FULL_THRESHOLD = 1.25;
    /** Rounds without such growth after which the pipe is full ({@code bbr_full_bw_cnt}). */
    private static final int FULL_ROUNDS = 3;
    /** No time, no position. */
    private static final long NONE = -1;

    private final Pcg64 random;
    private final double probeBwCwndGain;
    private final double probeGain;
    private final long minRttWindow;

    private long minRttTime;
    private long rounds;
    private double fullBandwidth;
    private int fullCount;
    private long cycleTime;
    private long probeRttDone = NONE;
    private boolean probeRttRoundDone;
    private boolean idleRestart;
    private boolean seenRtt;
    private long lastAck;
    /** Bytes lost since the last acknowledgement. */
    private long newLosses;
    /** Packets sent while this many bytes (both included) had been delivered left in ProbeRTT. */
    private long limitedFrom = NONE;
    private long limitedTo;
    /** The application, not the window or pacing, limits the flow now. */
    private boolean sentLimited;

    /** Of the acknowledgement at hand: it has a rate sample that counts, its packets were limited by the application ... */
    private boolean sampled;
    private boolean appLimited;
    /** ... and what was in flight before it, in packets. */
    private double priorInFlight;

    Bbr(Env env, Params params) {
        super(env, params);
        random = new Pcg64(env.seed);
        probeBwCwndGain = params.number("cwnd_gain");
        probeGain = params.number("probe_gain");
        minRttWindow = Units.fromSeconds(params.number("probe_rtt"));
        paceFromRtt(ASSUMED_RTT);
    }

    @Override
    public long onSent(Sent sent) {
        sentLimited = sent.appLimited;
        long gap = Units.timeFor(sent.bytes, Units.whole(pacingRate));
        departure = Units.plus(Math.max(departure, sent.now), gap);
        return 0;
    }

    @Override
    public void onAck(Ack ack) {
        delivered = ack.delivered;
        lastAck = ack.now;
        RateSample rate = ack.rate;
        sampled = rate.valid && rate.delivered > 0 && rate.interval > 0;
        boolean marked = limitedFrom != NONE && limitedFrom <= rate.priorDelivered && rate.priorDelivered <= limitedTo;
        appLimited = rate.valid && (rate.appLimited || marked);
        acked = packets(ack.bytes);
        losses = packets(newLosses);
        inFlight = packets(ack.inFlight);
        priorInFlight = packets(ack.priorInFlight);
        newLosses = 0;
        updateBandwidth(ack);
        updateAggregation(ack.now);
        updateCycle(ack.now);
        checkFull();
        checkDrain(ack.now);
        updateMinRtt(ack);
        updateGains();
        if (!seenRtt && ack.srtt > 0) {
            seenRtt = true;
            paceFromRtt(ack.srtt);
        }
        setPacing(pacingGain);
        setCwnd(ack.phase);
    }

    private void updateBandwidth(Ack ack) {
        roundStart = false;
        if (!sampled) {
            return;
        }
        if (ack.rate.priorDelivered >= nextRoundDelivered) {
            nextRoundDelivered = ack.delivered;
            rounds++;
            roundStart = true;
            packetConservation = false;
        }
        sampleLongTerm(ack.now, losses > 0.0, appLimited);
        double rate = ack.rate.delivered / Units.seconds(ack.rate.interval);
        if (!appLimited || rate >= bandwidth.get()) {
            bandwidth.update(rounds, rate);
        }
    }

    private void sampleLongTerm(long now, boolean losses, boolean appLimited) {
        if (policerServed(now, losses, appLimited)) {
            enterProbeBw(now);
        }
    }

    private void updateAggregation(long now) {
        if (aggregates && acked > 0.0 && sampled) {
            aggregation.update(now, roundStart, acked, bw() / mss, cwnd);
        }
    }

    private void updateCycle(long now) {
        if (mode != Mode.PROBE_BW) {
            return;
        }
        boolean fullLength = Units.since(now, cycleTime) > minRtt;
        double flight = inFlightAtDeparture(now, priorInFlight);
        double bw = bandwidth.get();
        boolean next;
        if (pacingGain == 1.0) {
            next = fullLength;
        } else if (pacingGain > 1.0) {
            next = fullLength && (losses > 0.0 || flight >= target(bw, pacingGain));
        } else {
            next = fullLength || flight <= target(bw, 1.0);
        }
        if (next) {
            nextPhase(now);
        }
    }

    private void nextPhase(long now) {
        cycle = (cycle + 1) % CYCLE.length;
        cycleTime = now;
    }

    private void enterProbeBw(long now) {
        mode = Mode.PROBE_BW;
        cycle = CYCLE.length - 1 - random.below(CYCLE_CHOICES);
        nextPhase(now);
    }

    private void checkFull() {
        if (fullReached || !roundStart || appLimited) {
            return;
        }
        if (bandwidth.get() >= FULL_THRESHOLD * fullBandwidth) {
            fullBandwidth = bandwidth.get();
            fullCount = 0;
            return;
        }
        fullCount++;
        fullReached = fullCount >= FULL_ROUNDS;
    }

    private void checkDrain(long now) {
        if (mode == Mode.STARTUP && fullReached) {
            mode = Mode.DRAIN;
        }
        if (mode == Mode.DRAIN && inFlightAtDeparture(now, inFlight) <= target(bandwidth.get(), 1.0)) {
            enterProbeBw(now);
        }
    }

    private void updateMinRtt(Ack ack) {
        long now = ack.now;
        boolean expired = minRtt < Units.NEVER && now > Units.plus(minRttTime, minRttWindow);
        if (ack.rtt != Units.NEVER && (ack.rtt <= minRtt || (expired && !maybeDelayed(ack)))) {
            minRtt = ack.rtt;
            minRttTime = now;
        }
        if (expired && !idleRestart && mode != Mode.PROBE_RTT) {
            saveCwnd();
            mode = Mode.PROBE_RTT;
            probeRttDone = NONE;
        }
        if (mode == Mode.PROBE_RTT) {
            markLimited(ack.inFlight);
            if (probeRttDone != NONE) {
                probeRttRoundDone |= roundStart;
                if (probeRttRoundDone) {
                    checkProbeRttDone(now);
                }
            } else if (inFlight <= probeRttCwnd()) {
                probeRttDone = Units.plus(now, PROBE_RTT_TIME);
                probeRttRoundDone = false;
                nextRoundDelivered = delivered;
            }
        }
        if (sampled) {
            idleRestart = false;
        }
    }

    /** A lone packet below full size: its receiver may have waited for a second one ({@code FLAG_ACK_MAYBE_DELAYED}). */
    private boolean maybeDelayed(Ack ack) {
        return ack.packets.count() == 1 && ack.bytes < mss && ack.cePackets == 0;
    }

    private void checkProbeRttDone(long now) {
        if (probeRttDone == NONE || now <= probeRttDone) {
            return;
        }
        minRttTime = now;
        cwnd = Math.max(cwnd, priorCwnd);
        if (fullReached) {
            enterProbeBw(now);
        } else {
            mode = Mode.STARTUP;
        }
    }

    /** Samples of packets sent until what is in flight now has been delivered do not lower the bandwidth. */
    private void markLimited(long flight) {
        if (limitedFrom == NONE || limitedTo < delivered) {
            limitedFrom = delivered;
        }
        limitedTo = Math.max(Units.plus(delivered, flight), 1);
    }

    private void updateGains() {
        cwndGain = mode == Mode.PROBE_BW ? probeBwCwndGain : mode == Mode.PROBE_RTT ? 1.0 : HIGH_GAIN;
        switch (mode) {
            case STARTUP:
                pacingGain = HIGH_GAIN;
                break;
            case DRAIN:
                pacingGain = DRAIN_GAIN;
                break;
            case PROBE_BW:
                pacingGain = policer.inUse ? 1.0 : cycle == 0 ? probeGain : CYCLE[cycle];
                break;
            default:
                pacingGain = 1.0;
        }
    }

    @Override
    public void onLoss(Loss loss) {
        lost = Units.plus(lost, loss.bytes);
        newLosses = Units.plus(newLosses, loss.bytes);
        if (loss.newEpisode) {
            saveCwnd();
        }
    }

    @Override
    public void onTimeout(Timeout timeout) {
        // What is still in flight is counted when it is found lost (RACK).
        lost = Units.plus(lost, Units.since(timeout.priorInFlight, timeout.inFlight));
        if (timeout.count == 1) {
            saveCwnd();
        }
        priorPhase = Phase.LOSS;
        fullBandwidth = 0.0;
        roundStart = true;
        sampleLongTerm(lastAck, true, false);
        // Linux tcp_enter_loss: one packet beside what is still in flight.
        cwnd = packets(timeout.inFlight) + 1.0;
    }

    @Override
    public void onSpurious(long now) {
        fullBandwidth = 0.0;
        fullCount = 0;
        policer.reset(now, delivered, lost);
    }

    /** {@code CA_EVENT_TX_START}: only where the application, not a slow pacing rate, left nothing in flight. */
    @Override
    public void onRestart(Restart restart) {
        if (!sentLimited) {
            return;
        }
        idleRestart = true;
        aggregation.restart(restart.now);
        if (mode == Mode.PROBE_BW) {
            setPacing(1.0);
        } else if (mode == Mode.PROBE_RTT) {
            checkProbeRttDone(restart.now);
        }
    }

    @Override
    public void onAppLimited(long now, long flight) {
        sentLimited = true;
    }

    @Override
    public void onMss(long now, long bytes) {
        long size = Math.max(bytes, 1);
        double scale = mss / size;
        mss = size;
        cwnd = Math.max(cwnd * scale, 1.0);
        priorCwnd *= scale;
    }

    @Override
    public long window() {
        return Units.whole(Math.max(cwnd, 1.0) * mss);
    }

    @Override
    public void pacing(Pacing answer) {
        answer.rate(Units.whole(pacingRate));
    }

    @Override
    public Recovery recovery() {
        return Recovery.CONTROLLER;
    }

    @Override
    public boolean cruises() {
        return mode == Mode.PROBE_BW;
    }

    @Override
    public void describe(Variables variables) {
        variables.take("cwnd_packets", cwnd);
        variables.take("pacing_mbps", pacingRate * 8e-6);
        variables.take("bandwidth_mbps", bw() * 8e-6);
        if (minRtt < Units.NEVER) {
            variables.take("min_rtt_ms", Units.millis(minRtt));
        }
        variables.take("mode", mode.ordinal());
        variables.take("pacing_gain", pacingGain);
        variables.take("rounds", rounds);
        variables.take("full_reached", fullReached ? 1 : 0);
        variables.take("policed", policer.inUse ? 1 : 0);
        variables.take("extra_acked_packets", aggregation.allowance(Double.POSITIVE_INFINITY));
    }
}
