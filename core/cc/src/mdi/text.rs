//! Models as text: the published CSV, and ours, which is the same below lines of `#`.
//!
//! The first line that is not a comment has eight whole numbers: `NW,Wmin,Wmax,Wstep,ND,Dmin,Dmax,Dstep`. Then comes a line for
//! each of the `ND x NW` states, with as many numbers from 0 to 1. Each `NW` numbers in a row are a block. Among the comments,
//! `# epoch_ms: 5`, `# rtt_ms: 40`, `# delay: change` (or `level`), `# up: 21` and `# down: 0.975` are read ([`Settings`]); all
//! others are for people.

use std::fmt::Write as _;

use super::grid::{Axis, Grid, GridError};
use super::model::{Delays, Model, Settings};
use crate::foreign::{clipped, printable};
use crate::units::Nanos;

/// Bytes of the longest text that is read: a million cells of 32 characters (our choice).
pub const MAX_TEXT: usize = 32 << 20;
/// Lines of comments that are kept (our choice).
const MOST_COMMENTS: usize = 100;
/// Bytes of a comment that are kept (our choice).
const LONGEST_COMMENT: usize = 1000;
/// Shares below this are written with an exponent (our choice: four zeros are read at a glance).
const SMALL: f64 = 1e-5;
/// What the header has.
const HEADER: &str = "NW,Wmin,Wmax,Wstep,ND,Dmin,Dmax,Dstep";

/// Why a text is not a model: where, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct ReadError {
    /// Line of the text, from 1, comments counted.
    pub line: usize,
    /// Number of the value in its line, from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It ends too soon.
    #[error("the text ends before {0}; is it a model, and whole?")]
    Ends(String),
    /// The header is malformed.
    #[error("'{0}' is not a whole number; a model begins with {HEADER}")]
    Header(String),
    /// The header has another number of values.
    #[error("the header has {0} values instead of the 8 of {HEADER}")]
    HeaderLength(usize),
    /// Bounds and steps that are not a grid.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// A count that its bounds and step do not give.
    #[error("the header counts {given} values, and its bounds and step give {found}; correct one of them")]
    Count {
        /// As given.
        given: i64,
        /// As its bounds say.
        found: usize,
    },
    /// A row of another length.
    #[error("the row has {given} numbers instead of {wanted}")]
    Row {
        /// Numbers there.
        given: usize,
        /// As the header says.
        wanted: usize,
    },
    /// A cell that is not a probability.
    #[error("'{0}' is not a number from 0 to 1")]
    Cell(String),
    /// A block that is not a distribution.
    #[error("the block that begins here sums to {0}, and must sum to 1 or be all 0; normalise it, or train it again")]
    Sum(String),
    /// Lines behind the last row.
    #[error("there is more text behind the last of {0} rows")]
    More(usize),
    /// A setting that cannot be.
    #[error("{name} is '{given}' and must be {wanted}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// As given.
        given: String,
        /// What it may be.
        wanted: &'static str,
    },
    /// The text is longer than [`MAX_TEXT`].
    #[error("it is longer than {} MiB; is it a model?", MAX_TEXT >> 20)]
    TooLong,
}

impl Problem {
    fn at(self, line: usize, column: usize) -> ReadError {
        ReadError { line, column, problem: self }
    }
}

/// A probability as people see it: at most this many characters of it are shown.
fn shown(text: &str) -> String {
    clipped(text.trim())
}

