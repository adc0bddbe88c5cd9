//! Files with something over time as curves: packet logs of `mm-link`, captures, qlogs, series of races.
//!
//! What a file is, is found by its content. Packets are counted in steps as they are read, and steps grow with the time that a file
//! covers, so that memory does not grow with its length; of a qlog the first four million points are kept
//! ([`paceline_conform::trajectory::MOST_POINTS`]).

mod bins;
mod capture;
mod mahimahi;
mod qlog;
mod series;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use paceline_cc::Nanos;
use paceline_conform::capture::{is_capture, unread};
use paceline_conform::read::FileError;
use paceline_lab::input::{Bounded, Bounds, IN_UTF16, is_utf16};
use paceline_report::logs::PlottedLog;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet log of a link in Mahimahi's format.
    Mahimahi,
    /// Packets: pcap or pcapng.
    Capture,
    /// A qlog.
    Qlog,
    /// A time series of a race.
    Series(paceline_lab::series::Format),
    /// Records of a race, which have a page of their own ([`paceline_report::write_records`]).
    Records,
}

fn unreadable(file: &str, error: &io::Error) -> FileError {
    FileError::new(file, 0, format!("cannot be read ({error}); name a file that you may read"))
}

/// Most bytes of a file and of a line (our choice: a day of a gigabit in headers; the longest record of a race).
const BOUNDS: Bounds = Bounds { file: 1 << 40, line: 64 << 20 };
/// Bytes by which a file's kind is found (our choice: a header of a qlog may name its source first).
const HEAD: usize = 64 << 10;
/// What is said of a file of no known kind.
const KINDS: &str = "give a log of mm-link, a capture (pcap, pcapng), a qlog, or what race --series or --json wrote";

/// Opens a file and finds what it is.
///
/// # Errors
/// [`FileError`] when it cannot be read, or is not of a [`Kind`].
pub fn kind(path: &Path) -> Result<Kind, FileError> {
    let name = path.display().to_string();
    let mut head = Vec::new();
    let file = open(path, &name)?;
    file.take(HEAD as u64).read_to_end(&mut head).map_err(|error| unreadable(&name, &error))?;
    kind_of(&name, &head)
}

fn open(path: &Path, name: &str) -> Result<File, FileError> {
    let cannot = |error: io::Error| unreadable(name, &error);
    let file = File::open(path).map_err(cannot)?;
    BOUNDS.permit(&file).map_err(cannot)?;
    Ok(file)
}

/// What a file is, by its first bytes.
///
/// # Errors
/// [`FileError`] when it is not of a [`Kind`]: with what it seems to be.
pub fn kind_of(name: &str, head: &[u8]) -> Result<Kind, FileError> {
    use paceline_lab::series::Format;
    match head {
        _ if is_capture(head) => return Ok(Kind::Capture),
        [0x1e, ..] | [0xef, 0xbb, 0xbf, 0x1e, ..] => return Ok(Kind::Qlog),
        [b'P', b'A', b'R', b'1', ..] => return Ok(Kind::Series(Format::Parquet)),
        [] => return Err(FileError::new(name, 0, format!("it is empty; {KINDS}"))),
        _ if is_utf16(head) => return Err(FileError::new(name, 0, IN_UTF16)),
        _ => {}
    }
    if let Some(problem) = unread(head) {
        return Err(FileError::new(name, 0, problem));
    }
    let text = String::from_utf8_lossy(head);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with('{') {
        let line = start.lines().next().unwrap_or_default();
        let has = |key: &str| line.contains(&format!("\"{key}\""));
        return if start.contains("\"qlog_version\"")
            || start.contains("\"qlog_format\"")
            || start.contains("\"file_schema\"")
        {
            Ok(Kind::Qlog)
        } else if has("time_s") && has("contestant") {
            Ok(Kind::Series(Format::JsonLines))
        } else if has("scenario") && has("controller") {
            Ok(Kind::Records)
        } else if has("answers") || has("event") {
            Err(FileError::new(
                name,
                1,
                "it seems to be an event log; give it to paceline replay, or write a qlog (race --qlog)",
            ))
        } else {
            Err(FileError::new(name, 1, format!("JSON of no known kind; {KINDS}")))
        };
    }
    let line = start.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    let columns: Vec<&str> = line.split(',').map(|column| column.trim_matches([' ', '"'])).collect();
    if columns.contains(&"time_s") && columns.contains(&"contestant") {
        return Ok(Kind::Series(Format::Csv));
    }
    if columns.contains(&"scenario") && columns.contains(&"controller") {
        return Err(FileError::new(name, 1, "records as CSV have no flows; give those that race --json wrote"));
    }
    let mut words = line.split_whitespace();
    let time = words.next().is_some_and(|time| time.parse::<f64>().is_ok());
    match (time, words.next()) {
        (true, Some("+" | "-" | "#" | "d")) => Ok(Kind::Mahimahi),
        (true, None) => Err(FileError::new(name, 1, "it seems to be a delivery trace; see it by paceline trace info")),
        _ if line.is_empty() && start.contains("mm-link") => Ok(Kind::Mahimahi),
        _ => Err(FileError::new(name, 0, format!("it is of no known kind; {KINDS}"))),
    }
}

