package paceline.upload;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import paceline.alcc.AlccOptions;
import paceline.alcc.AlccTls;
import paceline.transfer.FileSource;
import paceline.transfer.Progress;
import paceline.transfer.Source;
import paceline.transfer.Summary;
import paceline.transfer.TransferClient;
import paceline.transfer.TransferException;

/** The tool's beginning and end. */
public final class Main {
    private Main() {}

    /**
     * Runs the tool and exits with its status.
     *
     * @param words of the command line
     */
    public static void main(String[] words) {
        boolean terminal = System.console() != null;
        int status = run(words, System.getenv("PACELINE_TOKEN"), System.out, System.err, terminal);
        System.out.flush();
        if (status != 0) {
            System.exit(status);
        }
    }

    static int run(String[] words, String token, PrintStream out, PrintStream err, boolean terminal) {
        Arguments arguments;
        try {
            arguments = Arguments.parse(words, token);
        } catch (Usage mistake) {
            err.println("paceline-upload: " + mistake.getMessage());
            return 2;
        }
        if (arguments.help) {
            out.print(Arguments.HELP);
            return 0;
        }
        Bar bar = terminal && !arguments.json ? new Bar(err) : null;
        try {
            Summary summary = transfer(arguments, bar);
            if (bar != null) {
                bar.end();
            }
            out.print(arguments.json ? Report.json(arguments, summary, "done", "") + System.lineSeparator()
                    : Report.text(summary, !arguments.get));
            return 0;
        } catch (IOException | IllegalArgumentException failed) {
            if (bar != null) {
                bar.end();
            }
            err.println("paceline-upload: " + line(failed, arguments));
            if (arguments.json) {
                out.println(Report.json(arguments, null, word(failed), line(failed, arguments)));
            }
            return 1;
        }
    }

    private static String word(Exception failed) {
        boolean said = failed instanceof TransferException && ((TransferException) failed).status() != null;
        return said ? ((TransferException) failed).status().word() : "failed";
    }

    /** One line, and where it helps what to do. */
    private static String line(Exception failed, Arguments arguments) {
        String what = failed.getMessage() == null ? failed.toString() : failed.getMessage();
        what = what.replace('\n', ' ').replace('\r', ' ');
        boolean goesOn = !(failed instanceof TransferException) && failed instanceof IOException && !arguments.measures;
        return arguments.host + ": " + what + (!goesOn ? "" : what.endsWith("?") ? " The same command goes on where this one ended." : "; the same command goes on where this one ended");
    }

    private static Summary transfer(Arguments arguments, Progress progress) throws IOException {
        AlccOptions options = new AlccOptions().controller(arguments.controller);
        if (arguments.tls) {
            options.tls(tls(arguments));
        }
        InetSocketAddress address = new InetSocketAddress(arguments.host, arguments.port);
        if (address.isUnresolved()) {
            throw new UnknownHostException("there is no host of this name; check it, and the network");
        }
        Download download = arguments.get && !arguments.measures ? new Download(arguments.file) : null;
        try (TransferClient client = new TransferClient(address, options, arguments.token)) {
            if (arguments.measures) {
                return arguments.get ? client.receive(arguments.bytes, arguments.millis, progress)
                        : client.send(arguments.bytes, arguments.millis, progress);
            }
            if (download != null) {
                return download.run(client, arguments.name, progress);
            }
            try (Source source = new FileSource(arguments.file)) {
                return client.put(arguments.name, source, FileSource.id(arguments.file, arguments.name), progress);
            }
        }
    }

    private static AlccTls tls(Arguments arguments) throws IOException {
        if (arguments.ca == null) {
            return AlccTls.platform();
        }
        try (InputStream pem = new FileInputStream(arguments.ca)) {
            return AlccTls.trusting(pem);
        }
    }
}
