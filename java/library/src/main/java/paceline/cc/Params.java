package paceline.cc;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Checked values for every parameter of one controller. */
final class Params {
    private final Map<String, String> values = new HashMap<>();
    /** Gives models that do not come with the library; null where no file is read. */
    private final ModelSource source;
    /** The model that was given. */
    private MdiTable model;

    /** Those of {@code text}, {@code key=value,key=value}, and the defaults. */
    Params(Entry entry, String text, ModelSource source) throws SpecException {
        this.source = source;
        List<Param> known = entry.params();
        for (String part : text.split(",")) {
            if (!part.isEmpty()) {
                put(entry, known, part);
            }
        }
        if (entry.start != null) {
            checkStartUp(entry);
        }
        for (Param param : known) {
            if (!values.containsKey(param.name)) {
                values.put(param.name, param.standard);
            }
        }
    }

    private void put(Entry entry, List<Param> known, String part) {
        String of = "controller '" + entry.name + "'";
        int equals = part.indexOf('=');
        if (equals < 0) {
            throw new SpecException(of + ": '" + Names.clipped(part) + "' is not of the form key=value");
        }
        String key = part.substring(0, equals);
        String value = part.substring(equals + 1);
        Param param = named(known, key);
        if (param == null) {
            List<String> names = new ArrayList<>();
            for (Param one : known) {
                names.add(one.name);
            }
            String hint = Names.nearest(key, names);
            throw new SpecException(of + " has no parameter '" + Names.clipped(key) + "'; " + hint);
        }
        if (values.containsKey(key)) {
            throw new SpecException(of + ": parameter '" + key + "' is given twice; keep one");
        }
        if (param.isModel && !param.takes(value) && source != null) {
            model = given(of, value);
        } else if (!param.takes(value)) {
            throw new SpecException(of + ": " + key + "=" + Names.clipped(value) + " is not " + param.wanted());
        }
        values.put(key, value);
    }

    private MdiTable given(String of, String name) {
        try {
            return MdiText.read(source.text(name));
        } catch (IOException | IllegalArgumentException error) {
            throw new SpecException(of + ": model=" + Names.clipped(name) + ": " + error.getMessage());
        }
    }

    private static Param named(List<Param> params, String name) {
        for (Param param : params) {
            if (param.name.equals(name)) {
                return param;
            }
        }
        return null;
    }

    /** A parameter of one start-up beside another is a mistake. */
    private void checkStartUp(Entry entry) {
        String given = values.get(entry.start.name);
        String start = given == null ? entry.start.standard : given;
        for (String key : values.keySet()) {
            List<String> takers = StartUps.takers(key);
            if (!takers.isEmpty() && !takers.contains(start)) {
                throw new SpecException("controller '" + entry.name + "': " + key + " does not apply to start=" + start
                        + "; it goes with " + Names.listed(takers, ", "));
            }
        }
    }

    /** The value of a numeric parameter. */
    double number(String name) {
        return Param.number(word(name));
    }

    /** The value of a parameter that takes a word. */
    String word(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalStateException("the controller's entry declares no '" + name + "'");
        }
        return value;
    }

    /** Whether a switch is on. */
    boolean on(String name) {
        return word(name).equals("on");
    }

    /** The model that the parameter {@code model} names. */
    MdiTable model() {
        return model == null ? Models.shipped(word("model")) : model;
    }

    /** The use of ECN that the parameter {@code ecn} names. */
    Ecn ecn() {
        return on("ecn") ? Ecn.CLASSIC : Ecn.OFF;
    }
}
