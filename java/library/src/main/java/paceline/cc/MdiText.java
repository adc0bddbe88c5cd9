package paceline.cc;

import java.util.ArrayList;
import java.util.List;

/**
 * Reads a model: the published CSV, and ours, which is the same below lines of {@code #} ({@code core/cc/src/mdi/text.rs}).
 * Errors are the Rust code's: line and column, and what is wrong.
 */
final class MdiText {
    /** States that a grid may have (our choice: four times the largest published one). */
    private static final int MOST_STATES = 1024;
    /** Characters of the longest text that is read: a million cells of 32 characters (our choice). */
    private static final int MAX_TEXT = 32 << 20;
    /** What the sum of a block may differ from 1 (our choice: sums of numbers with six digits). */
    private static final double TOLERANCE = 1e-6;
    private static final String HEADER = "NW,Wmin,Wmax,Wstep,ND,Dmin,Dmax,Dstep";
    private static final int HEADER_VALUES = 8;

    private final String text;
    private int position;
    /** Number of the line last read, from 1. */
    private int number;
    /** The release's epoch of 5 ms, the 40 ms of its training, and its literals, unless comments say otherwise. */
    private long epoch = 5 * Units.MILLISECOND;
    private long rtt = 40 * Units.MILLISECOND;
    private boolean level;
    private double up = 21.0;
    private double down = 0.975;

    private MdiText(String text) {
        this.text = text;
    }

    /**
     * Reads a model.
     *
     * @throws IllegalArgumentException at the first thing that is wrong, with one line that says where and what
     */
    static MdiTable read(String text) {
        return new MdiText(text).table();
    }

    private static IllegalArgumentException wrong(int line, int column, String problem) {
        return new IllegalArgumentException("line " + line + ", column " + column + ": " + problem);
    }

    /** The next line without its end; null behind the last. */
    private String line() {
        if (position >= text.length()) {
            return null;
        }
        number++;
        int end = text.indexOf('\n', position);
        int next = end < 0 ? text.length() : end + 1;
        int until = end < 0 ? text.length() : end;
        String line = text.substring(position, end > position && text.charAt(end - 1) == '\r' ? end - 1 : until);
        position = next;
        return line;
    }

    private MdiTable table() {
        if (text.length() > MAX_TEXT) {
            throw wrong(1, 1, "it is longer than " + (MAX_TEXT >> 20) + " MiB; is it a model?");
        }
        String header = header();
        int at = number;
        String[] cells = header.split(",", -1);
        long[] values = new long[HEADER_VALUES];
        for (int index = 0; index < Math.min(cells.length, HEADER_VALUES); index++) {
            values[index] = whole(cells[index].trim(), index);
        }
        if (cells.length != HEADER_VALUES) {
            throw wrong(at, Math.min(cells.length, HEADER_VALUES),
                    "the header has " + cells.length + " values instead of the 8 of " + HEADER);
        }
        MdiAxis windows = axis(values, 0);
        MdiAxis delays = axis(values, 4);
        if ((long) windows.count * delays.count > MOST_STATES) {
            throw wrong(at, 1, delays.count + " delay moves times " + windows.count + " window moves are more than "
                    + MOST_STATES + " states; take larger steps");
        }
        int states = windows.count * delays.count;
        List<double[]> rows = new ArrayList<>();
        for (int row = 0; row < states; row++) {
            String line = line();
            if (line == null || line.trim().isEmpty()) {
                throw ends(at + row + 1, "row " + (row + 1) + " of " + states);
            }
            rows.add(row(line, states, windows.count));
        }
        for (String line = line(); line != null; line = line()) {
            if (!line.trim().isEmpty()) {
                throw wrong(number, 1, "there is more text behind the last of " + states + " rows");
            }
        }
        return new MdiTable(windows, delays, rows, epoch, rtt, level, up, down);
    }

    private static IllegalArgumentException ends(int line, String before) {
        return wrong(line, 1, "the text ends before " + before + "; is it a model, and whole?");
    }

