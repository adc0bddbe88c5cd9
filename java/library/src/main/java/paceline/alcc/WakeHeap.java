package paceline.alcc;

import java.util.Arrays;

/** Channels by when they want to be called, the earliest first. A channel that wants none is not in it. */
final class WakeHeap {
    private AlccChannel[] heap = new AlccChannel[16];
    private int size;

    AlccChannel first() {
        return size == 0 ? null : heap[0];
    }

    int size() {
        return size;
    }

    /** Puts the channel where {@code at} belongs; {@link Long#MAX_VALUE} takes it out. */
    void set(AlccChannel channel, long at) {
        int index = channel.heapIndex;
        if (index < 0) {
            if (at == Long.MAX_VALUE) {
                channel.scheduled = at;
                return;
            }
            if (size == heap.length) {
                heap = Arrays.copyOf(heap, size * 2);
            }
            index = size++;
            place(channel, index);
        } else if (at == Long.MAX_VALUE) {
            remove(channel, index);
            return;
        }
        channel.scheduled = at;
        sink(rise(index));
    }

    private void remove(AlccChannel channel, int index) {
        channel.heapIndex = -1;
        channel.scheduled = Long.MAX_VALUE;
        AlccChannel last = heap[--size];
        heap[size] = null;
        if (last != channel) {
            place(last, index);
            sink(rise(index));
        }
    }

    private int rise(int from) {
        int index = from;
        while (index > 0 && heap[index].scheduled < heap[(index - 1) / 2].scheduled) {
            swap(index, (index - 1) / 2);
            index = (index - 1) / 2;
        }
        return index;
    }

    private void sink(int from) {
        int index = from;
        while (2 * index + 1 < size) {
            int child = 2 * index + 1;
            if (child + 1 < size && heap[child + 1].scheduled < heap[child].scheduled) {
                child++;
            }
            if (heap[index].scheduled <= heap[child].scheduled) {
                return;
            }
            swap(index, child);
            index = child;
        }
    }

    private void swap(int a, int b) {
        AlccChannel other = heap[a];
        place(heap[b], a);
        place(other, b);
    }

    private void place(AlccChannel channel, int index) {
        heap[index] = channel;
        channel.heapIndex = index;
    }
}
