package paceline.cc;

/**
 * The smallest or largest span of the last this many nanoseconds, in bounded memory and without allocation
 * ({@code core/cc/src/filter.rs}).
 *
 * <p>A sample that does not beat the newest entry and follows its opening by less than 1/32 of the window only prolongs
 * that entry. So an extreme is never forgotten early and is remembered at most 1/32 of the window too long (our choice:
 * less than the windows' own arbitrariness).
 */
final class WindowedFilter {
    /** Entries a full window can hold, before a window that has just grown. */
    private static final long SLICES = 32;
    /** Ring size: twice the slices, because a window may grow while entries made for the shorter one are still held. */
    private static final int CAPACITY = 64;

    private final boolean largest;
    private final long[] values = new long[CAPACITY];
    /** When the first sample of an entry came, and the last: its age. */
    private final long[] opened = new long[CAPACITY];
    private final long[] seen = new long[CAPACITY];
    private int head;
    private int length;

    private WindowedFilter(boolean largest) {
        this.largest = largest;
    }

    /** Smallest of the window. */
    static WindowedFilter smallest() {
        return new WindowedFilter(false);
    }

    /** Largest of the window. */
    static WindowedFilter largest() {
        return new WindowedFilter(true);
    }

    /** No sample has come. */
    boolean isEmpty() {
        return length == 0;
    }

    /** The extreme; zero before the first sample. The last sample never expires. */
    long get() {
        return length > 0 ? values[head] : 0;
    }

    /** When the extreme was last seen; zero before the first sample. */
    long seen() {
        return length > 0 ? opened[head] : 0;
    }

    /** Takes a sample and forgets what is older than {@code window}, whose length may differ from call to call. */
    void update(long now, long value, long window) {
        while (length > 0 && beats(value, values[back()])) {
            length--;
        }
        if (length > 0 && (Units.since(now, opened[back()]) < window / SLICES || length == CAPACITY)) {
            seen[back()] = now;
        } else {
            length++;
            values[back()] = value;
            opened[back()] = now;
            seen[back()] = now;
        }
        while (length > 1 && Units.since(now, seen[head]) > window) {
            head = (head + 1) % CAPACITY;
            length--;
        }
    }

    /** Forgets everything. */
    void clear() {
        length = 0;
    }

    private int back() {
        return (head + length - 1) % CAPACITY;
    }

    /** Equal counts as beating: the newer sample lives longer. */
    private boolean beats(long value, long old) {
        return largest ? value >= old : value <= old;
    }
}
