package paceline.cc;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The models that come with the library: {@code core/cc/models/*.csv}, each read once. */
final class Models {
    /** Their names, the default first. */
    static final List<String> SHIPPED = Arrays.asList("verus", "copa", "sprout");

    private static final Map<String, MdiTable> READ = new HashMap<>();

    private Models() {}

    /** One of {@link #SHIPPED}. */
    static synchronized MdiTable shipped(String name) {
        MdiTable table = READ.get(name);
        if (table == null) {
            table = MdiText.read(resource("models/" + name + ".csv"));
            READ.put(name, table);
        }
        return table;
    }

    private static String resource(String path) {
        try (InputStream in = Models.class.getResourceAsStream(path)) {
            if (in == null) {
                throw new IllegalStateException("the library's jar has no " + path + "; build it again");
            }
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            byte[] buffer = new byte[1 << 14];
            for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                out.write(buffer, 0, read);
            }
            return out.toString("UTF-8");
        } catch (IOException error) {
            throw new IllegalStateException("the library's " + path + " cannot be read: " + error.getMessage(), error);
        }
    }
}
