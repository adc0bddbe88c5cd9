package paceline.alcc;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A server on this machine that speaks frames, in this process: one thread for each connection. */
public final class Peer implements Closeable {
    /** What it does with a connection of frames. */
    public interface Service {
        void serve(AlccSocket socket) throws Exception;
    }

    /** What it does with a connection of TCP. */
    interface RawService {
        void serve(SocketChannel socket) throws Exception;
    }

    private static final int PATIENCE = 60_000;

    private final ServerSocketChannel listener;
    private final Thread thread;
    private final CountDownLatch come = new CountDownLatch(1);
    private final List<Thread> servants = Collections.synchronizedList(new ArrayList<Thread>());
    final List<Throwable> failures = Collections.synchronizedList(new ArrayList<Throwable>());

    private Peer(RawService service) throws IOException {
        listener = ServerSocketChannel.open();
        listener.socket().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 2000);
        thread = new Thread(() -> accept(service), "peer");
        thread.start();
    }

    static Peer raw(RawService service) throws IOException {
        return new Peer(service);
    }

    /** A server of frames. */
    public static Peer framed(AlccOptions options, Service service) throws IOException {
        return new Peer(channel -> {
            try (AlccSocket socket = new AlccSocket(channel, null, options)) {
                service.serve(socket);
            }
        });
    }

    private void accept(RawService service) {
        try {
            while (true) {
                SocketChannel accepted = listener.accept();
                Thread servant = new Thread(() -> {
                    try {
                        service.serve(accepted);
                    } catch (Throwable failed) {
                        failures.add(failed);
                    }
                }, "peer's servant");
                servants.add(servant);
                servant.start();
                come.countDown();
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    /** Where it listens. */
    public InetSocketAddress address() {
        return new InetSocketAddress(InetAddress.getLoopbackAddress(), listener.socket().getLocalPort());
    }

    /** Waits until a connection has come and all have been served: a minute for all of them. */
    void join() throws InterruptedException {
        if (!come.await(PATIENCE, TimeUnit.MILLISECONDS)) {
            throw new AssertionError("no connection came in " + PATIENCE + " ms");
        }
        joinServants();
    }

    private void joinServants() throws InterruptedException {
        long until = System.nanoTime() + PATIENCE * 1_000_000L;
        StringBuilder busy = new StringBuilder();
        for (Thread servant : servants.toArray(new Thread[0])) {
            servant.join(Math.max((until - System.nanoTime()) / 1_000_000, 1));
            if (servant.isAlive()) {
                busy.append('\n').append(Arrays.toString(servant.getStackTrace()));
            }
        }
        if (busy.length() > 0) {
            throw new AssertionError("still served after " + PATIENCE + " ms, by" + busy);
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        try {
            thread.join();
            joinServants();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
