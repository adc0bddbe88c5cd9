package paceline.upload;

import java.io.PrintStream;
import java.util.Locale;
import paceline.alcc.AlccStatistics;
import paceline.transfer.Progress;

/** A line on a terminal that is written again and again. */
final class Bar implements Progress {
    private static final int WIDTH = 24;
    private final PrintStream to;
    private final long begun = System.nanoTime();
    private long first = -1;
    private boolean drawn;

    Bar(PrintStream to) {
        this.to = to;
    }

    @Override
    public synchronized void progress(long done, long total, AlccStatistics now) {
        if (first < 0) {
            first = done;
        }
        double seconds = Math.max((System.nanoTime() - begun) / 1e9, 1e-3);
        double mbps = (done - first) * 8e-6 / seconds;
        StringBuilder line = new StringBuilder("\r");
        if (total > 0) {
            int filled = (int) (WIDTH * Math.min(done, total) / total);
            line.append('[');
            for (int i = 0; i < WIDTH; i++) {
                line.append(i < filled ? '#' : '.');
            }
            line.append(String.format(Locale.ROOT, "] %3d %%  ", 100 * Math.min(done, total) / total));
        }
        line.append(String.format(Locale.ROOT, "%.1f MB  %.2f Mbit/s", done / 1e6, mbps));
        if (now.rttMedian > 0) {
            line.append(String.format(Locale.ROOT, "  RTT %.0f ms", now.rttMedian / 1e6));
        }
        to.print(line.append("   "));
        to.flush();
        drawn = true;
    }

    synchronized void end() {
        if (drawn) {
            to.println();
            drawn = false;
        }
    }
}
