//! Files of others: what is wrong with one, in one line with its place and the fix.

/// Why a file gives no trajectory.
#[derive(Debug, thiserror::Error)]
#[error("{file}{}: {problem}", place(*.line))]
pub struct ReadError {
    /// The file.
    pub file: String,
    /// The line, record or packet, from 1; 0 where it is the whole file.
    pub line: u64,
    /// What is wrong, and the fix.
    pub problem: String,
}

fn place(line: u64) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}

impl ReadError {
    pub(crate) fn new(file: &str, line: u64, problem: impl AsRef<str>) -> Self {
        let problem = problem.as_ref().chars().map(|c| if c.is_control() { ' ' } else { c });
        Self { file: file.to_owned(), line, problem: problem.take(300).collect() }
    }
}

/// What is said of a compressed file, by its first bytes.
pub fn compressed(head: &[u8]) -> Option<String> {
    let known: [(&[u8], &str, &str); 6] = [
        (&[0x1f, 0x8b], "gzip", "gunzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "unzstd"),
        (&[0x04, 0x22, 0x4d, 0x18], "lz4", "unlz4"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "unxz"),
        (b"BZh", "bzip2", "bunzip2"),
        (b"PK\x03\x04", "zip", "unzip"),
    ];
    let (_, format, tool) = known.iter().find(|(magic, ..)| head.starts_with(magic))?;
    Some(format!("it is compressed ({format}); unpack it first ({tool})"))
}
