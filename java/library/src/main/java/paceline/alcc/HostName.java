package paceline.alcc;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.security.cert.Certificate;
import java.security.cert.CertificateParsingException;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLPeerUnverifiedException;
import javax.net.ssl.SSLSession;

/**
 * Whether a certificate is the host's (RFC 6125 with subject alternative names only, as browsers do). Written here because
 * {@code SSLParameters.setEndpointIdentificationAlgorithm} is not there before Android 24.
 */
final class HostName {
    private static final int DNS = 2;
    private static final int ADDRESS = 7;

    private HostName() {}

    static void verify(String host, SSLSession session) throws SSLException {
        Certificate[] chain = session.getPeerCertificates();
        if (chain.length == 0 || !(chain[0] instanceof X509Certificate)) {
            throw new SSLPeerUnverifiedException("the server " + host + " shows no X.509 certificate");
        }
        List<String> names = new ArrayList<>();
        if (!matches(host, (X509Certificate) chain[0], names)) {
            throw new SSLPeerUnverifiedException("the server's certificate is for " + names + ", not for " + host
                    + "; connect by one of these names");
        }
    }

    /** Collects the certificate's names on the way. */
    static boolean matches(String host, X509Certificate certificate, List<String> names) throws SSLException {
        Collection<List<?>> entries;
        try {
            entries = certificate.getSubjectAlternativeNames();
        } catch (CertificateParsingException bad) {
            throw new SSLException("the server's certificate has names that cannot be read", bad);
        }
        if (entries == null) {
            return false;
        }
        boolean literal = isAddress(host);
        boolean found = false;
        for (List<?> entry : entries) {
            int kind = ((Integer) entry.get(0)).intValue();
            if (kind != DNS && kind != ADDRESS) {
                continue;
            }
            String name = (String) entry.get(1);
            names.add(name);
            found |= literal ? kind == ADDRESS && sameAddress(host, name) : kind == DNS && matches(host, name);
        }
        return found;
    }

    /** {@code *} stands for a whole first label, and never for a top-level domain. */
    static boolean matches(String host, String pattern) {
        String name = withoutDot(host.toLowerCase(Locale.ROOT));
        String wanted = withoutDot(pattern.toLowerCase(Locale.ROOT));
        if (!wanted.startsWith("*.")) {
            return !wanted.isEmpty() && wanted.equals(name);
        }
        String rest = wanted.substring(1);
        int dot = name.indexOf('.');
        return dot > 0 && rest.indexOf('.', 1) > 0 && rest.indexOf('*') < 0 && name.substring(dot).equals(rest);
    }

    private static String withoutDot(String name) {
        return name.endsWith(".") ? name.substring(0, name.length() - 1) : name;
    }

    /** A literal: only these are parsed without a look-up. */
    static boolean isAddress(String host) {
        if (host.indexOf(':') >= 0) {
            return true;
        }
        String[] parts = host.split("\\.", -1);
        if (parts.length != 4) {
            return false;
        }
        for (String part : parts) {
            if (part.isEmpty() || part.length() > 3) {
                return false;
            }
            for (int i = 0; i < part.length(); i++) {
                if (part.charAt(i) < '0' || part.charAt(i) > '9') {
                    return false;
                }
            }
        }
        return true;
    }

    private static boolean sameAddress(String host, String name) {
        try {
            return isAddress(name) && InetAddress.getByName(host).equals(InetAddress.getByName(name));
        } catch (UnknownHostException bad) {
            return false;
        }
    }
}
