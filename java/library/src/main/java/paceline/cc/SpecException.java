package paceline.cc;

/** A controller could not be made from its text. The message is one line that names what was wrong and what is known. */
public final class SpecException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    SpecException(String message) {
        super(message);
    }
}