impl Model {
    /// Reads a model. `\r\n` is as good as `\n`, and a line end at the end may be missing. Memory is used as the text goes
    /// on, not as its header promises.
    ///
    /// # Errors
    /// [`ReadError`] at the first thing that is wrong.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        if text.len() > MAX_TEXT {
            return Err(Problem::TooLong.at(1, 1));
        }
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let (mut settings, mut provenance) = (Settings::default(), Vec::new());
        let (mut end, mut header) = (1, None);
        for (number, line) in lines.by_ref() {
            end = number;
            if let Some(comment) = line.strip_prefix('#') {
                // As it is written again: a line without anything that a terminal obeys.
                let comment = printable(comment, usize::MAX);
                let comment = comment.trim();
                if setting(&mut settings, comment).map_err(|problem| problem.at(number, 1))? {
                    continue;
                }
                if provenance.len() < MOST_COMMENTS && comment.len() <= LONGEST_COMMENT {
                    provenance.push(comment.to_owned());
                }
            } else if !line.trim().is_empty() {
                header = Some((number, line));
                break;
            }
        }
        let Some((number, line)) = header else {
            return Err(Problem::Ends(format!("its header {HEADER}")).at(end, 1));
        };
        let grid = grid(number, line)?;
        let mut model = Self::new(grid, settings, provenance);
        let mut block = Vec::with_capacity(grid.windows.count());
        for row in 0..grid.states() {
            let Some((number, line)) = lines.next().filter(|(_, line)| !line.trim().is_empty()) else {
                return Err(Problem::Ends(format!("row {} of {}", row + 1, grid.states())).at(end + row + 1, 1));
            };
            model.read_row(number, line, &mut block)?;
        }
        match lines.find(|(_, line)| !line.trim().is_empty()) {
            Some((number, _)) => Err(Problem::More(grid.states()).at(number, 1)),
            None => Ok(model),
        }
    }

    fn read_row(&mut self, number: usize, line: &str, block: &mut Vec<f64>) -> Result<(), ReadError> {
        let (states, windows) = (self.grid.states(), self.grid.windows.count());
        let given = line.split(',').count();
        if given != states {
            return Err(Problem::Row { given, wanted: states }.at(number, given.min(states)));
        }
        for (index, cell) in line.split(',').enumerate() {
            let share = cell.trim().parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
            // A negative zero is one.
            block.push(share.ok_or_else(|| Problem::Cell(shown(cell)).at(number, index + 1))?.abs());
            if block.len() == windows {
                let pushed = self.push(block);
                pushed.map_err(|sum| Problem::Sum(format!("{sum:?}")).at(number, index + 2 - windows))?;
                block.clear();
            }
        }
        Ok(())
    }

    /// The text of the model; `plain`: without comments, as the published reader wants it. Reading it gives an equal model,
    /// but for the comments and settings that a plain one leaves out.
    pub fn text(&self, plain: bool) -> String {
        let mut text = String::new();
        if !plain {
            for line in &self.provenance {
                // A line end within would end the comment.
                let _ = writeln!(text, "# {}", printable(line, usize::MAX));
            }
            let Settings { epoch, rtt, delays, up, down } = self.settings;
            let delay = if delays == Delays::Level { "level" } else { "change" };
            let [epoch, rtt] = [epoch, rtt].map(Nanos::as_millis_f64);
            let _ =
                writeln!(text, "# epoch_ms: {epoch}\n# rtt_ms: {rtt}\n# delay: {delay}\n# up: {up}\n# down: {down}");
        }
        let axis = |axis: Axis| format!("{},{},{},{}", axis.count(), axis.min(), axis.max(), axis.step());
        let _ = writeln!(text, "{},{}", axis(self.grid.windows), axis(self.grid.delays));
        let mut cells = vec![0.0; self.grid.windows.count()];
        for row in 0..self.grid.states() {
            for delay in 0..self.grid.delays.count() {
                cells.fill(0.0);
                self.block(row, delay).iter().for_each(|(window, share)| cells[usize::from(*window)] = *share);
                for (index, share) in cells.iter().enumerate() {
                    let comma = if delay + index == 0 { "" } else { "," };
                    // Without an exponent the smallest have hundreds of digits.
                    let _ = if *share > 0.0 && *share < SMALL {
                        write!(text, "{comma}{share:e}")
                    } else {
                        write!(text, "{comma}{share}")
                    };
                }
            }
            text.push('\n');
        }
        text
    }
}

fn grid(number: usize, line: &str) -> Result<Grid, ReadError> {
    let mut values = [0_i64; 8];
    let given = line.split(',').count();
    for (index, (value, text)) in values.iter_mut().zip(line.split(',')).enumerate() {
        *value = text.trim().parse().map_err(|_| Problem::Header(shown(text)).at(number, index + 1))?;
    }
    if given != values.len() {
        return Err(Problem::HeaderLength(given).at(number, given.min(values.len())));
    }
    let axis = |at: usize| {
        let axis = Axis::new(values[at + 1], values[at + 2], values[at + 3])
            .map_err(|error| Problem::Grid(error).at(number, at + 2))?;
        let (given, found) = (values[at], axis.count());
        if usize::try_from(given).is_ok_and(|given| given == found) {
            Ok(axis)
        } else {
            Err(Problem::Count { given, found }.at(number, at + 1))
        }
    };
    Grid::new(axis(0)?, axis(4)?).map_err(|error| Problem::Grid(error).at(number, 1))
}

/// Takes in a comment, and says whether it is a setting.
fn setting(settings: &mut Settings, comment: &str) -> Result<bool, Problem> {
    let Some((name, given)) = comment.split_once(':') else { return Ok(false) };
    let given = given.trim();
    let number = |name: &'static str, least: f64, most: f64, wanted: &'static str| {
        let value: Option<f64> = given.parse().ok();
        let value = value.filter(|value| (least..=most).contains(value));
        value.ok_or_else(|| Problem::Setting { name, given: shown(given), wanted })
    };
    match name.trim() {
        "epoch_ms" => {
            let millis: Option<u64> = given.parse().ok();
            let wanted = "a whole number from 1 to 1000";
            let millis = millis.filter(|millis| (1..=1000).contains(millis));
            let millis = millis.ok_or_else(|| Problem::Setting { name: "epoch_ms", given: shown(given), wanted })?;
            settings.epoch = Nanos::from_millis(millis);
        }
        "rtt_ms" => settings.rtt = Nanos::from_millis_f64(number("rtt_ms", 0.1, 60_000.0, "from 0.1 to 60000")?),
        "delay" => match given {
            "change" => settings.delays = Delays::Change,
            "level" => settings.delays = Delays::Level,
            _ => return Err(Problem::Setting { name: "delay", given: shown(given), wanted: "change or level" }),
        },
        "up" => settings.up = number("up", 0.0, 10_000.0, "from 0 to 10000")?,
        "down" => settings.down = number("down", 0.01, 1.0, "from 0.01 to 1")?,
        _ => return Ok(false),
    }
    Ok(true)
}
