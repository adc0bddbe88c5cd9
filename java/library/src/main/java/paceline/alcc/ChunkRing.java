package paceline.alcc;

/** Chunks in flight, from the oldest on. Grows as needed; allocates nothing after that. */
final class ChunkRing {
    private Chunk[] slots = filled(16);
    /** Numbers of the oldest and of the next chunk; they count up. */
    private long first;
    private long next;
    /** Number of the first chunk since the window or the application last stopped the flow. */
    private long burstFrom;

    int size() {
        return (int) (next - first);
    }

    /** The {@code index}th from the oldest. */
    Chunk get(int index) {
        return slots[(int) (first + index) & slots.length - 1];
    }

    /** A chunk at the end, with the contents of one long gone. */
    Chunk push() {
        if (size() == slots.length) {
            grow();
        }
        return slots[(int) next++ & slots.length - 1];
    }

    /** Drops the oldest; their contents stay until the next {@link #push}. */
    void pop(int count) {
        first += count;
    }

    /** The flow stopped; this holds for the chunks since the last stop. */
    void endBurst(boolean windowLimited) {
        for (long number = Math.max(burstFrom, first); number < next; number++) {
            slots[(int) number & slots.length - 1].windowLimited = windowLimited;
        }
        burstFrom = next;
    }

    private void grow() {
        Chunk[] larger = filled(slots.length * 2);
        for (long number = first; number < next; number++) {
            larger[(int) number & larger.length - 1] = slots[(int) number & slots.length - 1];
        }
        slots = larger;
    }

    private static Chunk[] filled(int length) {
        Chunk[] slots = new Chunk[length];
        for (int i = 0; i < length; i++) {
            slots[i] = new Chunk();
        }
        return slots;
    }
}