/// Reads a file of any kind but [`Kind::Records`]. `step` is how long a point of a curve is, where that is wanted.
///
/// # Errors
/// [`FileError`] when it cannot be read, is damaged at its start, or holds nothing that can be drawn.
pub fn read(path: &Path, kind: Kind, step: Option<Nanos>) -> Result<PlottedLog, FileError> {
    let name = path.display().to_string();
    let file = open(path, &name)?;
    if kind == Kind::Series(paceline_lab::series::Format::Parquet) {
        return series::read_parquet(&name, file, step);
    }
    read_from(&name, file, kind, step)
}

/// As [`read`], from anything that can be read; Parquet alone has to be a file.
///
/// # Errors
/// As [`read`].
pub fn read_from(name: &str, from: impl Read, kind: Kind, step: Option<Nanos>) -> Result<PlottedLog, FileError> {
    use paceline_lab::series::Format;
    let log = match kind {
        Kind::Capture => capture::read(name, from, step)?,
        Kind::Mahimahi => mahimahi::read(name, Bounded::text(from, BOUNDS), step)?,
        // Its reader bounds its records itself.
        Kind::Qlog => qlog::read(name, BufReader::new(from), step)?,
        Kind::Series(Format::Csv) => {
            series::read(name, paceline_lab::series::read_csv(Bounded::text(from, BOUNDS)), step)?
        }
        Kind::Series(Format::JsonLines) => {
            series::read(name, paceline_lab::series::read_json(Bounded::text(from, BOUNDS)), step)?
        }
        Kind::Series(Format::Parquet) => return Err(FileError::new(name, 0, "Parquet has to be a file; name it")),
        Kind::Records => return Err(FileError::new(name, 0, "records have a page of their own; give them alone")),
    };
    Ok(log)
}

/// Reads a line into `line`, without its end; `None` at the end of the file, and whether the line had an end.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    if from.read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    let ended = line.last() == Some(&b'\n');
    while line.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
        line.pop();
    }
    Ok(Some(ended))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::series::Format;

    #[test]
    fn files_are_known_by_their_content() {
        let kind = |text: &str| kind_of("f", text.as_bytes());
        for (text, expected) in [
            ("# mahimahi mm-link (downlink)\n# base timestamp: 0\n0 + 1500\n", Kind::Mahimahi),
            ("3 # 1504\n", Kind::Mahimahi),
            ("# mahimahi mm-link (uplink)\n# base timestamp: 0\n", Kind::Mahimahi),
            ("{\n \"qlog_version\": \"0.3\"", Kind::Qlog),
            ("\u{1e}{}", Kind::Qlog),
            ("\u{feff}\u{1e}{}", Kind::Qlog),
            ("contestant,run,time_s,flow\n", Kind::Series(Format::Csv)),
            ("{\"contestant\":\"a@b\",\"run\":1,\"time_s\":0.1}\n", Kind::Series(Format::JsonLines)),
            ("{\"scenario\":\"s\",\"trace\":null,\"controller\":\"copa\"}\n", Kind::Records),
        ] {
            assert_eq!(kind(text).unwrap(), expected, "{text}");
        }
        for (text, expected) in [
            ("", "f: it is empty; give a log"),
            ("1\n2\n", "f:1: it seems to be a delivery trace; see"),
            ("{\"a\":1}", "f:1: JSON of no known kind; give"),
            ("scenario,trace,world,controller\n", "f:1: records as CSV have no flows; give"),
            ("\u{1f}hello", "f: it is of no known kind; give"),
        ] {
            let line = kind(text).unwrap_err().to_string();
            assert!(line.starts_with(expected), "{line}");
        }
        assert_eq!(
            kind_of("f", b"\xff\xfe3\0 \0").unwrap_err().to_string(),
            "f: it is in UTF-16: convert it, iconv -f UTF-16 -t UTF-8 FILE"
        );
        assert_eq!(
            kind_of("f", b"\x1f\x8b\x08").unwrap_err().to_string(),
            "f: it is compressed by gzip: unpack it first, gunzip FILE"
        );
    }
}
