package paceline.cc;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Controllers by name: {@code copa}, {@code copa:delta=0.1,mode=default}. Names, parameters, defaults and errors are those of
 * the Rust registry ({@code core/cc/src/registry.rs}), for the controllers and start-ups that are here.
 */
public final class Controllers {
    private static final Param ECN =
            Param.onOff("ecn", "switch", "off", "Linux tcp_ecn=2: answers to ECN, does not ask for it");

    private static final Entry RENO = new Entry("reno", StartUps.param("slow", "RFC 5681 section 3.1"), ECN) {
        @Override
        Controller make(Params params, Env env) {
            return new WindowController(env, StartUps.make(params, env), new Reno(env, params.ecn()));
        }
    };

    private static final Entry CUBIC = new Entry(
            "cubic",
            StartUps.param("hystart", "Linux tcp_cubic.c: hystart=1"),
            Param.number("c", "packets/s^3", 0.001, 100, "0.4", "RFC 9438 section 5.1"),
            Param.number("beta", "share kept on a reduction", 0.1, 0.95, "0.7", "RFC 9438 section 4.6"),
            Param.onOff("fast_convergence", "switch", "on", "RFC 9438 section 4.7"),
            Param.onOff("reno_friendly", "switch", "on", "RFC 9438 section 4.3"),
            Param.number(
                    "opening",
                    "% a round trip, at least, until the first loss",
                    0,
                    50,
                    "5",
                    "Linux tcp_cubic.c: cnt <= 20; RFC 9438 has 0"),
            Param.choice(
                    "packets",
                    "how windows are counted",
                    new String[] {"parts", "whole"},
                    "parts",
                    "RFC 9438 has parts; whole as Linux tcp_cubic.c, for comparisons with the kernel"),
            ECN) {
        @Override
        Controller make(Params params, Env env) {
            return new WindowController(env, StartUps.make(params, env), new Cubic(env, params));
        }
    };

    private static final Entry BBR = new Entry(
            "bbr",
            null,
            Param.number("cwnd_gain", "BDP", 1, 100, "2", "Linux tcp_bbr.c, bbr_cwnd_gain"),
            Param.number(
                    "probe_gain",
                    "of the bandwidth in the phase that probes for more",
                    1,
                    2.885,
                    "1.25",
                    "Linux tcp_bbr.c, bbr_pacing_gain"),
            Param.number(
                    "probe_rtt",
                    "s without a smaller RTT until ProbeRTT",
                    0.1,
                    1e6,
                    "10",
                    "Linux tcp_bbr.c, bbr_min_rtt_win_sec"),
            Param.number(
                    "probe_rtt_gain",
                    "BDP in flight in ProbeRTT, at least 4 packets",
                    0,
                    1,
                    "0",
                    "Linux tcp_bbr.c, bbr_probe_rtt_cwnd"),
            Param.onOff("long_term", "policer detection", "on", "Linux tcp_bbr.c, bbr_lt_bw_sampling"),
            Param.onOff(
                    "aggregation",
                    "window for bursts of acknowledgements",
                    "on",
                    "Linux tcp_bbr.c, bbr_update_ack_aggregation")) {
        @Override
        Controller make(Params params, Env env) {
            return new Bbr(env, params);
        }
    };

    private static final Entry COPA = new Entry(
            "copa",
            null,
            Param.number("delta", "per packet", 0.001, 10, "0.5", "NSDI 2018 section 2: default mode"),
            Param.choice(
                    "mode",
                    "mode",
                    new String[] {"auto", "default", "competitive"},
                    "auto",
                    "NSDI 2018 section 3.3: switches by the queue it sees"),
            Param.number(
                    "tol",
                    "packets of queue that count as empty",
                    0,
                    1000,
                    "1",
                    "our choice: one flow cannot see less of a queue; NSDI 2018 section 3.3 has none"),
            Param.number("rttmin_window", "s", 0.1, 1e6, "10", "NSDI 2018 section 2.1"),
            Param.choice(
                    "rules",
                    "where they differ",
                    new String[] {"paper", "release"},
                    "paper",
                    "NSDI 2018; release: the authors' genericCC")) {
        @Override
        Controller make(Params params, Env env) {
            return new Copa(env, params);
        }
    };

    private static final Entry MDI = new Entry(
            "mdi",
            null,
            Param.model(
                    "model",
                    "which matrix",
                    "verus",
                    "our choice: the ALCC paper, section 4.3, takes one of Verus"),
            Param.number(
                    "up",
                    "packets added when the delay falls by more than the matrix has (0: as the model says)",
                    0,
                    10_000,
                    "0",
                    "our choice: training measures it; a published matrix has the release's 21"),
            Param.number(
                    "down",
                    "factor on the window when the delay rises by more than the matrix has (0: as the model says)",
                    0,
                    1,
                    "0",
                    "our choice: training measures it; a published matrix has the release's 0.975"),
            Param.choice(
                    "bins",
                    "which value of the grid a move is",
                    new String[] {"nearest", "release"},
                    "nearest",
                    "as training counts; the release rounds down, half a step below")) {
        @Override
        Controller make(Params params, Env env) {
            return new Mdi(env, params);
        }
    };

    /** In the order of the Rust registry. */
    private static final List<Entry> ALL = Collections.unmodifiableList(Arrays.asList(RENO, CUBIC, BBR, COPA, MDI));

    private Controllers() {}

    /**
     * Makes a controller.
     *
     * @param spec its name and parameters, {@code name:key=value,key=value}
     * @param env what it is made with
     * @return a new controller at its initial window
     * @throws SpecException when there is no such controller or parameter, or a value is not one that the parameter takes
     */
    public static Controller create(String spec, Env env) throws SpecException {
        return create(spec, env, null);
    }

    /**
     * Makes a controller of a text that the user of this machine wrote: where it names a model that does not come with the
     * library ({@code mdi:model=own.csv}), the source gives its text.
     *
     * @param spec its name and parameters
     * @param env what it is made with
     * @param models gives the text of such a model; null where there is none to be had
     * @return a new controller at its initial window
     * @throws SpecException as {@link #create(String, Env)}, and when the model cannot be read or is malformed: the message names
     *     line and column
     */
    public static Controller create(String spec, Env env, ModelSource models) throws SpecException {
        int colon = spec.indexOf(':');
        String name = colon < 0 ? spec : spec.substring(0, colon);
        String rest = colon < 0 ? "" : spec.substring(colon + 1);
        for (Entry entry : ALL) {
            if (entry.name.equals(name)) {
                return entry.make(new Params(entry, rest, models), env);
            }
        }
        String given = Names.clipped(name);
        throw new SpecException("unknown controller '" + given + "'; " + Names.nearest(name, names()));
    }

    /**
     * The names of all controllers.
     *
     * @return a new list, in the order in which they are listed everywhere
     */
    public static List<String> names() {
        List<String> names = new ArrayList<>();
        for (Entry entry : ALL) {
            names.add(entry.name);
        }
        return names;
    }
}
