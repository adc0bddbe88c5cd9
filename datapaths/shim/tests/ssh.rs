//! OpenSSH's server under the library: it drops its rights, forbids itself system calls before the login (seccomp), and serves
//! each connection by several processes. Logins and transfers work in every mode.

mod common;

use paceline_fixture::{free_port, until};
use paceline_linux::listening;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Digest, Running, folder, installed, letters, lowers_rights, shimmed_as_we_are, skip};

fn key(file: &Path) {
    let mut command = Command::new("ssh-keygen");
    assert!(command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file).status().unwrap().success());
}

/// `ssh` to the server, without anything of who runs the tests.
fn ssh(folder: &Path, port: u16, remote: &str) -> Command {
    let mut command = Command::new("ssh");
    command.args(["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]);
    command.args(["-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=20", "-o", "IdentitiesOnly=yes", "-i"]);
    command.arg(folder.join("id")).args(["-p", &port.to_string(), "root@127.0.0.1", remote]);
    command
}

#[test]
fn sshd() {
    let Some(program) = installed("sshd").filter(|_| installed("ssh").is_some()) else {
        return skip("sshd", "no OpenSSH server and client");
    };
    if !lowers_rights() {
        return skip("sshd", "it needs root and other users");
    }
    // Debian's folder for the part before the login, which its service makes.
    std::fs::create_dir_all("/run/sshd").unwrap();
    for mode in ["auto", "queue", "inline"] {
        let folder = folder("sshd");
        let place = folder.path();
        std::fs::set_permissions(place, Permissions::from_mode(0o700)).unwrap();
        key(&place.join("host"));
        key(&place.join("id"));
        let bytes = letters(3_000_000, 21);
        std::fs::write(place.join("file"), &bytes).unwrap();
        let port = free_port();
        let show = place.display();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {show}/host\nAuthorizedKeysFile {show}/id.pub\nStrictModes no\n\
             PidFile none\nUsePAM no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
        );
        std::fs::write(place.join("config"), config).unwrap();
        let mut command = shimmed_as_we_are(&program, &[("PACELINE_MODE", mode)]);
        command.args(["-D", "-e", "-f"]).arg(place.join("config")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Running(command.spawn().unwrap());
        until("sshd listens", || {
            assert!(server.0.try_wait().unwrap().is_none(), "sshd has ended");
            listening::at(port)
        });

        let mut download = ssh(place, port, &format!("cat {show}/file"));
        let mut download = Running(download.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
        let got = Digest::read(download.0.stdout.take().unwrap()).unwrap();
        assert!(download.wait().success(), "{mode}: a login and a download");
        assert_eq!(got, Digest::of(&bytes), "{mode}");

        let mut upload =
            Running(ssh(place, port, "sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        upload.0.stdin.take().unwrap().write_all(&bytes).unwrap();
        let said = std::io::read_to_string(upload.0.stdout.take().unwrap()).unwrap();
        assert!(upload.wait().success(), "{mode}: an upload");
        assert!(said.starts_with(&Digest::of(&bytes).sha256), "{mode}: {said}");
    }
}
