package paceline.upload;

import java.io.File;
import paceline.alcc.AlccOptions;
import paceline.transfer.Token;
import paceline.transfer.TransferClient;

/** What the command line says. */
final class Arguments {
    static final String HELP = "usage: java -jar paceline-upload.jar HOST[:PORT] FILE [options]\n"
            + "\n"
            + "Uploads FILE to a server (paceline alcc serve), with low delay for everybody else on the way.\n"
            + "An upload that was interrupted goes on where it was when the same command is given again.\n"
            + "\n"
            + "  --get              download: FILE's name is asked for, and FILE is written\n"
            + "  --name NAME        the name that it has at the server, without it FILE's\n"
            + "  --seconds S        instead of a FILE, bytes that mean nothing for S seconds, to measure\n"
            + "  --bytes N          the same for N bytes\n"
            + "  --controller SPEC  copa (default), mdi, cubic, reno, bbr, with parameters: copa:delta=0.1\n"
            + "  --token T          as 'paceline alcc token' prints it, or in the environment: PACELINE_TOKEN\n"
            + "  --tls              TLS, with the certificates that this machine trusts\n"
            + "  --ca PEM           TLS, with the certificates of this file\n"
            + "  --json             the summary as one line of JSON\n"
            + "  --help             this\n"
            + "\n"
            + "PORT is 4436 where it is not given. Status: 0 done, 1 failed, 2 a mistake in the options.\n";

    String host;
    int port = TransferClient.PORT;
    File file;
    String name = "";
    boolean get;
    long millis;
    long bytes = Long.MAX_VALUE;
    boolean measures;
    String controller = "copa";
    Token token;
    boolean tls;
    File ca;
    boolean json;
    boolean help;

    static Arguments parse(String[] words, String tokenOfEnvironment) throws Usage {
        Arguments made = new Arguments();
        int at = 0;
        while (at < words.length) {
            at = made.take(words, at);
        }
        if (made.help) {
            return made;
        }
        if (made.token == null && tokenOfEnvironment != null && !tokenOfEnvironment.isEmpty()) {
            made.token = token(tokenOfEnvironment);
        }
        made.check();
        return made;
    }

    private int take(String[] words, int at) throws Usage {
        String word = words[at];
        int equals = word.indexOf('=');
        if (word.startsWith("--") && equals > 0) {
            takeValue(word.substring(0, equals), word.substring(equals + 1));
            return at + 1;
        }
        switch (word) {
            case "--get":
                get = true;
                return at + 1;
            case "--tls":
                tls = true;
                return at + 1;
            case "--json":
                json = true;
                return at + 1;
            case "--help":
            case "-h":
                help = true;
                return words.length;
            default:
                if (!word.startsWith("-") || word.equals("-")) {
                    place(word);
                    return at + 1;
                }
        }
        takeValue(word, at + 1 < words.length ? words[at + 1] : null);
        return at + 2;
    }

    private void place(String word) throws Usage {
        if (host == null) {
            takeHost(word);
        } else if (file == null) {
            file = new File(word);
        } else {
            throw new Usage("one HOST and one FILE are enough; '" + word + "' is too much");
        }
    }

    private void takeValue(String option, String value) throws Usage {
        switch (option) {
            case "--seconds":
                millis = Math.round(positive(option, value) * 1000);
                measures = true;
                return;
            case "--bytes":
                bytes = (long) positive(option, value);
                measures = true;
                return;
            case "--name":
                name = need(option, value);
                return;
            case "--controller":
                controller = need(option, value);
                return;
            case "--token":
                token = token(need(option, value));
                return;
            case "--ca":
                ca = new File(need(option, value));
                tls = true;
                return;
            default:
                throw new Usage("there is no option '" + option + "'; --help has those that there are");
        }
    }

    private static String need(String option, String value) throws Usage {
        if (value == null || value.isEmpty()) {
            throw new Usage(option + " needs a value, as in '" + option + " "
                    + (example(option)) + "'");
        }
        return value;
    }

    private static String example(String option) {
        switch (option) {
            case "--controller":
                return "copa";
            case "--ca":
                return "ca.pem";
            case "--name":
                return "photo.jpg";
            case "--token":
                return "plt1...";
            default:
                return "10";
        }
    }

    private static double positive(String option, String value) throws Usage {
        try {
            double number = Double.parseDouble(need(option, value));
            if (number > 0 && number <= 1e15) {
                return number;
            }
        } catch (NumberFormatException bad) {
            // Said below.
        }
        throw new Usage(option + " needs a number above 0, as in '" + option + " 10', not '" + value + "'");
    }

    private static Token token(String text) throws Usage {
        try {
            return Token.parse(text);
        } catch (IllegalArgumentException bad) {
            throw new Usage(bad.getMessage());
        }
    }

    /** {@code host}, {@code host:port}, {@code [::1]}, {@code [::1]:port}, {@code ::1}. */
    private void takeHost(String word) throws Usage {
        int end = word.startsWith("[") ? word.indexOf(']') : -1;
        int colon = end > 0 ? end + 1 : word.indexOf(':');
        boolean bare = end < 0 && colon >= 0 && word.indexOf(':', colon + 1) >= 0;
        if (bare || colon < 0 || colon >= word.length()) {
            host = end > 0 ? word.substring(1, end) : word;
        } else {
            host = end > 0 ? word.substring(1, end) : word.substring(0, colon);
            try {
                port = word.charAt(colon) == ':' ? Integer.parseInt(word.substring(colon + 1)) : 0;
            } catch (NumberFormatException bad) {
                port = 0;
            }
            if (port < 1 || port > 65535) {
                throw new Usage("'" + word + "' has no port from 1 to 65535; write HOST:PORT, as in example.org:4436");
            }
        }
        if (host.isEmpty()) {
            throw new Usage("'" + word + "' has no host; write HOST:PORT, as in example.org:4436");
        }
    }

    private void check() throws Usage {
        if (name.isEmpty() && file != null) {
            name = file.getName();
        }
        if (file == null && !name.isEmpty()) {
            throw new Usage("--name is for a FILE; name one, or leave it out");
        }
        if (host == null) {
            throw new Usage("HOST and FILE are missing, as in 'paceline-upload.jar example.org photo.jpg'; --help says more");
        }
        if (file == null && !measures) {
            throw new Usage("FILE is missing; name one, or measure with --seconds 10");
        }
        if (file != null && measures) {
            throw new Usage("--seconds and --bytes send bytes that mean nothing; leave FILE or them out");
        }
        if (file != null && !get && !file.isFile()) {
            throw new Usage("there is no file " + file + "; check the path");
        }
        if (ca != null && !ca.isFile()) {
            throw new Usage("there is no file " + ca + "; --ca needs certificates in PEM");
        }
        try {
            new AlccOptions().controller(controller);
        } catch (IllegalArgumentException bad) {
            throw new Usage("--controller: " + bad.getMessage());
        }
    }
}
