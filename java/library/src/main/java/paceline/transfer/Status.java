package paceline.transfer;

/** How a server answers. */
public enum Status {
    /** Go on; at the end: done. */
    DONE("done"),
    /** The client may not, or the request makes no sense. */
    REFUSED("refused"),
    /** There is no such file. */
    MISSING("missing"),
    /** There is a file of this name with other content. */
    EXISTS("exists"),
    /** It is too large, or the disk is full. */
    NO_ROOM("no room"),
    /** Not now; try again later. */
    BUSY("busy"),
    /** What came has another hash than the client says, and was dropped. */
    MISMATCH("mismatch");

    private static final Status[] ALL = values();
    private final String word;

    Status(String word) {
        this.word = word;
    }

    /**
     * One word for it, as JSON has it.
     *
     * @return the word
     */
    public String word() {
        return word;
    }

    static Status of(int code) throws TransferException {
        if (code < 0 || code >= ALL.length) {
            throw TransferException.protocol("the server answered with the unknown status " + code);
        }
        return ALL[code];
    }
}
