//! The programs at the phone, and what they say of an upload.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

use paceline_lab::shell::quoted;
use serde_json::Value;

/// The tool that `mvn package` makes in java/.
const JAR: &str = "java/upload/target/paceline-upload.jar";
/// Of the server, in a network namespace of its own (the one that it has by default).
const PORT: u16 = 4436;
/// A buffer that a phone's network has, and 40 ms there and back (our choice).
const PATH: [&str; 4] = ["--delay", "20ms", "--queue", "droptail:2MB"];

/// Where they are.
pub(super) struct Programs {
    paceline: String,
    jar: String,
}

impl Programs {
    /// This program and the Java library's.
    pub(super) fn find() -> Result<Self, Missing> {
        let paceline = std::env::current_exe().map_err(Missing::Paceline)?;
        let java = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !java.is_ok_and(|status| status.success()) {
            return Err(Missing::Java);
        }
        let jar = Path::new(JAR).canonicalize().map_err(|_| Missing::Jar)?;
        Ok(Self { paceline: paceline.display().to_string(), jar: jar.display().to_string() })
    }
}

/// Which of them is not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum Missing {
    #[error("Not run: where is this program? {0}.")]
    Paceline(#[source] io::Error),
    #[error("Not run: there is no java; install a JRE of version 8 or later.")]
    Java,
    #[error(
        "Not run: {JAR} is not there; run `mvn -q package -DskipTests` in java/, then this in the project's folder."
    )]
    Jar,
}

/// Why there is nothing to keep of an upload.
#[derive(Debug, thiserror::Error)]
pub(super) enum UploadError {
    #[error(transparent)]
    Start(#[from] io::Error),
    #[error("{status}: {last}")]
    Failed { status: ExitStatus, last: String },
}

#[derive(Clone, Copy)]
enum Library {
    Rust,
    Java,
}

/// A controller and the client that runs it.
pub(super) struct Client {
    pub(super) name: &'static str,
    pub(super) controller: &'static str,
    library: Library,
}

pub(super) const CLIENTS: [Client; 6] = [
    Client { name: "copa, Rust", controller: "copa", library: Library::Rust },
    Client { name: "copa, Java", controller: "copa", library: Library::Java },
    Client { name: "mdi, Rust", controller: "mdi", library: Library::Rust },
    Client { name: "mdi, Java", controller: "mdi", library: Library::Java },
    Client { name: "verus, Rust", controller: "verus", library: Library::Rust },
    // A window that never limits leaves the kernel's TCP alone.
    Client { name: "TCP alone", controller: "fixed:window=10000", library: Library::Rust },
];

/// What is kept of an upload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Upload {
    pub(super) mbps: f64,
    /// Of acknowledgements, ms: median and 95th percentile.
    pub(super) rtt: f64,
    pub(super) tail: f64,
    /// The emulator kept time.
    pub(super) trusted: bool,
}

impl Client {
    /// Sends for some seconds over a link in both directions of which is this trace.
    pub(super) fn upload(
        &self,
        programs: &Programs,
        trace: &Path,
        seed: u32,
        seconds: f64,
    ) -> Result<Upload, UploadError> {
        let paceline = quoted(&programs.paceline);
        let program = match self.library {
            Library::Rust => format!("{paceline} alcc send"),
            Library::Java => format!("java -jar {}", quoted(&programs.jar)),
        };
        let client = format!(
            "exec {program} \"$PACELINE_BASE:{PORT}\" --seconds {seconds} --controller {} --json",
            self.controller
        );
        let server = format!("exec {paceline} alcc serve --listen 0.0.0.0:{PORT}");
        let done = Command::new(&programs.paceline)
            .arg("emulate")
            .arg("--up")
            .arg(trace)
            .arg("--trace")
            .arg(trace)
            .args(PATH)
            .args(["--seed", &seed.to_string(), "--json", "-", "--far", &server, "--", "sh", "-c", &client])
            .output();
        read(&done?)
    }
}

/// What the client and the emulator say.
fn read(done: &Output) -> Result<Upload, UploadError> {
    let said = String::from_utf8_lossy(&done.stdout);
    let objects: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let number = |value: &Value| value.as_f64();
    let upload = objects.iter().find_map(|object| {
        let rtt = &object["rtt_ms"];
        Some((number(&object["mbps"])?, number(&rtt["p50"])?, number(&rtt["p95"])?))
    });
    let trusted = objects.iter().find_map(|object| object["trusted"].as_bool());
    let (Some((mbps, rtt, tail)), Some(trusted), true) = (upload, trusted, done.status.success()) else {
        let last = String::from_utf8_lossy(&done.stderr).lines().last().unwrap_or("no word why").to_owned();
        return Err(UploadError::Failed { status: done.status, last });
    };
    Ok(Upload { mbps, rtt, tail, trusted })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn done(code: i32, stdout: &str, stderr: &str) -> Output {
        Output { status: ExitStatus::from_raw(code << 8), stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn an_upload_is_what_the_client_and_the_emulator_say() {
        let client = r#"{"host":"h","mbps":4.5,"rtt_ms":{"min":40.1,"p50":61.0,"p95":90.5,"max":100}}"#;
        let said = format!("{{\"listening\":\"0.0.0.0:4436\"}}\n{client}\n{{\"trusted\":true}}\n");
        let upload = Upload { mbps: 4.5, rtt: 61.0, tail: 90.5, trusted: true };
        assert_eq!(read(&done(0, &said, "")).unwrap(), upload);
        let failed = read(&done(2, &said, "one\nconnection refused\n")).unwrap_err();
        assert_eq!(failed.to_string(), "exit status: 2: connection refused");
        assert!(read(&done(0, client, "")).is_err(), "the emulator said nothing");
    }
}
