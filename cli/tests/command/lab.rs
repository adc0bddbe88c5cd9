//! A folder to run the command in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

pub(crate) const SCENARIO: &str = r#"
name = "small"
seconds = 2
runs = 2
contestants = ["reno@tcp", "cubic@tcp", "copa@udp", "fixed:window=20@alcc"]
[down]
rate = "5 Mbit/s"
delay = "10ms"
queue = "droptail:bytes=60kB"
loss = "0.001..0.01"
[up]
delay = "10ms"
"#;

/// A folder with the scenario in it.
pub(crate) struct Lab {
    pub(crate) folder: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let lab = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(lab.path("small.toml"), SCENARIO).unwrap();
        lab
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file that no one else may read, as keys are.
    pub(crate) fn write_private(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        #[cfg(unix)]
        fs::set_permissions(self.path(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_paceline")).args(args).current_dir(self.folder.path()).output().unwrap()
    }

    /// Names of what is there, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.folder.path())
    }
}

/// Names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The one line of a run that was refused.
pub(crate) fn refusal(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(output.stdout.is_empty());
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().strip_prefix("paceline: ").expect("it starts with the command's name").to_owned()
}
