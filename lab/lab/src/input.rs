//! Files to be read, whatever they turn out to be: a device is refused, and no file and no line is read beyond a bound.
//! Every file that a user names is read through here.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use paceline_cc::names::nearest;
use paceline_cc::{Spec, SpecError};

/// How much is read at most, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of a file.
    pub file: u64,
    /// Of a line: what a reader of lines keeps at once.
    pub line: u64,
}

impl Bounds {
    /// A key: 64 digits and white space (our choice).
    pub const KEY: Self = Self::text(4 << 10);
    /// A scenario: some hundred times the largest shipped one (our choice).
    pub const SCENARIO: Self = Self::text(4 << 20);
    /// Delivery traces and tables of rate steps: more than the 64 million opportunities of the longest that is made (our
    /// choice).
    pub const TRACE: Self = Self { file: 1 << 30, line: 64 << 10 };
    /// Records and journals: a record of the 100 000 flows that a world may have takes about 40 MB (our choice).
    pub const RECORDS: Self = Self { file: 1 << 30, line: 64 << 20 };

    /// Models of controllers, and the counts that they are made of ([`paceline_cc::mdi::text::MAX_TEXT`]).
    pub const MODEL: Self = Self::text(paceline_cc::mdi::text::MAX_TEXT as u64);

    /// Event logs: a line holds the packets of one event ([`paceline_cc::event_log::MAX_LINE`]).
    pub const EVENTS: Self = Self { file: 64 << 30, line: paceline_cc::event_log::MAX_LINE as u64 };

    const fn text(most: u64) -> Self {
        Self { file: most, line: most }
    }

    /// Refuses what is known to be too much before it is read.
    ///
    /// # Errors
    /// For devices, of which some never end, and for files that are too long.
    pub fn permit(self, file: &File) -> io::Result<()> {
        let about = file.metadata()?;
        if is_device(&about) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a device"));
        }
        if about.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        if about.len() > self.file && about.is_file() { Err(too_long("it", self.file)) } else { Ok(()) }
    }
}

#[cfg(unix)]
fn is_device(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    about.file_type().is_char_device() || about.file_type().is_block_device()
}

#[cfg(not(unix))]
fn is_device(_: &std::fs::Metadata) -> bool {
    false
}

/// Names that are compared with that of a file that is not there (our choice: a folder may hold millions).
const MOST_NAMES: usize = 10_000;

fn too_long(what: &str, most: u64) -> io::Error {
    let most = if most < 1 << 20 { format!("{} KiB", most >> 10) } else { format!("{} MiB", most >> 20) };
    io::Error::new(io::ErrorKind::FileTooLarge, format!("{what} is longer than {most}"))
}

/// What is said of a text in UTF-16.
pub const IN_UTF16: &str = "it is in UTF-16: convert it, iconv -f UTF-16 -t UTF-8 FILE";

/// Whether a file begins as a text in UTF-16, as Windows writes it.
pub fn is_utf16(head: &[u8]) -> bool {
    matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
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
    Some(format!("it is compressed by {format}: unpack it first, {tool} FILE"))
}

/// What Windows puts before a text that is in UTF-8: no part of it.
pub(crate) const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Opens a file. Pipes are as good as files. A byte order mark is left out.
///
/// # Errors
/// What the system says, and as [`Bounds::permit`] and [`Bounded::text`].
pub fn open(path: &Path, bounds: Bounds) -> io::Result<Bounded<File>> {
    let file = File::open(path).map_err(|error| unfound(path, error))?;
    bounds.permit(&file)?;
    Ok(Bounded::text(file, bounds))
}

/// The error with names like that of a file that is not there.
fn unfound(path: &Path, error: io::Error) -> io::Error {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return error };
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Ok(entries) = parent.unwrap_or(Path::new(".")).read_dir() else { return error };
    let names: Vec<String> =
        entries.take(MOST_NAMES).flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let tip = nearest(name, names.iter().map(String::as_str));
    let tip = if tip.starts_with("did you mean") { format!("; {tip}") } else { String::new() };
    io::Error::new(io::ErrorKind::NotFound, format!("there is no such file{tip}"))
}

/// Reads a whole text.
///
/// # Errors
/// As [`open`], and when it is longer than it may be or not UTF-8.
pub fn read_text(path: &Path, bounds: Bounds) -> io::Result<String> {
    io::read_to_string(open(path, bounds)?)
}

/// A controller that the user of this machine named; `mdi:model=FILE` may name a file.
///
/// # Errors
/// What is wrong with the text or the file, in one line.
pub fn controller(text: &str) -> Result<Spec, SpecError> {
    Spec::read(text, |file| read_text(Path::new(file), Bounds::MODEL))
}

/// A reader that fails where a file or a line goes on beyond its bound (a line: at the latest one buffer later).
#[derive(Debug)]
pub struct Bounded<R> {
    inner: BufReader<R>,
    bounds: Bounds,
    /// Bytes so far.
    file: u64,
    /// Bytes since the last line end.
    line: u64,
    /// Whether a byte order mark at the beginning is a part of it.
    unmarked: bool,
}

impl<R: Read> Bounded<R> {
    /// Reads from `inner`.
    pub fn new(inner: R, bounds: Bounds) -> Self {
        Self { inner: BufReader::new(inner), bounds, file: 0, line: 0, unmarked: true }
    }

