//! A fetch into a file that appears when it is whole, and goes on where an earlier one stopped.
//!
//! Units go, in the order of their arrivals, to their places in `OUT.paceline-part`; `OUT.paceline-part.units` says which are there, and has the index
//! units. A later fetch asks for the others alone. What an earlier one left is verified again at the end, and what was changed or
//! damaged meanwhile is fetched again.

use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use paceline_files::{Draft, OutputError};
use paceline_icn::fetch::FetchStats;
use paceline_icn::{Manifest, Name, UNIT};

use super::reader::Said;
use super::requester::{self, Resume, Taker};
use super::{FetchError, Options, fetch_blocking};
use crate::Partial;
use crate::partial::{Paths, runs};
use crate::store::{StoreError, write_failed};

/// Units are marked as there after this many bytes (our choice: less costs a write for each batch, more is asked for again when the fetch
/// is killed).
const MARK: u64 = 1 << 20;

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

/// Fetches an object (of a signed name its [`super::target`]), or its bytes in `range` alone (`0..u64::MAX`: all), into `out`; what an
/// earlier fetch left of it is not asked for. Blocks. `out` appears, or is replaced, when all is there and verified; until then the units
/// stand in `OUT.paceline-part`, where the next fetch finds them, whatever range it is of.
///
/// # Errors
/// [`FetchError`]; what came before stays for the next fetch.
pub fn fetch_to_file(
    name: &Name,
    sources: &[SocketAddr],
    range: Range<u64>,
    out: &Path,
    options: Options,
) -> Result<Fetched, FetchError> {
    let begun = Instant::now();
    // Before anything is asked for.
    drop(Draft::regular(out).map_err(|error| unwritten(&error))?);
    let paths = Paths::beside(out);
    let mut filling = Filling { name: *name, range, paths, part: None, stats: FetchStats::default() };
    filling.part = Partial::open(&filling.paths, name).map_err(lacking_room)?;
    let had = filling.had();
    let before = filling.bytes_of(&had);
    let again = again(options);
    filling.fetch(sources, again())?;
    let mut part = filling.part.take().ok_or(FetchError::Gone(*name))?;
    let mut damaged = 0;
    if part.check(&had)? > 0 {
        filling.part = Some(part);
        damaged = before - filling.bytes_of(&filling.had_of(&had));
        filling.fetch(sources, again())?;
        part = filling.part.take().ok_or(FetchError::Gone(*name))?;
    }
    let manifest = part.manifest().clone();
    let wanted = filling.range.start..filling.range.end.min(manifest.length);
    place(part, &wanted, out).map_err(lacking_room)?;
    let resumed = before - damaged;
    let bytes = wanted.end.saturating_sub(wanted.start) - resumed;
    Ok(Fetched { name: *name, manifest, resumed, bytes, took: begun.elapsed(), stats: filling.stats })
}

/// As [`fetch_to_file`], for what takes bytes in their order alone: a device, a pipe, or `-` (standard output). Nothing is gone on with. It
/// ends where the reader of `out` has gone.
///
/// # Errors
/// [`FetchError`].
pub fn fetch_in_order(
    name: &Name,
    sources: &[SocketAddr],
    range: Range<u64>,
    out: &Path,
    options: Options,
) -> Result<Fetched, FetchError> {
    let begun = Instant::now();
    let mut reader = fetch_blocking(name, sources, range, options)?;
    let manifest = reader.manifest().clone();
    let mut bytes = 0;
    let mut draft = Draft::create(out).map_err(|error| unwritten(&error))?;
    while !draft.is_unread()
        && let Some(piece) = reader.chunk_blocking()?
    {
        bytes += piece.len() as u64;
        let written = draft.write_all(&piece);
        written.map_err(|source| unwritten(&OutputError { path: out.to_owned(), source }))?;
    }
    draft.finish().map_err(|error| unwritten(&error))?;
    let stats = reader.stats().cloned().unwrap_or_default();
    Ok(Fetched { name: *name, manifest, resumed: 0, bytes, took: begun.elapsed(), stats })
}

/// Options for one fetch after the other.
fn again(options: Options) -> impl Fn() -> Options {
    let Options { controller, receive_buffer, patience, offload, progress } = options;
    let controller = Arc::new(Mutex::new(controller));
    let progress = progress.map(|progress| Arc::new(Mutex::new(progress)));
    move || {
        let controller = Arc::clone(&controller);
        let progress = progress.clone().map(|progress| -> super::OnProgress {
            Box::new(move |now| progress.lock().unwrap_or_else(PoisonError::into_inner)(now))
        });
        Options {
            controller: Box::new(move |at| controller.lock().unwrap_or_else(PoisonError::into_inner)(at)),
            receive_buffer,
            patience,
            offload,
            progress,
        }
    }
}

