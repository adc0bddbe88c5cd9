package paceline.upload;

/** A mistake in the options: one line with the fix. */
final class Usage extends Exception {
    private static final long serialVersionUID = 1;

    Usage(String message) {
        super(message);
    }
}
