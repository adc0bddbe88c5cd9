package paceline.cc;

import java.math.BigDecimal;
import java.util.Arrays;

/** One parameter of a controller or a start-up ({@code core/cc/src/entry.rs}). */
final class Param {
    /** The values of a switch. */
    private static final String[] ON_OFF = {"on", "off"};

    /** The key. */
    final String name;
    /** Its unit, as people read it. */
    final String unit;
    /** Its default, in the form a person would write. */
    final String standard;
    /** Where the default comes from. */
    final String source;
    /** It takes the name of a model of transitions, or a file with one. */
    final boolean isModel;
    /** The words that it takes; none for a number between two bounds, both included. */
    private final String[] words;
    private final double min;
    private final double max;

    private Param(
            String name,
            String unit,
            boolean isModel,
            String[] words,
            double min,
            double max,
            String standard,
            String source) {
        this.name = name;
        this.isModel = isModel;
        this.unit = unit;
        this.words = words;
        this.min = min;
        this.max = max;
        this.standard = standard;
        this.source = source;
    }

    static Param number(String name, String unit, double min, double max, String standard, String source) {
        return new Param(name, unit, false, null, min, max, standard, source);
    }

    static Param choice(String name, String unit, String[] words, String standard, String source) {
        return new Param(name, unit, false, words.clone(), 0, 0, standard, source);
    }

    static Param onOff(String name, String unit, String standard, String source) {
        return choice(name, unit, ON_OFF, standard, source);
    }

    static Param model(String name, String unit, String standard, String source) {
        String[] shipped = Models.SHIPPED.toArray(new String[0]);
        return new Param(name, unit, true, shipped, 0, 0, standard, source);
    }

    /** Whether {@code text} is a value of it. */
    boolean takes(String text) {
        if (words == null) {
            double number = number(text);
            return number >= min && number <= max;
        }
        for (String word : words) {
            if (word.equals(text)) {
                return true;
            }
        }
        return false;
    }

    /** What values it takes, in a sentence. */
    String wanted() {
        if (words == null) {
            return "a number from " + plain(min) + " to " + plain(max);
        }
        String listed = "one of " + Names.listed(Arrays.asList(words), ", ");
        return isModel ? listed + ", or a file of this machine that its user names" : listed;
    }

    /** The number that a text writes in decimal; not-a-number for other texts. */
    static double number(String text) {
        for (int index = 0; index < text.length(); index++) {
            if ("0123456789+-.eE".indexOf(text.charAt(index)) < 0) {
                return Double.NaN;
            }
        }
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException none) {
            return Double.NaN;
        }
    }

    /** A number in decimal, without an exponent. */
    static String plain(double number) {
        return new BigDecimal(Double.toString(number)).stripTrailingZeros().toPlainString();
    }
}
