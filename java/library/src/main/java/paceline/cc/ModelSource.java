package paceline.cc;

import java.io.IOException;

/**
 * Gives the text of a model that a spec names ({@code mdi:model=NAME}) and that does not come with the library. Nothing in
 * this package reads a file: a text from a peer must not make a host read any.
 */
public interface ModelSource {
    /**
     * The text of a model.
     *
     * @param name what stands behind {@code model=}
     * @return the model in its CSV format
     * @throws IOException when it cannot be read; the message is part of the error
     */
    String text(String name) throws IOException;
}
