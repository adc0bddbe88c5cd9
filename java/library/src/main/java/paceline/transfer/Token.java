package paceline.transfer;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import paceline.alcc.Varint;

/**
 * The permission to write at a server, as {@code paceline alcc token} prints it: {@code plt1.EXPIRY.SCOPE.SECRET}. The secret never
 * travels: what does is a proof over the server's nonce and the request.
 */
public final class Token {
    /** Bytes of a proof and of a secret. */
    static final int PROOF = 32;
    private static final int MAX_SCOPE = 64;
    private static final String DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    private static final String FORM =
            "a token is plt1.EXPIRY.SCOPE.SECRET, as 'paceline alcc token' prints it; copy all of it";

    private final long expiry;
    private final String scope;
    private final byte[] secret;

    private Token(long expiry, String scope, byte[] secret) {
        this.expiry = expiry;
        this.scope = scope;
        this.secret = secret;
    }

    /**
     * Reads a token.
     *
     * @param text as it was printed
     * @return the token
     * @throws IllegalArgumentException when it is not a token
     */
    public static Token parse(String text) {
        String[] parts = text.split("\\.", -1);
        if (parts.length != 4 || !parts[0].equals("plt1")) {
            throw new IllegalArgumentException(FORM);
        }
        try {
            long expiry = Long.parseLong(parts[1]);
            byte[] name = decode(parts[2]);
            byte[] secret = decode(parts[3]);
            if (expiry < 0 || expiry >= Varint.LIMIT || !Long.toString(expiry).equals(parts[1]) || secret.length != PROOF
                    || name.length > MAX_SCOPE) {
                throw new IllegalArgumentException(FORM);
            }
            String scope = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(name)).toString();
            return new Token(expiry, scope, secret);
        } catch (NumberFormatException | CharacterCodingException bad) {
            throw new IllegalArgumentException(FORM, bad);
        }
    }

    /**
     * Until when it is good.
     *
     * @return seconds since 1970; 0 for no end
     */
    public long expiry() {
        return expiry;
    }

    /**
     * What names have to begin with.
     *
     * @return the beginning, empty for any
     */
    public String scope() {
        return scope;
    }

    /** The proof for a request, as it is written up to the proof. */
    byte[] prove(byte[] nonce, byte[] request) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret, "HmacSHA256"));
            mac.update(nonce);
            return mac.doFinal(request);
        } catch (GeneralSecurityException missing) {
            throw new IllegalStateException("the platform has no HMAC-SHA256", missing);
        }
    }

    /** Without the secret. */
    @Override
    public String toString() {
        return "token for '" + scope + "' until " + expiry;
    }

    /** Base64url without padding, in its one form. ({@code java.util.Base64} is not there before Android 26.) */
    private static byte[] decode(String text) {
        byte[] out = new byte[text.length() * 3 / 4];
        int bits = 0;
        int count = 0;
        int at = 0;
        for (int i = 0; i < text.length(); i++) {
            int digit = DIGITS.indexOf(text.charAt(i));
            if (digit < 0) {
                throw new IllegalArgumentException(FORM);
            }
            bits = bits << 6 | digit;
            count += 6;
            if (count >= 8) {
                count -= 8;
                out[at++] = (byte) (bits >> count);
            }
        }
        if (text.length() % 4 == 1 || (bits & (1 << count) - 1) != 0) {
            throw new IllegalArgumentException(FORM);
        }
        return Arrays.copyOf(out, at);
    }
}
