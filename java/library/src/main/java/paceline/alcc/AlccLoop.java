package paceline.alcc;

import java.io.IOException;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Set;

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
    private final Set<AlccChannel> channels = new HashSet<>();
    private long wakeups;
    /** Of the thread alone. */
    private WakeHeap heap = new WakeHeap();
    private final ArrayList<AlccChannel> due = new ArrayList<>();

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
                begin();
            }
            channel.handler = handler;
            channel.loop = this;
            channels.add(channel);
        }
        touch(channel);
    }

    private void begin() throws IOException {
        selector = Selector.open();
        thread = new Thread(new Runnable() {
            @Override
            public void run() {
                serve();
            }
        }, name);
        boolean done = false;
        try {
            thread.start();
            done = true;
        } finally {
            if (!done) {
                selector.close();
                selector = null;
                thread = null;
            }
        }
    }

    /**
     * How many channels it serves.
     *
     * @return their number
     */
    public int channels() {
        synchronized (lock) {
            return channels.size();
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
        } catch (Throwable broken) {
            giveUp(broken);
        }
    }

    /** Takes in what has changed; false when there is nothing left to serve. */
    private boolean update() throws IOException {
        while (true) {
            ArrayList<AlccChannel> changed;
            synchronized (lock) {
                if (pending.isEmpty()) {
                    if (!channels.isEmpty()) {
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
        boolean over;
        synchronized (channel) {
            register(channel);
            // Looked at once: when another thread ends it after this, its touch() brings it here again.
            over = channel.isOver();
            heap.set(channel, over ? Long.MAX_VALUE : channel.nextWake());
        }
        if (over) {
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
            channels.remove(channel);
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
        // Each of them once, whatever the others want then.
        while (heap.size() > 0 && heap.first().scheduled - now <= 0) {
            due.add(heap.first());
            heap.set(heap.first(), Long.MAX_VALUE);
        }
        for (int i = 0; i < due.size(); i++) {
            work(due.get(i), 0);
        }
        due.clear();
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

    /** An error of a handler or of this library, or no more memory: nothing is left waiting for a thread that is gone. */
    private void giveUp(Throwable broken) {
        ArrayList<AlccChannel> left;
        synchronized (lock) {
            left = new ArrayList<>(channels);
            channels.clear();
            pending.clear();
            handled.clear();
            heap = new WakeHeap();
            due.clear();
            for (AlccChannel channel : left) {
                channel.loop = null;
                channel.isPending = false;
                channel.heapIndex = -1;
                channel.scheduled = Long.MAX_VALUE;
            }
            try {
                selector.close();
            } catch (IOException gone) {
                broken.addSuppressed(gone);
            }
            selector = null;
            thread = null;
        }
        for (AlccChannel channel : left) {
            channel.abort(new IOException("the thread that served the connection ended by an error: " + broken, broken));
        }
        Thread.UncaughtExceptionHandler handler = Thread.currentThread().getUncaughtExceptionHandler();
        handler.uncaughtException(Thread.currentThread(), broken);
    }
}
