package paceline.alcc;

import java.io.IOException;
import java.io.InputStream;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.Collection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManagerFactory;

/** TLS below the frames, by the platform's own engine. A client always checks that the certificate is the host's. */
public final class AlccTls {
    private final SSLContext context;
    private final boolean client;

    private AlccTls(SSLContext context, boolean client) {
        this.context = context;
        this.client = client;
    }

    /**
     * A client that trusts what the platform trusts.
     *
     * @return the options
     * @throws IOException when the platform has no TLS
     */
    public static AlccTls platform() throws IOException {
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, null, null);
            return new AlccTls(context, true);
        } catch (GeneralSecurityException bad) {
            throw new IOException("the platform has no TLS: " + bad.getMessage(), bad);
        }
    }

    /**
     * A client that trusts only these certificates, and what they have signed.
     *
     * @param pem one or more certificates
     * @return the options
     * @throws IOException when they cannot be read
     */
    public static AlccTls trusting(InputStream pem) throws IOException {
        try {
            Collection<? extends Certificate> certificates = CertificateFactory.getInstance("X.509").generateCertificates(pem);
            if (certificates.isEmpty()) {
                throw new IOException("there is no certificate in it; PEM with -----BEGIN CERTIFICATE----- is needed");
            }
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            int number = 0;
            for (Certificate certificate : certificates) {
                store.setCertificateEntry("ca" + number++, certificate);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return new AlccTls(context, true);
        } catch (GeneralSecurityException bad) {
            throw new IOException("the certificates cannot be used: " + bad.getMessage(), bad);
        }
    }

    /**
     * A client with a context of the caller's (pinned keys, a client certificate).
     *
     * @param context made and initialized by the caller
     * @return the options
     */
    public static AlccTls client(SSLContext context) {
        return new AlccTls(context, true);
    }

    /**
     * The accepting end, with a context of the caller's that has its key.
     *
     * @param context made and initialized by the caller
     * @return the options
     */
    public static AlccTls server(SSLContext context) {
        return new AlccTls(context, false);
    }

    boolean isClient() {
        return client;
    }

    SSLEngine engine(String host, int port) {
        SSLEngine engine = client ? context.createSSLEngine(host, port) : context.createSSLEngine();
        engine.setUseClientMode(client);
        return engine;
    }
}
