//! A fetch into a file that appears when it is whole, and goes on where an earlier one stopped.
//!
//! Bytes go, in order, to `OUT.part`; `OUT.part.json` says of which object. A later fetch asks for the rest alone, behind what the file
//! holds; then it hashes the whole file once, since a crash of the machine may have left bytes in it that never reached the disk.

use std::fs::{self, File, TryLockError};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use paceline_icn::fetch::FetchStats;
use paceline_icn::{Builder, Manifest, Name, UNIT};
use serde::{Deserialize, Serialize};

use super::{FetchError, Options, fetch_blocking};

/// Pieces that are written in one call at most (Linux `UIO_MAXIOV` is 1024; our choice: a third of a megabyte).
const PIECES: usize = 256;

/// A fetch that ended.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The object.
    pub name: Name,
    /// What it is.
    pub manifest: Manifest,
    /// Bytes that were there from an earlier fetch.
    pub resumed: u64,
    /// Bytes fetched now.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
    /// What the requester did; with a file that was complete already, nothing.
    pub stats: FetchStats,
}

/// Of which object the bytes in `OUT.part` are.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct State {
    name: String,
}

/// The file in the making.
struct Part {
    path: PathBuf,
    out: PathBuf,
    file: File,
}

fn beside(out: &Path, ending: &str) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn failed(path: &Path, why: impl Into<String>) -> FetchError {
    FetchError::File { path: path.display().to_string(), why: why.into() }
}

fn unwritable(path: &Path) -> impl Fn(io::Error) -> FetchError {
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            failed(path, "the disk is full; make room, then fetch again: it goes on from there")
        }
        _ => failed(path, format!("cannot be written ({error}); name a file in a folder that you may write to")),
    }
}

impl Part {
    /// Opens what an earlier fetch of this object left, or begins.
    fn open(out: &Path, name: &Name) -> Result<(Self, u64), FetchError> {
        if out.is_dir() {
            return Err(failed(out, "is a folder; name a file in it"));
        }
        let path = beside(out, ".part");
        let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(unwritable(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(failed(&path, "another fetch writes it; wait for its end")),
            Err(TryLockError::Error(error)) => return Err(unwritable(&path)(error)),
        }
        let state = State { name: name.to_string() };
        let before = fs::read(beside(out, ".part.json")).ok();
        let same = before.and_then(|text| serde_json::from_slice::<State>(&text).ok()).is_some_and(|was| was == state);
        let mut had = file.metadata().map_err(unwritable(&path))?.len();
        if !same {
            had = 0;
        }
        // The last unit, whole or not, is asked for again: there is always something to ask for.
        had = had.saturating_sub(1) / UNIT as u64 * UNIT as u64;
        file.set_len(had).map_err(unwritable(&path))?;
        let text = serde_json::to_vec(&state).map_err(|error| failed(&path, error.to_string()))?;
        fs::write(beside(out, ".part.json"), text).map_err(unwritable(&path))?;
        file.seek(SeekFrom::Start(had)).map_err(unwritable(&path))?;
        Ok((Self { path, out: out.to_owned(), file }, had))
    }

    /// Writes pieces behind what is there.
    fn write(&mut self, pieces: &mut Vec<Bytes>) -> Result<(), FetchError> {
        let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut rest = slices.as_mut_slice();
        while !rest.is_empty() {
            match self.file.write_vectored(rest) {
                Ok(0) => return Err(unwritable(&self.path)(io::ErrorKind::WriteZero.into())),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unwritable(&self.path)(error)),
            }
        }
        pieces.clear();
        Ok(())
    }

    /// Whether the file is the object.
    fn is(&mut self, manifest: &Manifest) -> Result<bool, FetchError> {
        let unreadable = |error: io::Error| failed(&self.path, format!("cannot be read ({error})"));
        self.file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        let mut builder = Builder::new(manifest.length, &manifest.media_type);
        let mut units = vec![0; UNIT * PIECES];
        let mut left = manifest.length;
        while left > 0 {
            let part = left.min(units.len() as u64) as usize;
            match self.file.read_exact(&mut units[..part]) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                result => result.map_err(unreadable)?,
            }
            for unit in units[..part].chunks(UNIT) {
                builder.push(unit, &mut |_, _| {});
            }
            left -= part as u64;
        }
        let built = builder.finish(&mut |_, _| {}).map_err(|error| failed(&self.path, error.to_string()))?;
        Ok(built.name() == manifest.name())
    }

    /// Puts the file in its place.
    fn keep(self) -> Result<(), FetchError> {
        self.file.sync_all().map_err(unwritable(&self.path))?;
        fs::rename(&self.path, &self.out).map_err(unwritable(&self.out))?;
        // Without its file it says nothing.
        let _ = fs::remove_file(beside(&self.out, ".part.json"));
        Ok(())
    }

    /// Removes all of it.
    fn remove(self) {
        let _ = fs::remove_file(beside(&self.out, ".part.json"));
        let _ = fs::remove_file(&self.path);
    }
}

/// Fetches an object (of a signed name its [`super::target`]) into `out`, or what of it an earlier fetch did not have. Blocks. `out` appears, or is replaced, when all is there and
/// verified; until then the bytes stand in `OUT.part`, where the next fetch finds them.
///
/// # Errors
/// [`FetchError`]; what came before stays for the next fetch.
pub fn fetch_to_file(name: &Name, sources: &[SocketAddr], out: &Path, options: Options) -> Result<Fetched, FetchError> {
    let begun = Instant::now();
    let (mut part, had) = Part::open(out, name)?;
    let mut reader = match fetch_blocking(name, sources, had..u64::MAX, options) {
        Ok(reader) => reader,
        Err(error) => {
            if had == 0 {
                part.remove();
            }
            return Err(error);
        }
    };
    let manifest = reader.manifest().clone();
    let mut bytes = 0;
    let mut pieces = Vec::with_capacity(PIECES);
    while let Some(piece) = reader.chunk_blocking()? {
        bytes += piece.len() as u64;
        pieces.push(piece);
        // Those that are at hand go together.
        if pieces.len() == PIECES || !reader.has_more() {
            part.write(&mut pieces)?;
        }
    }
    part.write(&mut pieces)?;
    let stats = reader.stats().cloned().unwrap_or_default();
    if had > 0 && !part.is(&manifest)? {
        let error = failed(&part.path, "what an earlier fetch left was damaged, and is removed; fetch again");
        part.remove();
        return Err(error);
    }
    part.keep()?;
    Ok(Fetched { name: *name, manifest, resumed: had, bytes, took: begun.elapsed(), stats })
}
