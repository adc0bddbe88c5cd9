package paceline.cc;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** Start-ups by name: {@code cubic:start=hystart++} ({@code core/cc/src/start_ups.rs}, those that need no exact gaps). */
final class StartUps {
    private static final String[] NAMES = {"slow", "hystart", "hystart++"};

    /** The parameter {@code ssthresh} of {@code start=slow}. */
    static final Param THRESHOLD = Param.number(
            "ssthresh", "packets at the start of the flow; 0: none", 0, 1e9, "0", "RFC 5681 section 3.1: arbitrarily high");

    private StartUps() {}

    /** Their names. */
    static List<String> names() {
        return Arrays.asList(NAMES.clone());
    }

    /** The parameter {@code start} of a window controller. */
    static Param param(String standard, String source) {
        return Param.choice("start", "start-up", NAMES, standard, source);
    }

    /** The start-ups that take a parameter of this name. */
    static List<String> takers(String param) {
        return param.equals(THRESHOLD.name) ? Collections.singletonList("slow") : Collections.<String>emptyList();
    }

    /** The start-up that the parameter {@code start} names. */
    static StartUp make(Params params, Env env) {
        switch (params.word("start")) {
            case "hystart":
                return new HyStart(env);
            case "hystart++":
                return new HyStartPlusPlus(env);
            default:
                double threshold = params.number(THRESHOLD.name);
                return new SlowStart(env, threshold > 0.0 ? threshold : Double.POSITIVE_INFINITY);
        }
    }
}
