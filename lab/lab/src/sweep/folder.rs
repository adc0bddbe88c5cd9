//! The folder of results: `_sweep.json`, and `contestant=NAME/part-NNNNN.parquet` for so many cells each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::cells::{Cell, Failed, cell_of};
use super::chunk::{self, Known, Row};
use super::journal::{Journal, Line};
use super::{Sweep, SweepError};
use crate::record::Record;

/// About how many runs a chunk holds (our choice: large against what a file of Parquet says of itself, about 20 kB, and few
/// enough to appear while one waits).
const ROWS: usize = 256;

/// The folder of results of one sweep. A chunk appears whole when all runs of its cells are there, so that its bytes are the
/// same whoever ran them in which order; until then runs are in a journal.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    sweep: Sweep,
    journal: Journal,
    /// Every run that was made.
    known: BTreeMap<usize, Known>,
    /// Of these, what is not in a chunk yet.
    waiting: BTreeMap<usize, (Row, Result<Record, String>)>,
    /// Held open, and so locked.
    _lock: File,
}

impl Folder {
    /// Opens the folder, made where it is missing, and reads what it holds.
    ///
    /// # Errors
    /// When it is of another sweep or another version, somebody else works in it, or it cannot be used.
    pub fn open(path: &Path, sweep: &Sweep) -> Result<Self, SweepError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| SweepError::Io { path, source }
        };
        fs::create_dir_all(path).map_err(io(path))?;
        let name = path.join("_sweep.json");
        let mut lock = File::options().read(true).append(true).create(true).open(&name).map_err(io(&name))?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            let problem = "another sweep works in it; wait for its end, or name another folder".to_owned();
            return Err(SweepError::Folder { path: path.to_owned(), problem });
        }
        let (identity, mut held) = (sweep.identity(), String::new());
        lock.read_to_string(&mut held).map_err(io(&name))?;
        if held.is_empty() || !held.ends_with('\n') && identity.starts_with(&held) {
            lock.set_len(0).and_then(|()| lock.write_all(identity.as_bytes())).map_err(io(&name))?;
        } else if held != identity {
            let problem =
                "it holds another sweep, or one of another version of paceline; name another folder with --out"
                    .to_owned();
            return Err(SweepError::Folder { path: path.to_owned(), problem });
        }
        let journal = Journal::new(path.join("_journal.jsonl"));
        let (known, waiting) = Default::default();
        let mut folder = Self { path: path.to_owned(), sweep: sweep.clone(), journal, known, waiting, _lock: lock };
        folder.recall()?;
        Ok(folder)
    }

    fn recall(&mut self) -> Result<(), SweepError> {
        let mut blocks = BTreeSet::new();
        for block in self.blocks() {
            let path = self.path_of(block);
            if !path.exists() {
                blocks.insert(block);
                continue;
            }
            let wrong = |problem: String| SweepError::Folder {
                path: path.clone(),
                problem: format!("not a chunk of this sweep ({problem}); remove it, and its runs are run again"),
            };
            for (index, known) in chunk::load(&path, &self.sweep).map_err(wrong)? {
                self.known.insert(index, known);
            }
        }
        let lines =
            self.journal.read().map_err(|source| SweepError::Io { path: self.journal.path().to_owned(), source })?;
        for line in lines {
            let index = line.point;
            if index < self.sweep.points()
                && !self.known.contains_key(&index)
                && let Some(result) = line.result()
            {
                self.keep(index, result);
            }
        }
        // What was cut off before the chunk was written.
        for block in blocks {
            self.complete(block)?;
        }
        self.tidy()
    }

    /// The points that are to be run now, by number. With a stop there may be others when these are there; when there is
    /// none, the sweep is over.
    pub fn missing(&self) -> Vec<usize> {
        let cells = self.sweep.cells();
        (0..self.sweep.contestants.len() * cells).flat_map(|cell| self.due(cell / cells, cell % cells)).collect()
    }

    /// How many runs have been made.
    pub fn made(&self) -> usize {
        self.known.len()
    }

    /// Keeps what became of points; those that are there already are left aside. A record must be of the point it is given for.
    ///
    /// # Errors
    /// When there is no such point, or the disk refuses.
    pub fn put(
        &mut self,
        results: impl IntoIterator<Item = (usize, Result<Record, String>)>,
    ) -> Result<(), SweepError> {
        let (mut lines, mut blocks) = (Vec::new(), BTreeSet::new());
        for (index, result) in results {
            if index >= self.sweep.points() {
                let problem = format!("there is no point {index}; the sweep has {}", self.sweep.points());
                return Err(SweepError::Folder { path: self.path.clone(), problem });
            }
            if self.known.contains_key(&index) {
                continue;
            }
            lines.push(Line::new(index, &result));
            self.keep(index, result);
            let (contestant, cell, _) = self.sweep.place(index);
            blocks.insert((contestant, cell / self.cells_a_chunk()));
        }
        if !lines.is_empty() {
            let path = self.journal.path().to_owned();
            self.journal.add(&lines).map_err(|source| SweepError::Io { path, source })?;
        }
        let mut written = false;
        for block in blocks {
            written |= self.complete(block)?;
        }
        if written { self.tidy() } else { Ok(()) }
    }

    fn keep(&mut self, index: usize, result: Result<Record, String>) {
        let row = Row::new(&self.sweep, index, &result);
        self.known.insert(index, row.known.clone());
        self.waiting.insert(index, (row, result));
    }

    /// Every cell of every contestant, in the order of the points.
    pub fn cells(&self) -> Vec<Cell> {
        let cells = self.sweep.cells();
        let each =
            (0..self.sweep.contestants.len()).flat_map(|contestant| (0..cells).map(move |cell| (contestant, cell)));
        each.map(|(contestant, cell)| {
            let first = self.sweep.index(contestant, cell, 1);
            let known = self.known.range(first..first + self.sweep.most() as usize);
            cell_of(&self.sweep, contestant, cell, known.map(|(_, known)| known))
        })
        .collect()
    }

    /// Runs that failed, with what shows each again.
    pub fn failures(&self) -> Vec<Failed> {
        let points = self.sweep.shared();
        let failed = self.known.iter().filter_map(|(index, known)| Some((*index, known.as_ref().err()?)));
        failed.map(|(index, problem)| Failed { point: points.point(index), problem: problem.clone() }).collect()
    }

    /// The files of results that are there.
    pub fn chunks(&self) -> Vec<PathBuf> {
        self.blocks().into_iter().map(|block| self.path_of(block)).filter(|path| path.exists()).collect()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The runs of a cell that are to be made now.
    fn due(&self, contestant: usize, cell: usize) -> Vec<usize> {
        let index = |run| self.sweep.index(contestant, cell, run);
        let target = match &self.sweep.stop {
            None => self.sweep.runs,
            Some(stop) => stop.needs(self.sweep.runs, |run| {
                // A failure is a result without a number. The stop's metric is the last of the figures.
                let known = self.known.get(&index(run))?;
                Some(known.as_ref().ok().and_then(|figures| *figures.last()?))
            }),
        };
        (1..=target).map(index).filter(|index| !self.known.contains_key(index)).collect()
    }

    fn cells_a_chunk(&self) -> usize {
        (ROWS / self.sweep.runs as usize).max(1)
    }

    /// Contestant and number of every chunk.
    fn blocks(&self) -> Vec<(usize, usize)> {
        let each = self.sweep.cells().div_ceil(self.cells_a_chunk());
        (0..self.sweep.contestants.len())
            .flat_map(|contestant| (0..each).map(move |number| (contestant, number)))
            .collect()
    }

    fn path_of(&self, (contestant, number): (usize, usize)) -> PathBuf {
        let name = escaped(&self.sweep.contestants[contestant]);
        self.path.join(format!("contestant={name}")).join(format!("part-{number:05}.parquet"))
    }

    /// Writes a chunk when all of it is there; whether it did.
    fn complete(&mut self, block: (usize, usize)) -> Result<bool, SweepError> {
        let (contestant, number) = block;
        let from = number * self.cells_a_chunk();
        let to = (from + self.cells_a_chunk()).min(self.sweep.cells());
        if (from..to).any(|cell| !self.due(contestant, cell).is_empty()) {
            return Ok(false);
        }
        let points = self.sweep.index(contestant, from, 1)..=self.sweep.index(contestant, to - 1, self.sweep.most());
        let rows: Vec<_> = self.waiting.range(points.clone()).map(|(_, (row, _))| row.columns.clone()).collect();
        let path = self.path_of(block);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|source| SweepError::Io { path: folder.to_owned(), source })?;
        }
        chunk::save(&path, &rows)?;
        self.waiting.retain(|index, _| !points.contains(index));
        Ok(true)
    }

    /// Takes off the journal what is in chunks.
    fn tidy(&mut self) -> Result<(), SweepError> {
        let lines: Vec<Line> = self.waiting.iter().map(|(index, (_, result))| Line::new(*index, result)).collect();
        Ok(self.journal.replace(&lines)?)
    }
}

/// A contestant as the value of a partition: what is no letter, digit, `@`, `.`, `-` or `_` as `%XX`, as readers of such
/// folders expect.
fn escaped(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"@.-_".contains(byte);
    name.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
