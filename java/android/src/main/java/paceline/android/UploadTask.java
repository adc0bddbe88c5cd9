package paceline.android;

import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import paceline.alcc.AlccOptions;
import paceline.alcc.AlccTls;
import paceline.transfer.FileSource;
import paceline.transfer.Progress;
import paceline.transfer.Source;
import paceline.transfer.Token;
import paceline.transfer.TransferClient;
import paceline.transfer.TransferException;

/** One attempt at an upload, on a thread of its own. The next attempt goes on where this one ended. */
final class UploadTask implements Runnable {
    /** How an attempt ended. */
    enum Outcome {
        /** The server has the file. */
        DONE,
        /** The network failed, or the server is busy: try again after a while. */
        AGAIN,
        /** The server says no, or the file is gone: trying again does not help. */
        FAILED
    }

    /** Is informed once, by the thread of the task; not after {@link #stop}. */
    interface Listener extends Progress {
        /** How it ended; {@code why} in one line, empty when it is done. */
        void ended(Outcome outcome, String why);
    }

    private final File file;
    private final String host;
    private final int port;
    private final String token;
    private final String controller;
    private final boolean tls;
    private final Listener listener;
    private TransferClient client;
    private boolean stopped;

    UploadTask(File file, String host, int port, String token, String controller, boolean tls, Listener listener) {
        this.file = file;
        this.host = host;
        this.port = port;
        this.token = token;
        this.controller = controller;
        this.tls = tls;
        this.listener = listener;
    }

    @Override
    public void run() {
        Outcome outcome = Outcome.DONE;
        String why = "";
        try {
            upload();
        } catch (TransferException said) {
            outcome = said.isTemporary() ? Outcome.AGAIN : Outcome.FAILED;
            why = said.getMessage();
        } catch (IOException failed) {
            outcome = file.isFile() ? Outcome.AGAIN : Outcome.FAILED;
            why = String.valueOf(failed.getMessage());
        } catch (IllegalArgumentException wrong) {
            outcome = Outcome.FAILED;
            why = wrong.getMessage();
        }
        synchronized (this) {
            if (stopped) {
                return;
            }
            stopped = true;
        }
        listener.ended(outcome, why);
    }

    private void upload() throws IOException {
        AlccOptions options = new AlccOptions().controller(controller).tls(tls ? AlccTls.platform() : null);
        InetSocketAddress address = new InetSocketAddress(host, port);
        if (address.isUnresolved()) {
            throw new UnknownHostException("there is no host of the name " + host + " at present");
        }
        try (Source source = new FileSource(file);
                TransferClient made = new TransferClient(address, options, token == null ? null : Token.parse(token))) {
            synchronized (this) {
                if (stopped) {
                    return;
                }
                client = made;
            }
            made.put(file.getName(), source, FileSource.id(file, file.getName()), listener);
        }
    }

    /** Ends the attempt at once; what the server holds stays there. */
    synchronized void stop() {
        stopped = true;
        if (client != null) {
            client.cancel();
        }
    }
}
