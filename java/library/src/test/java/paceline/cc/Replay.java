package paceline.cc;

import java.io.BufferedReader;
import java.io.IOException;
import java.util.Locale;
import java.util.Map;

/** Feeds event logs to new controllers and compares every answer with the recorded one, bit by bit. */
final class Replay {
    private final Sent sent = new Sent();
    private final Ack ack = new Ack();
    private final Loss loss = new Loss();
    private final Timeout timeout = new Timeout();
    private final Restart restart = new Restart();
    private final Pacing pacing = new Pacing();
    /** The recorded answers, and whether the last event was the first of a log. */
    private long window;
    private String pace;
    private long nextTick;
    private long threshold;
    private boolean holdsAgainstMarks;

    private Controller controller;
    private String about = "no log";
    /** Logs and events replayed so far. */
    long logs;
    long events;

    /** Replays all logs of a text. */
    void all(BufferedReader text) throws IOException {
        EventLog log = new EventLog(text);
        for (EventLog.Line line = log.next(); line != null; line = log.next()) {
            if (line.has("format")) {
                begin(line);
            } else {
                feed(line);
                events++;
            }
            answers(line);
        }
    }

    private void begin(EventLog.Line header) {
        EventLog.Line env = header.object("env");
        about = header.word("about") + " (" + header.word("controller") + ")";
        Env made = new Env(env.amount("mss"), env.bits("seed"), env.is("paced"));
        controller = Controllers.create(header.word("controller"), made);
        EventLog.Line constants = header.object("constants");
        String ecn = constants.has("ecn") ? constants.word("ecn") : "off";
        String recovery = constants.has("recovery") ? constants.word("recovery") : "prr";
        equal(header, "ecn", ecn, controller.ecn().name().toLowerCase(Locale.ROOT));
        equal(header, "recovery", recovery, controller.recovery().name().toLowerCase(Locale.ROOT));
        window = 0;
        pace = "free";
        nextTick = 0;
        threshold = 0;
        holdsAgainstMarks = false;
        logs++;
    }

    private void feed(EventLog.Line line) {
        long now = line.amount("now");
        switch (line.word("event")) {
            case "sent":
                sent(line);
                break;
            case "acked":
                acked(line);
                break;
            case "lost":
                loss.now = now;
                lost(line, loss.packets);
                loss.bytes = line.amount("bytes");
                loss.priorInFlight = line.amount("prior_in_flight");
                loss.inFlight = line.amount("in_flight");
                loss.newEpisode = line.is("new_episode");
                controller.onLoss(loss);
                break;
            case "timeout":
                timeout.now = now;
                lost(line, timeout.packets);
                timeout.priorInFlight = line.amount("prior_in_flight");
                timeout.inFlight = line.amount("in_flight");
                timeout.count = line.amount("count");
                controller.onTimeout(timeout);
                break;
            case "spurious":
                controller.onSpurious(now);
                break;
            case "mss":
                controller.onMss(now, line.amount("mss"));
                break;
            case "restart":
                restart.now = now;
                restart.idle = line.amount("idle");
                restart.rto = line.amount("rto");
                controller.onRestart(restart);
                break;
            case "app_limited":
                controller.onAppLimited(now, line.amount("in_flight"));
                break;
            case "shared_rtt":
                controller.onSharedRtt(now, line.amount("min"));
                break;
            case "tick":
                controller.onTick(now);
                break;
            case "cause":
            case "telemetry":
            case "feedback":
                // No controller here listens to them.
                break;
            default:
                throw new AssertionError(about + ", line " + line.number + ": unknown event " + line.word("event"));
        }
    }

    private void sent(EventLog.Line line) {
        sent.now = line.amount("now");
        sent.seq = line.amount("seq");
        sent.bytes = line.amount("bytes");
        sent.inFlight = line.amount("in_flight");
        sent.retransmission = line.is("retransmission");
        sent.appLimited = line.is("app_limited");
        sent.unsent = line.amount("unsent");
        long tag = controller.onSent(sent);
        EventLog.Line stamp = line.object("stamp");
        equal(line, "tag", stamp == null ? 0 : stamp.bits("tag"), tag);
        equal(line, "note", stamp == null ? 0 : stamp.bits("note"), 0L);
    }

