//! The scenarios and traces of the repository, as constants.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../scenarios");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut files = Vec::new();
    list(&root, "", &mut files)?;
    files.sort();
    let ending = |ending| files.iter().filter(move |file: &&String| file.ends_with(ending));
    let mut text = "pub(crate) const SCENARIOS: &[(&str, &str)] = &[\n".to_owned();
    for file in ending(".toml") {
        let _ = writeln!(text, "    ({file:?}, include_str!({:?})),", root.join(file));
    }
    text.push_str("];\npub(crate) const TRACES: &[(&str, &[u8])] = &[\n");
    for (number, file) in ending(".mahi").enumerate() {
        let place = out.join(format!("trace-{number}"));
        fs::write(&place, steps(&fs::read_to_string(root.join(file))?))?;
        let _ = writeln!(text, "    ({file:?}, include_bytes!({place:?})),");
    }
    text.push_str("];\n");
    println!("cargo::rerun-if-changed={}", root.display());
    fs::write(out.join("shipped.rs"), text)
}

/// From each number of a trace to the next, seven bits a byte, the lowest first: a quarter of its text where both are compressed.
fn steps(text: &str) -> Vec<u8> {
    let mut steps = Vec::new();
    let mut last = 0;
    for time in text.split_whitespace().map(|number| number.parse::<u32>().expect("a trace has whole numbers")) {
        let mut step = time - last;
        last = time;
        while step > 127 {
            steps.push(step as u8 | 128);
            step >>= 7;
        }
        steps.push(step as u8);
    }
    steps
}

/// Files below a folder, by their names from `root` on.
fn list(root: &Path, below: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(root, &format!("{name}/"), files)?;
        } else {
            files.push(name);
        }
    }
    Ok(())
}
