package paceline.transfer;

import java.io.IOException;

/** A transfer that the server ended, or that cannot be; the message is one line. What the network did is another exception. */
public final class TransferException extends IOException {
    private static final long serialVersionUID = 1;

    /** What the server answered; null when it broke the protocol. */
    private final Status status;

    TransferException(Status status, String message) {
        super(message);
        this.status = status;
    }

    static TransferException protocol(String what) {
        return new TransferException(null, what + "; run the same version of paceline at both ends");
    }

    /**
     * What the server answered.
     *
     * @return null when it broke the protocol
     */
    public Status status() {
        return status;
    }

    /**
     * The same request may succeed later.
     *
     * @return whether that is so
     */
    public boolean isTemporary() {
        return status == Status.BUSY;
    }
}
