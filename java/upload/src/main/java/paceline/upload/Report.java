package paceline.upload;

import java.util.Locale;
import paceline.alcc.AlccStatistics;
import paceline.transfer.Summary;

/** The summary of a transfer, for a person or as JSON. */
final class Report {
    private Report() {}

    static String text(Summary summary, boolean up) {
        AlccStatistics s = summary.statistics;
        StringBuilder text = new StringBuilder(String.format(Locale.ROOT, "%.3f MB %s in %.2f s: %.2f Mbit/s%s%n",
                summary.bytes / 1e6, up ? "sent" : "received", summary.nanos / 1e9, summary.mbps(),
                summary.resumedFrom > 0 ? " (resumed from byte " + summary.resumedFrom + ")" : ""));
        if (up) {
            text.append(String.format(Locale.ROOT,
                    "RTT %.1f ms smallest, %.1f median, %.1f in 95 %% of cases, %.1f largest; %d losses, %d timeouts%n",
                    s.rttMin / 1e6, s.rttMedian / 1e6, s.rttP95 / 1e6, s.rttMax / 1e6, s.losses, s.timeouts));
        }
        return text.toString();
    }

    /** One line with the keys that {@code paceline alcc send --json} has. */
    static String json(Arguments of, Summary summary, String status, String message) {
        StringBuilder out = new StringBuilder("{");
        field(out, "host", quoted(of.host + ":" + of.port));
        field(out, "name", quoted(of.name));
        field(out, "bytes", Long.toString(summary == null ? 0 : summary.bytes));
        field(out, "resumed_from", Long.toString(summary == null ? 0 : summary.resumedFrom));
        field(out, "seconds", number(summary == null ? 0 : summary.nanos / 1e9));
        field(out, "mbps", number(summary == null ? 0 : summary.mbps()));
        field(out, "controller", quoted(of.controller));
        AlccStatistics s = summary == null ? null : summary.statistics;
        if (s == null || s.rttMax == 0) {
            field(out, "rtt_ms", "null");
        } else {
            field(out, "rtt_ms", "{\"min\":" + number(s.rttMin / 1e6) + ",\"p50\":" + number(s.rttMedian / 1e6) + ",\"p95\":"
                    + number(s.rttP95 / 1e6) + ",\"max\":" + number(s.rttMax / 1e6) + "}");
        }
        field(out, "losses", Long.toString(s == null ? 0 : s.losses));
        field(out, "timeouts", Long.toString(s == null ? 0 : s.timeouts));
        field(out, "status", quoted(status));
        field(out, "message", quoted(message));
        return out.append('}').toString();
    }

    private static void field(StringBuilder out, String name, String value) {
        out.append(out.length() > 1 ? "," : "").append('"').append(name).append("\":").append(value);
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.3f", value);
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20) {
                out.append(String.format(Locale.ROOT, "\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