    /** Takes in the comments, and gives the first line that is not one. */
    private String header() {
        for (String line = line(); line != null; line = line()) {
            if (line.startsWith("#")) {
                setting(line.substring(1));
            } else if (!line.trim().isEmpty()) {
                return line;
            }
        }
        throw ends(Math.max(number, 1), "its header " + HEADER);
    }

    private void setting(String comment) {
        int colon = comment.indexOf(':');
        if (colon < 0) {
            return;
        }
        String given = comment.substring(colon + 1).trim();
        switch (comment.substring(0, colon).trim()) {
            case "epoch_ms":
                boolean digits = given.matches("\\+?[0-9]+");
                double millis = digits ? Param.number(given) : Double.NaN;
                epoch = (long) within("epoch_ms", given, millis, 1, 1000, "a whole number from 1 to 1000")
                        * Units.MILLISECOND;
                break;
            case "rtt_ms":
                rtt = Units.whole(
                        within("rtt_ms", given, Param.number(given), 0.1, 60_000, "from 0.1 to 60000") * 1e6);
                break;
            case "delay":
                level = given.equals("level");
                if (!level && !given.equals("change")) {
                    throw setting("delay", given, "change or level");
                }
                break;
            case "up":
                up = within("up", given, Param.number(given), 0, 10_000, "from 0 to 10000");
                break;
            case "down":
                down = within("down", given, Param.number(given), 0.01, 1, "from 0.01 to 1");
                break;
            default:
                // For people.
        }
    }

    private double within(String name, String given, double value, double least, double most, String wanted) {
        if (value >= least && value <= most) {
            return value;
        }
        throw setting(name, given, wanted);
    }

    private IllegalArgumentException setting(String name, String given, String wanted) {
        return wrong(number, 1, name + " is '" + Names.clipped(given) + "' and must be " + wanted);
    }

    private long whole(String given, int index) {
        try {
            return Long.parseLong(given);
        } catch (NumberFormatException none) {
            String shown = Names.clipped(given);
            throw wrong(number, index + 1, "'" + shown + "' is not a whole number; a model begins with " + HEADER);
        }
    }

    private MdiAxis axis(long[] values, int at) {
        long min = values[at + 1];
        long max = values[at + 2];
        long step = values[at + 3];
        MdiAxis axis = MdiAxis.of(min, max, step);
        if (axis == null) {
            throw wrong(number, at + 2, "no axis goes from " + min + " to " + max + " by " + step
                    + "; give min <= max, a step of 1 or more that divides max - min, all within " + MdiAxis.FARTHEST);
        }
        if (values[at] != axis.count) {
            throw wrong(number, at + 1, "the header counts " + values[at] + " values, and its bounds and step give "
                    + axis.count + "; correct one of them");
        }
        return axis;
    }

    private double[] row(String line, int states, int windows) {
        String[] cells = line.split(",", -1);
        if (cells.length != states) {
            throw wrong(number, Math.min(cells.length, states),
                    "the row has " + cells.length + " numbers instead of " + states);
        }
        double[] row = new double[states];
        double sum = 0.0;
        for (int index = 0; index < states; index++) {
            double share = Param.number(cells[index].trim());
            if (!(share >= 0.0 && share <= 1.0)) {
                String shown = Names.clipped(cells[index].trim());
                throw wrong(number, index + 1, "'" + shown + "' is not a number from 0 to 1");
            }
            row[index] = Math.abs(share);
            sum += row[index];
            if ((index + 1) % windows == 0) {
                if (sum != 0.0 && Math.abs(sum - 1.0) > TOLERANCE) {
                    throw wrong(number, index + 2 - windows, "the block that begins here sums to " + Param.plain(sum)
                            + ", and must sum to 1 or be all 0; normalise it, or train it again");
                }
                sum = 0.0;
            }
        }
        return row;
    }
}
