package paceline.alcc;

import java.io.IOException;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayList;

/**
 * One thread with one selector for any number of channels. It sleeps until bytes come or the next sending time does; idle
 * channels have no timer. The thread begins with the first channel and ends with the last.
 */
public final class AlccLoop {
    private static final AlccLoop SHARED = new AlccLoop("paceline");

    private final String name;
    private final Object lock = new Object();
    /** Channels whose wishes have changed. Guarded by the lock, as is what follows. */
    private ArrayList<AlccChannel> pending = new ArrayList<>();
    private ArrayList<AlccChannel> handled = new ArrayList<>();
    private Selector selector;
    private volatile Thread thread;
    private int channels;
    private long wakeups;
    /** Of the thread alone. */
    private final WakeHeap heap = new WakeHeap();

    /**
     * A loop of its own, beside {@link #shared}.
     *
     * @param name of its thread
     */
    public AlccLoop(String name) {
        this.name = name;
    }

    /**
     * The loop that sockets use.
     *
     * @return always the same
     */
    public static AlccLoop shared() {
        return SHARED;
    }

    /**
     * Serves a channel until it is over.
     *
     * @param channel that is connected or connecting, and has no loop
     * @param handler is called when something happens; null for none
     * @throws IOException when the system has no more descriptors
     */
    public void add(AlccChannel channel, AlccHandler handler) throws IOException {
        synchronized (lock) {
            if (channel.loop != null) {
                throw new IllegalStateException("the channel has a loop already");
            }
            if (selector == null) {
                selector = Selector.open();
                thread = new Thread(new Runnable() {
                    @Override
                    public void run() {
                        serve();
                    }
                }, name);
                thread.start();
            }
            channel.handler = handler;
            channel.loop = this;
            channels++;
        }
        touch(channel);
    }

    /**
     * How many channels it serves.
     *
     * @return their number
     */
    public int channels() {
        synchronized (lock) {
            return channels;
        }
    }

    /**
     * How often its thread has woken up, in all its life.
     *
     * @return a count
     */
    public long wakeups() {
        synchronized (lock) {
            return wakeups;
        }
    }

    /** The channel wants something else than before: the thread looks at it, if it has to. */
    void touch(AlccChannel channel) {
        if (Thread.currentThread() != thread) {
            boolean same;
            // As one with arrange(): what the thread is about to take down was seen before the change, or after it.
            synchronized (channel) {
                same = channel.registeredOps == channel.interestOps() && channel.scheduled <= channel.nextWake();
            }
            if (same && !channel.isOver() && channel.registeredOps != 0) {
                return;
            }
        }
        synchronized (lock) {
            if (channel.loop != this || channel.isPending) {
                return;
            }
            channel.isPending = true;
            pending.add(channel);
            if (Thread.currentThread() != thread && pending.size() == 1) {
                selector.wakeup();
            }
        }
    }

    private void serve() {
        try {
            while (update()) {
                select();
            }
        } catch (IOException | RuntimeException broken) {
            giveUp(broken);
        }
    }

    /** Takes in what has changed; false when there is nothing left to serve. */
    private boolean update() throws IOException {
        while (true) {
            ArrayList<AlccChannel> changed;
            synchronized (lock) {
                if (pending.isEmpty()) {
                    if (channels > 0) {
                        return true;
                    }
                    selector.close();
                    selector = null;
                    thread = null;
                    return false;
                }
                changed = pending;
                pending = handled;
                handled = changed;
                for (int i = 0; i < changed.size(); i++) {
                    changed.get(i).isPending = false;
                }
            }
            for (int i = 0; i < changed.size(); i++) {
                arrange(changed.get(i));
            }
            changed.clear();
        }
    }

    /** Registers a channel for what it wants now. */
    private void arrange(AlccChannel channel) {
        if (channel.loop != this) {
            return;
        }
        synchronized (channel) {
            register(channel);
            heap.set(channel, channel.isOver() ? Long.MAX_VALUE : channel.nextWake());
        }
        if (channel.isOver()) {
            drop(channel);
        }
    }

    private void register(AlccChannel channel) {
        SelectionKey key = channel.socketChannel().keyFor(selector);
        int ops = channel.interestOps();
        try {
            if (key == null && !channel.isOver()) {
                channel.socketChannel().register(selector, ops, channel);
            } else if (key != null && key.isValid() && ops != channel.registeredOps) {
                key.interestOps(ops);
            }
            channel.registeredOps = ops;
        } catch (ClosedChannelException | CancelledKeyException over) {
            channel.registeredOps = 0;
        }
    }

    private void drop(AlccChannel channel) {
        SelectionKey key = channel.socketChannel().keyFor(selector);
        if (key != null) {
            key.cancel();
        }
        synchronized (lock) {
            channel.loop = null;
            channels--;
        }
        call(channel);
    }

    private void select() throws IOException {
        AlccChannel first = heap.first();
        if (first == null) {
            selector.select();
        } else {
            // Whole milliseconds, never early.
            long left = first.scheduled - System.nanoTime();
            if (left <= 0) {
                selector.selectNow();
            } else {
                selector.select((left + 999_999) / 1_000_000);
            }
        }
        synchronized (lock) {
            wakeups++;
        }
        for (SelectionKey key : selector.selectedKeys()) {
            AlccChannel channel = (AlccChannel) key.attachment();
            int ready;
            try {
                ready = key.readyOps();
            } catch (CancelledKeyException over) {
                ready = 0;
            }
            work(channel, ready);
        }
        selector.selectedKeys().clear();
        long now = System.nanoTime();
        for (int turns = heap.size(); turns > 0 && heap.size() > 0 && heap.first().scheduled - now <= 0; turns--) {
            work(heap.first(), 0);
        }
    }

    private void work(AlccChannel channel, int ready) {
        channel.process(ready);
        call(channel);
        arrange(channel);
    }

    private void call(AlccChannel channel) {
        if (channel.handler != null && !channel.isClosing()) {
            channel.handler.ready(channel);
        }
    }

    /** A bug, or no more memory: nothing is left waiting for a thread that is gone. */
    private void giveUp(Exception broken) {
        ArrayList<AlccChannel> left = new ArrayList<>();
        synchronized (lock) {
            for (SelectionKey key : selector.keys()) {
                left.add((AlccChannel) key.attachment());
            }
            left.addAll(pending);
            pending.clear();
            channels = 0;
            try {
                selector.close();
            } catch (IOException gone) {
                broken.addSuppressed(gone);
            }
            selector = null;
            thread = null;
        }
        for (AlccChannel channel : left) {
            channel.loop = null;
            heap.set(channel, Long.MAX_VALUE);
            channel.abort();
        }
        Thread.UncaughtExceptionHandler handler = Thread.currentThread().getUncaughtExceptionHandler();
        handler.uncaughtException(Thread.currentThread(), broken);
    }
}
