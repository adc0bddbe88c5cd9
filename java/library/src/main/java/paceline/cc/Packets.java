package paceline.cc;

import java.util.ArrayList;

/**
 * The packets of an event. They stay for the next event, so that a flow allocates only while its largest event grows:
 * {@link #clear}, then {@link #add} and fill each.
 *
 * @param <T> {@link Acked} or {@link Lost}
 */
public final class Packets<T> {
    /** Makes a packet. */
    interface Maker<T> {
        /** A new one. */
        T make();
    }

    private final Maker<T> maker;
    private final ArrayList<T> packets = new ArrayList<>();
    private int count;

    Packets(Maker<T> maker) {
        this.maker = maker;
    }

    /** Takes all packets out. */
    public void clear() {
        count = 0;
    }

    /**
     * One more packet.
     *
     * @return the packet, which still has the values of an earlier event: set all of them
     */
    public T add() {
        if (count == packets.size()) {
            packets.add(maker.make());
        }
        return packets.get(count++);
    }

    /**
     * How many packets there are.
     *
     * @return their number
     */
    public int count() {
        return count;
    }

    /**
     * One packet.
     *
     * @param index from zero, in sending order
     * @return the packet
     * @throws IndexOutOfBoundsException when there are fewer
     */
    public T get(int index) {
        if (index >= count) {
            throw new IndexOutOfBoundsException("packet " + index + " of " + count);
        }
        return packets.get(index);
    }
}
