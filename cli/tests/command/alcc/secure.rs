//! TLS below the frames.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use super::{Server, content, done, refused, text};
use crate::lab::Lab;

/// Base64 in a PEM block (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    let body = data_encoding::BASE64.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

fn certificate(lab: &Lab, name: &str) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    fs::write(lab.path(&format!("{name}.pem")), pem("CERTIFICATE", made.cert.der())).unwrap();
    lab.write_private(&format!("{name}.key"), &pem("PRIVATE KEY", &made.signing_key.serialize_der()));
}

#[test]
fn files_come_and_go_sealed() {
    let lab = Lab::new();
    certificate(&lab, "ours");
    certificate(&lab, "other");
    let mut server = Server::new(&lab, &["--tls-cert", "ours.pem", "--tls-key", "ours.key", "--timeout", "5"]);
    for (at, size) in [0, 1, 70_001, 3_000_001].into_iter().enumerate() {
        let name = format!("file{at}");
        fs::write(lab.path(&name), content(size)).unwrap();
        let controller = ["copa", "sprout"][at % 2];
        let tls = ["--tls-ca", "ours.pem", "--controller", controller];
        let sent = done(&lab, &[&["send", &name, &server.address][..], &tls].concat());
        assert_eq!(sent["bytes"].as_u64(), Some(size as u64));
        assert_eq!(text(&server.session(), "status"), "done");
        done(&lab, &["fetch", &name, &server.address, "--tls-ca", "ours.pem", "-o", "back"]);
        assert!(fs::read(lab.path("back")).unwrap() == content(size), "{name}");
        assert_eq!(text(&server.session(), "status"), "done");
    }
    done(&lab, &["send", "--seconds", "0.2", &server.address, "--tls-ca", "ours.pem"]);
    done(&lab, &["fetch", "--bytes", "1000000", &server.address, "--tls-ca", "ours.pem"]);
    server.session();
    server.session();

    let why = refused(&lab, &["send", "file1", &server.address, "--tls-ca", "other.pem"]);
    assert!(why.contains("no TLS with a server that is certified as 127.0.0.1"), "{why}");
    assert!(text(&server.session(), "message").starts_with("no TLS"));
    // One without TLS at either end.
    refused(&lab, &["send", "file1", &server.address, "--timeout", "2"]);
    server.session();
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(&content(10_000)).unwrap();
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    assert!(got.len() <= 64);
    let plain = Server::new(&lab, &["--timeout", "2"]);
    refused(&lab, &["send", "file1", &plain.address, "--tls-ca", "ours.pem", "--timeout", "5"]);
    assert!(
        refused(&lab, &["serve", "--tls-cert", "ours.pem", "--tls-key", "other.key"]).contains("--tls-key other.key")
    );
    fs::set_permissions(lab.path("ours.key"), Permissions::from_mode(0o644)).unwrap();
    let why = refused(&lab, &["serve", "--tls-cert", "ours.pem", "--tls-key", "ours.key"]);
    assert!(why.contains("others may read or write it (mode 0644); run: chmod 600 ours.key"), "{why}");
}
