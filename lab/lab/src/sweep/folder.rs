//! The folder of results: `_sweep.json`, and `contestant=NAME/part-NNNNN.parquet` for this many cells each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::cells::{Cell, Failed, cell_of, cells_csv};
use super::chunk::{self, Known, Row};
use super::identity::claim;
use super::journal::{self, Journal, Line};
use super::{FolderProblem, Part, PointFailure, Sweep, SweepError};
use crate::record::Record;

/// About how many runs a chunk holds (our choice: large against what a file of Parquet says of itself, about 20 kB, and few
/// enough to appear while one waits).
const ROWS: usize = 256;

/// The folder of results of one sweep. A chunk appears whole when all runs of its cells are there, so that its bytes are the
/// same by whichever process and in whichever order; until then runs are in a journal.
///
/// A [`Part`] of a sweep has a journal of its own, and leaves chunks to the whole sweep, which reads the journals of all parts.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    sweep: Sweep,
    part: Option<Part>,
    journal: Journal,
    /// Every run that was made.
    known: BTreeMap<usize, Known>,
    /// Of these, what is not in a chunk yet, but for those of a part.
    waiting: BTreeMap<usize, Result<Record, PointFailure>>,
    /// Held open, and so locked.
    _lock: File,
}

impl Folder {
    /// Opens the folder, made where it is missing, and reads what it holds.
    ///
    /// # Errors
    /// When it is of another sweep or another build, another process works in it, or it cannot be used.
    pub fn open(path: &Path, sweep: &Sweep) -> Result<Self, SweepError> {
        Self::open_part(path, sweep, None)
    }

    /// The same for a part of the sweep, beside which others may work in the folder.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn open_part(path: &Path, sweep: &Sweep, part: Option<Part>) -> Result<Self, SweepError> {
        fs::create_dir_all(path).map_err(|source| SweepError::Io { path: path.to_owned(), source })?;
        let lock = claim(path, sweep, part)?;
        let journal = Journal::of(path, part)?;
        let (known, waiting) = Default::default();
        let mut folder =
            Self { path: path.to_owned(), sweep: sweep.clone(), part, journal, known, waiting, _lock: lock };
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
            let wrong = |source| SweepError::Chunk { path: path.clone(), source };
            for (index, known) in chunk::load(&path, &self.sweep).map_err(wrong)? {
                self.known.insert(index, known);
            }
        }
        for path in journal::all(&self.path)? {
            for line in self.journal.read(&path)? {
                let index = line.point;
                // What failed may have been run again.
                if index < self.sweep.points()
                    && !matches!(self.known.get(&index), Some(Ok(_)))
                    && let Some(result) = line.result()
                {
                    blocks.insert(self.block_of(index));
                    self.keep(index, result);
                }
            }
        }
        if self.part.is_some() {
            return Ok(());
        }
        // What was cut off before the chunk was written.
        for block in blocks {
            self.complete(block)?;
        }
        self.tidy()
    }

    /// Takes every run that failed for one that was not made; how many there are.
    pub fn retry(&mut self) -> usize {
        let failed = |index: &usize, known: &Known| known.is_err() && has(self.part, &self.sweep, *index);
        let again: Vec<usize> =
            self.known.iter().filter(|(index, known)| failed(index, known)).map(|(index, _)| *index).collect();
        for index in &again {
            self.known.remove(index);
            self.waiting.remove(index);
        }
        again.len()
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
        results: impl IntoIterator<Item = (usize, Result<Record, PointFailure>)>,
    ) -> Result<(), SweepError> {
        let (mut lines, mut blocks) = (Vec::new(), BTreeSet::new());
        for (index, result) in results {
            if index >= self.sweep.points() {
                let problem = FolderProblem::NoPoint { index, points: self.sweep.points() };
                return Err(SweepError::Folder { path: self.path.clone(), problem });
            }
            if self.known.contains_key(&index) {
                continue;
            }
            lines.push(Line::new(index, &result));
            self.keep(index, result);
            blocks.insert(self.block_of(index));
        }
        if !lines.is_empty() {
            let path = self.journal.path().to_owned();
            self.journal.add(&lines).map_err(|source| SweepError::Io { path, source })?;
        }
        if self.part.is_some() {
            return Ok(());
        }
        let mut written = false;
        for block in blocks {
            written |= self.complete(block)?;
        }
        if written { self.tidy() } else { Ok(()) }
    }

    fn keep(&mut self, index: usize, result: Result<Record, PointFailure>) {
        self.known.insert(index, chunk::known(&self.sweep, &result));
        if self.part.is_none() {
            self.waiting.insert(index, result);
        }
    }

    /// Writes `_cells.csv`: the medians of every cell.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write_cells(&self, cells: &[Cell]) -> Result<(), SweepError> {
        let text = cells_csv(&self.sweep, cells);
        Ok(paceline_files::write_regular(&self.path.join("_cells.csv"), |draft| draft.write_all(text.as_bytes()))?)
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

    /// Runs that failed, of this part where it is one, with what shows each again.
    pub fn failures(&self) -> Vec<Failed> {
        let points = self.sweep.shared();
        let mine = self.known.iter().filter(|(index, _)| has(self.part, &self.sweep, **index));
        let failed = mine.filter_map(|(index, known)| Some((*index, known.as_ref().err()?)));
        failed.map(|(index, problem)| Failed { point: points.point(index), problem: problem.to_string() }).collect()
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
        let due = (1..=target).map(index).filter(|index| !self.known.contains_key(index));
        due.filter(|index| has(self.part, &self.sweep, *index)).collect()
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

    fn block_of(&self, index: usize) -> (usize, usize) {
        let (contestant, cell, _) = self.sweep.place(index);
        (contestant, cell / self.cells_a_chunk())
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
        let path = self.path_of(block);
        let mut rows = BTreeMap::new();
        if path.exists() {
            let wrong = |source| SweepError::Chunk { path: path.clone(), source };
            rows.extend(chunk::rows(&path, &self.sweep).map_err(wrong)?);
        }
        let made = self.waiting.range(points.clone());
        rows.extend(made.map(|(index, result)| (*index, chunk::row(&self.sweep, *index, result))));
        let rows: Vec<Row> = rows.into_values().collect();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|source| SweepError::Io { path: folder.to_owned(), source })?;
        }
        chunk::save(&path, &rows)?;
        self.waiting.retain(|index, _| !points.contains(index));
        Ok(true)
    }

    /// Takes off the journal what is in chunks.
    fn tidy(&mut self) -> Result<(), SweepError> {
        let lines: Vec<Line> = self.waiting.iter().map(|(index, result)| Line::new(*index, result)).collect();
        self.journal.replace(&lines)?;
        journal::remove_parts(&self.path)
    }
}

/// Whether a run belongs to this part. With a stop the runs of a cell decide together how many there are, and so are together.
fn has(part: Option<Part>, sweep: &Sweep, index: usize) -> bool {
    let share = if sweep.stop.is_some() { index / sweep.most() as usize } else { index };
    part.is_none_or(|part| part.has(share))
}

/// A contestant as the value of a partition: what is not a letter, digit, `@`, `.`, `-` or `_` as `%XX`, as readers of such
/// folders expect.
fn escaped(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"@.-_".contains(byte);
    name.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
