package paceline.cc;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What a wrong name was meant to be ({@code core/cc/src/names.rs}). */
final class Names {
    /** Names within this edit distance are near ... */
    private static final int NEAR = 3;
    /** ... and this many of them are suggested. */
    private static final int SUGGESTED = 3;
    /** Characters of a text from outside that an error repeats, so that it stays one readable line. */
    private static final int CLIPPED = 40;

    private Names() {}

    /** "did you mean ..." for a name that is not one of {@code names}: the near ones, or the whole list. */
    static String nearest(String name, List<String> names) {
        if (names.isEmpty()) {
            return "it takes none";
        }
        String given = clipped(name);
        List<String> near = new ArrayList<>();
        for (int wanted = 0; wanted <= NEAR; wanted++) {
            List<String> equal = new ArrayList<>();
            for (String known : names) {
                if (wanted < known.length() && distance(given, known) == wanted) {
                    equal.add(known);
                }
            }
            Collections.sort(equal);
            near.addAll(equal);
        }
        if (near.isEmpty()) {
            return "known are " + listed(names, ", ");
        }
        return "did you mean " + listed(near.subList(0, Math.min(near.size(), SUGGESTED)), " or ") + "?";
    }

    /** The names with something between them. ({@code String.join} is API 26.) */
    static String listed(List<String> names, String between) {
        StringBuilder list = new StringBuilder();
        for (String name : names) {
            list.append(list.length() == 0 ? "" : between).append(name);
        }
        return list.toString();
    }

    /** At most 40 characters of a text from outside, none of them a control character. */
    static String clipped(String text) {
        StringBuilder clipped = new StringBuilder();
        int count = 0;
        for (int index = 0; index < text.length() && count < CLIPPED; ) {
            int character = text.codePointAt(index);
            if (!Character.isISOControl(character)) {
                clipped.appendCodePoint(character);
                count++;
            }
            index += Character.charCount(character);
        }
        return clipped.length() < text.length() ? clipped.append('…').toString() : clipped.toString();
    }

    /** Insertions, deletions, substitutions and transpositions from one to the other (Damerau and Levenshtein). */
    private static int distance(String a, String b) {
        int rows = a.length();
        int columns = b.length();
        int far = rows + columns;
        int[][] cost = new int[rows + 2][columns + 2];
        cost[0][0] = far;
        for (int row = 0; row <= rows; row++) {
            cost[row + 1][0] = far;
            cost[row + 1][1] = row;
        }
        for (int column = 0; column <= columns; column++) {
            cost[0][column + 1] = far;
            cost[1][column + 1] = column;
        }
        Map<Character, Integer> lastRow = new HashMap<>();
        for (int row = 1; row <= rows; row++) {
            int lastColumn = 0;
            for (int column = 1; column <= columns; column++) {
                Integer last = lastRow.get(b.charAt(column - 1));
                int swapRow = last == null ? 0 : last;
                int swapColumn = lastColumn;
                boolean equal = a.charAt(row - 1) == b.charAt(column - 1);
                if (equal) {
                    lastColumn = column;
                }
                int changed = cost[row][column] + (equal ? 0 : 1);
                int moved = Math.min(cost[row + 1][column], cost[row][column + 1]) + 1;
                int swapped = cost[swapRow][swapColumn] + (row - swapRow - 1) + 1 + (column - swapColumn - 1);
                cost[row + 1][column + 1] = Math.min(Math.min(changed, moved), swapped);
            }
            lastRow.put(a.charAt(row - 1), row);
        }
        return cost[rows + 1][columns + 1];
    }
}