fn unwritten(error: &OutputError) -> FetchError {
    FetchError::File { path: error.path.display().to_string(), why: error.why() }
}

/// A full disk is not an end.
fn lacking_room(error: StoreError) -> FetchError {
    match error {
        StoreError::Full { path } => FetchError::File {
            path: path.display().to_string(),
            why: "the disk is full; make room, then fetch again: it goes on from there".to_owned(),
        },
        StoreError::InUse { path } => FetchError::File {
            path: path.display().to_string(),
            why: "another fetch writes it; wait for its end, or give another file".to_owned(),
        },
        error => error.into(),
    }
}

/// A file in the making.
struct Filling {
    name: Name,
    range: Range<u64>,
    paths: Paths,
    part: Option<Partial>,
    stats: FetchStats,
}

impl Filling {
    /// Data units of the range that are there.
    fn had(&self) -> Vec<Range<u64>> {
        self.part.as_ref().map_or_else(Vec::new, |part| part.data_units(&self.range))
    }

    /// Those of `had` that are still there.
    fn had_of(&self, had: &[Range<u64>]) -> Vec<Range<u64>> {
        let Some(part) = &self.part else { return Vec::new() };
        let layout = part.layout();
        runs(had.iter().cloned().flatten().filter(|index| part.has(layout.unit_of(*index))))
    }

    /// Bytes of the range that these data units hold.
    fn bytes_of(&self, data: &[Range<u64>]) -> u64 {
        let length = self.part.as_ref().map_or(0, |part| part.manifest().length);
        let end = self.range.end.min(length);
        let overlap = |run: &Range<u64>| {
            (run.end * UNIT as u64).min(end).saturating_sub((run.start * UNIT as u64).max(self.range.start))
        };
        data.iter().map(overlap).sum()
    }

    /// Fetches what is not there.
    fn fetch(&mut self, sources: &[SocketAddr], options: Options) -> Result<(), FetchError> {
        let resume = self.part.as_ref().map(|part| {
            let had = self.had();
            let bytes = self.bytes_of(&had);
            let layout = *part.layout();
            let had = had.into_iter().flatten().map(move |index| layout.unit_of(index));
            Resume { had: Box::new(had), bytes, saved: Box::new(part.saved_index()) }
        });
        let (mut queue, fetching) =
            requester::start(self.name, sources, self.range.clone(), options, Taker::File(resume))?;
        let mut unmarked = 0;
        let result = loop {
            match queue.blocking_recv() {
                Some(Said::Units(units)) => {
                    let bytes = units.iter().map(|(_, bytes)| bytes.len() as u64).sum();
                    self.write(&units)?;
                    fetching.0.took(bytes);
                    unmarked += bytes;
                    // With what was written last, where nothing more is at hand.
                    if unmarked >= MARK || queue.is_empty() {
                        unmarked = 0;
                        self.mark()?;
                    }
                }
                Some(Said::End(stats, result)) => {
                    self.stats.add(&stats);
                    break result;
                }
                Some(_) => {}
                None => break Err(FetchError::Gone(self.name)),
            }
        };
        drop(fetching);
        self.mark()?;
        result
    }

    fn write(&mut self, units: &[(u64, bytes::Bytes)]) -> Result<(), FetchError> {
        let mut rest = units;
        if self.part.is_none() {
            // The manifest comes first.
            let Some(((0, first), behind)) = units.split_first() else { return Err(FetchError::Gone(self.name)) };
            self.part = Some(Partial::create(self.paths.clone(), first).map_err(lacking_room)?);
            rest = behind;
        }
        let Some(part) = &mut self.part else { return Ok(()) };
        // What is there and came all the same was found to be damaged.
        rest.iter().for_each(|(unit, _)| part.forget(*unit));
        part.write_all(rest).map_err(lacking_room)
    }

    fn mark(&mut self) -> Result<(), FetchError> {
        self.part.as_mut().map_or(Ok(()), Partial::mark).map_err(lacking_room)
    }
}

/// Puts what was wanted in its place.
fn place(part: Partial, wanted: &Range<u64>, out: &Path) -> Result<(), StoreError> {
    let length = part.manifest().length;
    if (wanted.start, wanted.end) == (0, length) {
        return part.finish(out);
    }
    let draft = Draft::regular(out)?;
    part.copy(wanted.clone(), &mut |bytes, at| {
        draft.file().write_all_at(bytes, at).map_err(|error| write_failed(out, error))
    })?;
    draft.finish()?;
    // A part that has more than that is of use to another fetch.
    let all: u64 = part.data_units(&(0..length)).iter().map(|run| run.end - run.start).sum();
    let used: u64 = part.data_units(wanted).iter().map(|run| run.end - run.start).sum();
    if all == used {
        part.remove();
    }
    Ok(())
}
