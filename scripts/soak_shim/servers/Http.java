// java Http.java FOLDER PORT: GET answers a file below it, PUT with the SHA-256 of what came.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.concurrent.Executors;

class Http {
    static Path folder;

    public static void main(String[] words) throws Exception {
        folder = Path.of(words[0]);
        HttpServer server = HttpServer.create(new InetSocketAddress("0.0.0.0", Integer.parseInt(words[1])), 128);
        server.createContext("/", Http::answer);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }

    static void answer(HttpExchange exchange) throws java.io.IOException {
        if (exchange.getRequestMethod().equals("PUT")) {
            byte[] digest = digest(exchange.getRequestBody()).getBytes();
            exchange.sendResponseHeaders(200, digest.length);
            exchange.getResponseBody().write(digest);
        } else {
            Path file = Path.of(folder + exchange.getRequestURI().getPath());
            // No length means chunks, and -1 nothing.
            exchange.sendResponseHeaders(200, Files.size(file) == 0 ? -1 : Files.size(file));
            try (InputStream input = Files.newInputStream(file); OutputStream output = exchange.getResponseBody()) {
                input.transferTo(output);
            }
        }
        exchange.close();
    }

    static String digest(InputStream input) throws java.io.IOException {
        try {
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            byte[] block = new byte[1 << 16];
            for (int count; (count = input.read(block)) >= 0;) {
                hash.update(block, 0, count);
            }
            return HexFormat.of().formatHex(hash.digest());
        } catch (java.security.NoSuchAlgorithmException error) {
            throw new java.io.IOException(error);
        }
    }
}
