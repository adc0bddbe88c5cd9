package paceline.alcc;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Channels with a selector of the caller's, and with a loop; what idle ones cost. */
class ChannelTest {
    /** Threads are counted here. */
    @BeforeEach
    void nothingIsLeftOfOthers() throws Exception {
        SocketTest.awaitEnd("paceline");
    }

    @Test
    void servedByASelectorOfTheCallers() throws Exception {
        byte[] bytes = SocketTest.randomBytes(1, 700_000);
        // One byte more: into a full buffer nothing is read, not even the end.
        ByteBuffer back = ByteBuffer.allocate(bytes.length + 1);
        try (Peer peer = Peer.framed(new AlccOptions(), socket -> {
            byte[] all = SocketTest.readAll(socket.getInputStream());
            socket.getOutputStream().write(all);
            socket.shutdownOutput();
        }); Selector selector = Selector.open()) {
            AlccChannel channel = AlccChannel.open(new AlccOptions().buffers(50_000));
            assertThrows(java.nio.channels.NotYetConnectedException.class, () -> channel.write(ByteBuffer.allocate(1)));
            channel.connect(peer.address());
            SelectionKey key = channel.socketChannel().register(selector, 0);
            ByteBuffer out = ByteBuffer.wrap(bytes);
            boolean shut = false;
            int count = 0;
            while (count >= 0) {
                assertFalse(Thread.interrupted(), "the time is over");
                key.interestOps(channel.interestOps());
                long at = channel.nextWake();
                long left = at == Long.MAX_VALUE ? 5_000 : Math.max((at - System.nanoTime() + 999_999) / 1_000_000, 0);
                if (left == 0) {
                    selector.selectNow();
                } else {
                    selector.select(left);
                }
                selector.selectedKeys().clear();
                channel.process(key.readyOps());
                if (channel.isConnected()) {
                    if (out.hasRemaining()) {
                        channel.write(out);
                    } else if (!shut) {
                        channel.shutdownOutput();
                        shut = true;
                    }
                    count = channel.read(back);
                }
            }
            assertArrayEquals(bytes, Arrays.copyOf(back.array(), back.position()));
            channel.close();
            assertTrue(channel.isOver());
        }
    }

    @Test
    void servedByALoopWithHandlers() throws Exception {
        AlccLoop loop = new AlccLoop("of this test");
        int channels = 20;
        int size = 100_000;
        CountDownLatch done = new CountDownLatch(channels);
        try (Peer peer = Peer.framed(new AlccOptions(), socket -> {
            byte[] all = SocketTest.readAll(socket.getInputStream());
            socket.getOutputStream().write(all);
            socket.shutdownOutput();
        })) {
            for (int i = 0; i < channels; i++) {
                byte[] bytes = SocketTest.randomBytes(i, size);
                ByteBuffer out = ByteBuffer.wrap(bytes);
                ByteBuffer back = ByteBuffer.allocate(size);
                AlccChannel channel = AlccChannel.open(new AlccOptions().buffers(20_000));
                channel.connect(peer.address());
                loop.add(channel, ready -> {
                    try {
                        if (ready.isOver() || !ready.isConnected()) {
                            return;
                        }
                        if (out.hasRemaining() && ready.write(out) > 0 && !out.hasRemaining()) {
                            ready.shutdownOutput();
                        }
                        while (ready.read(back) > 0) {
                            // More may be there.
                        }
                        if (!back.hasRemaining()) {
                            assertArrayEquals(bytes, back.array());
                            done.countDown();
                            ready.close();
                        }
                    } catch (java.io.IOException failed) {
                        throw new IllegalStateException(failed);
                    }
                });
            }
            assertTrue(done.await(60, TimeUnit.SECONDS), () -> done.getCount() + " of them are not done");
            assertTrue(peer.failures.isEmpty(), peer.failures::toString);
        }
        SocketTest.awaitEnd("of this test");
        assertEquals(0, loop.channels());
    }

    /** A bug of an application's: no one waits for the thread that is gone, and the next channel gets another one. */
    @Test
    void aHandlerThatFailsLeavesNothingWaiting() throws Exception {
        AlccLoop loop = new AlccLoop("of this test");
        AtomicReference<Throwable> uncaught = new AtomicReference<>();
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> uncaught.set(error));
        try (Peer peer = Peer.framed(new AlccOptions(), socket -> socket.getInputStream().read())) {
            for (int round = 0; round < 2; round++) {
                AlccChannel one = AlccChannel.open(new AlccOptions());
                AlccChannel other = AlccChannel.open(new AlccOptions());
                one.connect(peer.address());
                other.connect(peer.address());
                loop.add(other, null);
                loop.add(one, ready -> {
                    throw new AssertionError("a bug");
                });
                SocketTest.awaitEnd("of this test");
                assertEquals("a bug", uncaught.getAndSet(null).getMessage());
                assertEquals(0, loop.channels());
                java.io.IOException reason = assertThrows(java.io.IOException.class, () -> other.read(ByteBuffer.allocate(1)));
                assertTrue(reason.getMessage().endsWith("ended by an error: java.lang.AssertionError: a bug"), reason::getMessage);
                assertTrue(one.isOver() && other.isOver());
                one.close();
                other.close();
            }
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }

