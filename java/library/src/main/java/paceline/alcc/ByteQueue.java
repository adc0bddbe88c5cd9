package paceline.alcc;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;

/** Bytes that wait, in blocks that are freed as they empty: an idle connection keeps none. */
final class ByteQueue {
    private static final int BLOCK = 16 * 1024;
    private final int capacity;
    private final ArrayDeque<byte[]> blocks = new ArrayDeque<>(4);
    /** One freed block is kept while bytes move. */
    private byte[] spare;
    private int head;
    private int size;

    ByteQueue(int capacity) {
        this.capacity = capacity;
    }

    int capacity() {
        return capacity;
    }

    int size() {
        return size;
    }

    boolean isEmpty() {
        return size == 0;
    }

    int free() {
        return Math.max(capacity - size, 0);
    }

    /** Takes what there is room for; says how much. */
    int put(ByteBuffer from) {
        int taken = Math.min(from.remaining(), free());
        append(from, taken);
        return taken;
    }

    /** Takes this many bytes whatever the capacity. */
    void append(ByteBuffer from, int count) {
        int left = count;
        while (left > 0) {
            int used = (head + size) % BLOCK;
            if (used == 0 && head + size == blocks.size() * BLOCK) {
                blocks.add(spare == null ? new byte[BLOCK] : spare);
                spare = null;
            }
            int piece = Math.min(left, BLOCK - used);
            from.get(blocks.peekLast(), used, piece);
            size += piece;
            left -= piece;
        }
    }

    /** Moves bytes out until {@code to} is full, at most {@code count}; says how many. */
    int take(ByteBuffer to, int count) {
        int left = Math.min(count, Math.min(size, to.remaining()));
        int taken = left;
        while (left > 0) {
            int piece = Math.min(left, BLOCK - head);
            to.put(blocks.peekFirst(), head, piece);
            head += piece;
            size -= piece;
            left -= piece;
            if (head == BLOCK) {
                spare = blocks.pollFirst();
                head = 0;
            }
        }
        if (size == 0) {
            clear();
        }
        return taken;
    }

    void clear() {
        blocks.clear();
        spare = null;
        head = 0;
        size = 0;
    }
}
