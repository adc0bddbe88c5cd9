package paceline.cc;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** What is known of a controller by name. */
abstract class Entry {
    /** The name in {@code name:key=value}. */
    final String name;
    /** The parameter {@code start}, for a window controller. */
    final Param start;
    private final List<Param> own;

    Entry(String name, Param start, Param... own) {
        this.name = name;
        this.start = start;
        this.own = Arrays.asList(own);
    }

    /** Makes the controller. */
    abstract Controller make(Params params, Env env);

    /** Every parameter that it takes: {@code start}, of its start-ups, and its own. */
    List<Param> params() {
        List<Param> all = new ArrayList<>();
        if (start != null) {
            all.add(start);
            all.add(StartUps.THRESHOLD);
        }
        all.addAll(own);
        return all;
    }
}
