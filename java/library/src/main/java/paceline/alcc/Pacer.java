package paceline.alcc;

import paceline.cc.Pacing;
import paceline.cc.Units;

/**
 * When the next chunk may leave. A rate is kept on average: the time between chunks counts from when the last one was due, and a
 * flow that was held up may catch up by a bounded burst. A gap is exact: it counts from when the last chunk left.
 */
final class Pacer {
    /** How far it may catch up: 2 ms, since a selector waits in whole milliseconds and may be one late. */
    private static final long BURST = 2 * Units.MILLISECOND;

    private final Pacing answer = new Pacing();
    private long gap;
    private long bytes;
    private long base;
    private long departed = -1;
    private long due;

    long due() {
        return due;
    }

    void sent(long now, long size, Pacing pacing) {
        base = Math.min(Math.max(due, now - BURST), now);
        departed = now;
        if (size != bytes || differs(pacing)) {
            bytes = size;
            measure(pacing);
        }
        plan();
    }

    /** The controller was asked again after an event. */
    void refresh(Pacing pacing) {
        if (differs(pacing)) {
            measure(pacing);
            plan();
        }
    }

    private boolean differs(Pacing pacing) {
        return pacing.kind != answer.kind || pacing.value != answer.value;
    }

    private void measure(Pacing pacing) {
        answer.kind = pacing.kind;
        answer.value = pacing.value;
        gap = pacing.gapAfter(bytes);
    }

    private void plan() {
        if (answer.kind == Pacing.Kind.FREE) {
            due = 0;
        } else if (answer.kind == Pacing.Kind.GAP && gap == Units.NEVER) {
            due = Units.NEVER;
        } else if (departed < 0) {
            due = 0;
        } else {
            due = Units.plus(answer.kind == Pacing.Kind.RATE ? base : departed, gap);
        }
    }
}
