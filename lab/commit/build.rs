//! Asks git for the commit, and whether the sources are as it has them.

use std::path::Path;
use std::process::Command;

/// What records depend on, from the workspace's folder on. Tests and pages are left aside.
const SOURCES: [&str; 8] = [
    "core/*/src/**",
    "datapaths/*/src/**",
    "lab/*/src/**",
    "bindings/*/src/**",
    "bindings/python/python/**",
    "cli/src/**",
    "Cargo.lock",
    "**/Cargo.toml",
];
/// The same, as cargo watches it: folders whole.
const WATCHED: [&str; 6] = ["core", "datapaths", "lab", "bindings", "cli", "Cargo.lock"];

fn main() {
    println!("cargo:rerun-if-env-changed=PACELINE_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("PACELINE_COMMIT").unwrap_or_default();
    if !given.trim().is_empty() {
        println!("cargo:rustc-env=PACELINE_BUILT_FROM={}", given.trim());
        return;
    }
    let workspace = Path::new("../..");
    // An archive of the sources has no history, or lies in that of another project; then the version alone counts.
    let ours = git(Path::new("."), &["ls-files", "--error-unmatch", "build.rs"]);
    let Some(commit) = ours.and_then(|_| git(workspace, &["rev-parse", "HEAD"])) else { return };
    let paths = git(workspace, &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]);
    let sources = WATCHED.iter().flat_map(|folder| watched(&workspace.join(folder)));
    for path in sources.chain(paths) {
        println!("cargo:rerun-if-changed={path}");
    }
    let pathspecs = SOURCES.map(|glob| format!(":(glob){glob}"));
    let with = |arguments: &[&'static str]| -> Option<String> {
        let all: Vec<&str> =
            arguments.iter().copied().chain(["--"]).chain(pathspecs.iter().map(String::as_str)).collect();
        git(workspace, &all)
    };
    let changed = with(&["diff", "HEAD", "--no-ext-diff", "--no-textconv", "--binary"]).unwrap_or_default();
    let added = with(&["ls-files", "--others", "--exclude-standard"]).unwrap_or_default();
    let added: String = added.lines().map(|file| content(workspace, file)).collect();
    let suffix = if changed.is_empty() && added.is_empty() {
        String::new()
    } else {
        format!("+changed.{:016x}", digest(changed.bytes().chain(added.bytes())))
    };
    println!("cargo:rustc-env=PACELINE_BUILT_FROM={commit}{suffix}");
}

/// What git prints, without the last line's end; nothing where it fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    output.status.success().then_some(text)
}

/// Name and content of a file that git does not know.
fn content(workspace: &Path, file: &str) -> String {
    let bytes = std::fs::read(workspace.join(file)).unwrap_or_default();
    format!("{file}\n{:016x}\n", digest(bytes.into_iter()))
}

/// A file, or the folders of sources and of Python below a folder: not its tests.
fn watched(path: &Path) -> Vec<String> {
    let is = |name: &str| path.file_name().is_some_and(|last| last == name);
    if path.is_file() || is("src") || is("python") && path.join("paceline").is_dir() {
        return vec![path.display().to_string()];
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let folders = entries.flatten().map(|entry| entry.path()).filter(|entry| {
        let name = entry.file_name().unwrap_or_default();
        entry.is_dir() && name != "tests" && name != "target" && name != "node_modules"
    });
    folders.flat_map(|folder| watched(&folder)).collect()
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo; RFC 9923): it notices a change, and need not withstand anyone.
fn digest(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