    private void acked(EventLog.Line line) {
        ack.now = line.amount("now");
        ack.packets.clear();
        for (EventLog.Line packet : line.list("packets")) {
            Acked one = ack.packets.add();
            one.seq = packet.amount("seq");
            one.bytes = packet.amount("bytes");
            one.sentAt = packet.amount("sent_at");
            one.tag = packet.bits("tag");
            one.retransmitted = packet.is("retransmitted");
            one.appLimited = packet.is("app_limited");
            one.ce = packet.is("ce");
        }
        ack.bytes = line.amount("bytes");
        ack.rtt = line.amountOrNever("rtt");
        ack.srtt = line.amount("srtt");
        ack.minRtt = line.amount("min_rtt");
        EventLog.Line rate = line.object("rate");
        ack.rate.valid = rate != null;
        if (rate != null) {
            ack.rate.delivered = rate.amount("delivered");
            ack.rate.interval = rate.amount("interval");
            ack.rate.priorDelivered = rate.amount("prior_delivered");
            ack.rate.appLimited = rate.is("app_limited");
            ack.rate.retransmission = rate.is("retransmission");
        }
        ack.priorInFlight = line.amount("prior_in_flight");
        ack.inFlight = line.amount("in_flight");
        ack.lostBytes = line.amount("lost_bytes");
        ack.ceBytes = line.amount("ce_bytes");
        ack.cePackets = line.amount("ce_packets");
        ack.echo = line.is("echo");
        ack.delivered = line.amount("delivered");
        ack.una = line.amount("una");
        ack.next = line.amount("next");
        ack.phase = line.has("phase") ? Phase.valueOf(line.word("phase").toUpperCase(Locale.ROOT)) : Phase.OPEN;
        ack.windowLimited = line.is("window_limited");
        controller.onAck(ack);
    }

    private static void lost(EventLog.Line line, Packets<Lost> packets) {
        packets.clear();
        for (EventLog.Line packet : line.list("packets")) {
            Lost one = packets.add();
            one.seq = packet.amount("seq");
            one.bytes = packet.amount("bytes");
            one.sentAt = packet.amount("sent_at");
            one.tag = packet.bits("tag");
        }
    }

    private void answers(EventLog.Line line) {
        EventLog.Line changed = line.object("answers");
        if (changed != null) {
            window = changed.has("window") ? changed.amount("window") : window;
            pace = changed.has("pacing") ? pace(changed) : pace;
            nextTick = changed.has("next_tick") ? changed.amount("next_tick") : nextTick;
            threshold = changed.has("threshold") ? changed.amount("threshold") : threshold;
            holdsAgainstMarks =
                    changed.has("holds_against_marks") ? changed.is("holds_against_marks") : holdsAgainstMarks;
        }
        controller.pacing(pacing);
        equal(line, "window", window, controller.window());
        equal(line, "pacing", pace, pacing.toString());
        equal(line, "next_tick", nextTick, controller.nextTick());
        equal(line, "threshold", threshold, controller.threshold());
        // No start-up here holds against marks.
        equal(line, "holds_against_marks", holdsAgainstMarks, false);
        controller.describe((name, value) -> {
            if (Double.isNaN(value) || Double.isInfinite(value)) {
                throw new AssertionError(about + ", line " + line.number + ": " + name + " is " + value);
            }
        });
    }

    private static String pace(EventLog.Line answers) {
        if (!(answers.value("pacing") instanceof Map)) {
            return answers.word("pacing");
        }
        EventLog.Line pacing = answers.object("pacing");
        return pacing.has("rate") ? "rate " + pacing.amount("rate") : "gap " + pacing.amount("gap");
    }

    private void equal(EventLog.Line line, String answer, Object recorded, Object replayed) {
        if (!recorded.equals(replayed)) {
            throw new AssertionError(about + ", line " + line.number + ": after '" + line.word("event") + "' the answer "
                    + answer + " is " + replayed + ", and Rust's is " + recorded);
        }
    }
}