    /// Reads a text from `inner`, without a byte order mark. It fails where the mark is that of UTF-16, and where it begins as a compressed
    /// file.
    pub fn text(inner: R, bounds: Bounds) -> Self {
        Self { unmarked: false, ..Self::new(inner, bounds) }
    }
}

impl<R> Bounded<R> {
    /// What is read from.
    pub fn get_ref(&self) -> &R {
        self.inner.get_ref()
    }
}

impl<R: Read> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let Self { inner, bounds, file, line, unmarked } = self;
        if !std::mem::replace(unmarked, true) {
            let start = inner.fill_buf()?;
            if let Some(problem) = is_utf16(start).then(|| IN_UTF16.to_owned()).or_else(|| compressed(start)) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
            if start.starts_with(&BYTE_ORDER_MARK) {
                inner.consume(BYTE_ORDER_MARK.len());
            }
        }
        let chunk = inner.fill_buf()?;
        if chunk.is_empty() {
            return Ok(chunk);
        }
        if *file >= bounds.file {
            return Err(too_long("it", bounds.file));
        }
        if *line > bounds.line {
            return Err(too_long("a line of it", bounds.line));
        }
        let left = usize::try_from(bounds.file - *file).unwrap_or(usize::MAX);
        Ok(&chunk[..chunk.len().min(left)])
    }

    fn consume(&mut self, amount: usize) {
        let consumed = self.inner.buffer();
        let consumed = &consumed[..amount.min(consumed.len())];
        self.line = match consumed.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => (consumed.len() - end - 1) as u64,
            None => self.line + consumed.len() as u64,
        };
        self.file += consumed.len() as u64;
        self.inner.consume(amount);
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut chunk = self.fill_buf()?;
        let amount = chunk.read(into)?;
        self.consume(amount);
        Ok(amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Bounds = Bounds { file: 100_000, line: 10_000 };

    fn lines(inner: impl Read) -> (usize, Option<String>) {
        let mut count = 0;
        for line in Bounded::new(inner, SMALL).lines() {
            match line {
                Ok(_) => count += 1,
                Err(error) => return (count, Some(error.to_string())),
            }
        }
        (count, None)
    }

    /// The same line without end.
    struct Again<'a>(&'a [u8], usize);

    impl Read for Again<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            for byte in &mut *into {
                *byte = self.0[self.1 % self.0.len()];
                self.1 += 1;
            }
            Ok(into.len())
        }
    }

    #[test]
    fn what_never_ends_is_read_to_its_bound() {
        assert_eq!(lines(io::repeat(b'x')), (0, Some("a line of it is longer than 9 KiB".to_owned())));
        let (count, problem) = lines(Again(b"1234567\n", 0));
        assert_eq!((count, problem.as_deref()), (12_500, Some("it is longer than 97 KiB")));
        let mut text = Vec::new();
        let ended = Bounded::new(io::repeat(b'\n'), SMALL).read_to_end(&mut text);
        assert_eq!((ended.unwrap_err().kind(), text.len()), (io::ErrorKind::FileTooLarge, 100_000));
    }

    #[test]
    fn what_fits_is_read_whole() {
        let exact = vec![b'\n'; 100_000];
        assert_eq!(lines(exact.as_slice()), (100_000, None));
        let long = [vec![b'x'; 9_999], b"\n".to_vec()].concat().repeat(10);
        assert_eq!(lines(long.as_slice()), (10, None));
        assert_eq!(lines(&b"a\nb"[..]), (2, None));
        assert_eq!(lines(io::empty()), (0, None));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        for (text, read) in
            [("\u{feff}a\u{feff}b", "a\u{feff}b"), ("\u{feff}", ""), ("\u{feff}\u{feff}", "\u{feff}"), ("", "")]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_text(&path, SMALL).unwrap(), read);
        }
        for marked in [b"\xff\xfea\0", b"\xfe\xff\0a"] {
            std::fs::write(&path, marked).unwrap();
            let problem = read_text(&path, SMALL).unwrap_err().to_string();
            assert_eq!(problem, IN_UTF16);
        }
    }

    #[test]
    fn a_compressed_file_is_named_as_one() {
        for (head, problem) in [
            (&b"\x1f\x8b\x08\0"[..], "it is compressed by gzip: unpack it first, gunzip FILE"),
            (b"\x28\xb5\x2f\xfd\xa4", "it is compressed by zstd: unpack it first, unzstd FILE"),
            (b"BZh91AY&SY", "it is compressed by bzip2: unpack it first, bunzip2 FILE"),
        ] {
            let mut text = String::new();
            let error = Bounded::text(head, SMALL).read_to_string(&mut text).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_files_that_are_too_long_are_not_read() {
        let refused = |path: &Path| open(path, SMALL).map(drop).unwrap_err().to_string();
        assert_eq!(refused(Path::new("/dev/zero")), "it is a device");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "\n".repeat(100_001)).unwrap();
        assert_eq!(refused(&path), "it is longer than 97 KiB");
        File::options().write(true).open(&path).unwrap().set_len(100_000).unwrap();
        assert_eq!(open(&path, SMALL).unwrap().read_to_end(&mut Vec::new()).unwrap(), 100_000);
    }
}
