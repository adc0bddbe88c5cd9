package paceline.alcc;

/** Is called by an {@link AlccLoop} when something happened to a channel. */
public interface AlccHandler {
    /**
     * The connection stands, bytes have come, there is space, or it is over. Read and write until there is no more: the next
     * call comes only when something else has happened. Called by the loop's thread: do not wait in it.
     *
     * @param channel which
     */
    void ready(AlccChannel channel);
}