    /** A channel may end at any moment: the loop keeps nothing of it, and the others get their turns. */
    @Test
    void channelsThatOtherThreadsEndLeaveNothingInTheLoop() throws Exception {
        AlccLoop loop = new AlccLoop("of this test");
        AlccOptions options = new AlccOptions().controller("bbr");
        java.util.Random random = new java.util.Random(1);
        try (Peer peer = Peer.framed(new AlccOptions(), socket -> SocketTest.readAll(socket.getInputStream()));
                AlccChannel idle = AlccChannel.open(options)) {
            idle.connect(peer.address());
            loop.add(idle, null);
            for (int round = 0; round < 500; round++) {
                AlccChannel channel = AlccChannel.open(options);
                channel.connect(peer.address());
                loop.add(channel, null);
                synchronized (channel) {
                    while (!channel.isConnected()) {
                        channel.wait();
                    }
                }
                channel.write(ByteBuffer.allocate(1 + random.nextInt(5000)));
                long until = System.nanoTime() + random.nextInt(200_000);
                while (System.nanoTime() < until) {
                    // Now and then the loop is at work just then.
                }
                channel.abort();
            }
            while (loop.channels() > 1) {
                Thread.sleep(1);
            }
            long wakeups = -1;
            while (wakeups != loop.wakeups()) {
                wakeups = loop.wakeups();
                Thread.sleep(200);
            }
        }
        SocketTest.awaitEnd("of this test");
    }

    /** 1000 sockets at each end, all of which have sent something: no thread each, and no wake-up while they are idle. */
    @Test
    void idleSocketsCostNothing() throws Exception {
        int sockets = 1000;
        List<AlccSocket> clients = new ArrayList<>();
        List<AlccChannel> served = new ArrayList<>();
        AlccLoop loop = new AlccLoop("far end");
        int before = Thread.activeCount();
        try (java.nio.channels.ServerSocketChannel listener = java.nio.channels.ServerSocketChannel.open()) {
            listener.socket().bind(new java.net.InetSocketAddress("127.0.0.1", 0), 2000);
            for (int i = 0; i < sockets; i++) {
                AlccSocket socket = new AlccSocket();
                clients.add(socket);
                socket.connect(listener.socket().getLocalSocketAddress(), 10_000);
                AlccChannel channel = AlccChannel.of(listener.accept(), null, new AlccOptions());
                served.add(channel);
                loop.add(channel, null);
                socket.getOutputStream().write(i);
            }
            for (AlccSocket socket : clients) {
                socket.awaitDelivery(10_000);
            }
            // Some of them still owe an acknowledgement.
            long wakeups = -1;
            while (wakeups != AlccLoop.shared().wakeups() + loop.wakeups()) {
                wakeups = AlccLoop.shared().wakeups() + loop.wakeups();
                Thread.sleep(200);
            }
            assertEquals(before + 2, Thread.activeCount());
            ThreadMXBean threads = ManagementFactory.getThreadMXBean();
            long cpu = cpuOfLoops(threads);
            Thread.sleep(1000);
            assertEquals(wakeups, AlccLoop.shared().wakeups() + loop.wakeups());
            long spent = cpuOfLoops(threads) - cpu;
            assertEquals(0, spent / 1_000_000, "ms of CPU time in a second");
            System.err.println("idle: 2 x " + sockets + " sockets, 2 threads, no wake-up in 1 s, CPU " + spent / 1000 + " us");
        } finally {
            for (AlccSocket socket : clients) {
                socket.close();
            }
            for (AlccChannel channel : served) {
                channel.close();
            }
        }
        SocketTest.awaitEnd("paceline");
        SocketTest.awaitEnd("far end");
        assertEquals(before, Thread.activeCount());
    }

    private static long cpuOfLoops(ThreadMXBean threads) {
        long sum = 0;
        for (long id : threads.getAllThreadIds()) {
            String name = threads.getThreadInfo(id) == null ? "" : threads.getThreadInfo(id).getThreadName();
            if (name.equals("paceline") || name.equals("far end")) {
                sum += threads.getThreadCpuTime(id);
            }
        }
        return sum;
    }
}
