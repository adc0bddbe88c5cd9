//! Transitions counted between states of a grid: whole numbers, which add up over traces and over sittings.

use std::fmt::Write as _;

use paceline_cc::mdi::grid::{Axis, Grid, GridError, Side};
use paceline_cc::mdi::{Delays, Model, Settings};
use paceline_cc::{Nanos, foreign::clipped};

use super::watch::Move;

/// Entries of a block below this share are taken for noise (the project's `combine_verus.py`).
pub const NOISE: f64 = 0.02;
/// Shares are whole multiples of one over this (our choice: three digits, so that a shipped model stays small; the error is a fortieth of
/// [`NOISE`]).
const UNITS: u64 = 1000;
/// Least round trip that a model names (our choice: that of one switch).
const SHORTEST: Nanos = Nanos::from_micros(100);
/// How it says what a move of the delay is.
const CHANGE: &str = "# delay: change";
const LEVEL: &str = "# delay: level";
/// What a file of counts begins with.
const MARK: &str = "# paceline mdi counts 1";

/// How often each state followed each other one.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    /// The states.
    pub grid: Grid,
    /// Length of an epoch.
    pub epoch: Nanos,
    /// Longest round trip, without its queue, of what was watched.
    pub rtt: Nanos,
    /// What a move of the delay is.
    pub delays: Delays,
    /// From each state (row) to each.
    cells: Vec<u64>,
    /// Moves seen, those outside the grid included.
    pub moves: u64,
    /// Moves outside the grid.
    pub outside: u64,
    /// Moves of the delay above the grid, and the sum of the logarithms of the window's factors then.
    above: (u64, f64),
    /// Moves of the delay below the grid, and the sum of the packets added to the window then.
    below: (u64, f64),
}

/// Why a text is not a file of counts, or cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CountsError {
    /// Something is wrong at a place.
    #[error("line {line}: {problem}")]
    Line {
        /// From 1.
        line: usize,
        /// What.
        problem: String,
    },
    /// Their states or epochs differ.
    #[error(
        "these were counted on another grid, or with another epoch; count with the same --windows, --delays and --epoch"
    )]
    Differ,
    /// A malformed grid.
    #[error(transparent)]
    Grid(#[from] GridError),
}

impl Counts {
    /// None yet.
    pub fn new(grid: Grid, epoch: Nanos, delays: Delays) -> Self {
        let cells = vec![0; grid.states() * grid.states()];
        Self { grid, epoch, rtt: Nanos::ZERO, delays, cells, moves: 0, outside: 0, above: (0, 0.0), below: (0, 0.0) }
    }

    /// Counts the moves of one run, in their order. A move outside the grid is a gap: neither the transition into it nor the
    /// one out of it counts.
    pub fn count(&mut self, moves: &[Move]) {
        let mut last = None;
        for step in moves {
            let state = self.grid.find(step.delay.into(), step.window.into());
            self.moves += 1;
            self.outside += u64::from(state.is_none());
            match self.grid.delays.side(step.delay.into()) {
                Side::Above => {
                    let factor = step.to() / f64::from(step.from);
                    self.above = (self.above.0 + 1, self.above.1 + factor.max(1e-3).ln());
                }
                Side::Below => self.below = (self.below.0 + 1, self.below.1 + step.to() - f64::from(step.from)),
                Side::Within => {}
            }
            if let (Some(from), Some(to)) = (last, state) {
                let cell: &mut u64 = &mut self.cells[from * self.grid.states() + to];
                *cell = cell.saturating_add(1);
            }
            last = state;
        }
    }

    /// Adds others.
    ///
    /// # Errors
    /// [`CountsError::Differ`] where their states or epochs are others.
    pub fn add(&mut self, other: &Self) -> Result<(), CountsError> {
        if (self.grid, self.epoch, self.delays) != (other.grid, other.epoch, other.delays) {
            return Err(CountsError::Differ);
        }
        self.cells.iter_mut().zip(&other.cells).for_each(|(cell, more)| *cell = cell.saturating_add(*more));
        self.rtt = self.rtt.max(other.rtt);
        self.moves = self.moves.saturating_add(other.moves);
        self.outside = self.outside.saturating_add(other.outside);
        for (own, more) in [(&mut self.above, other.above), (&mut self.below, other.below)] {
            *own = (own.0.saturating_add(more.0), own.1 + more.1);
        }
        Ok(())
    }

    /// How often each state followed `row`.
    pub fn row(&self, row: usize) -> &[u64] {
        let states = self.grid.states();
        &self.cells[row * states..(row + 1) * states]
    }

    /// Transitions counted.
    pub fn transitions(&self) -> u64 {
        self.cells.iter().fold(0, |sum, cell| sum.saturating_add(*cell))
    }

    /// Share of the moves that the grid does not have.
    pub fn lost(&self) -> f64 {
        self.outside as f64 / self.moves.max(1) as f64
    }

    /// The reflexes: what the controller did, on average, when the delay moved by more than the grid has. Where that was
    /// never seen, those of the release.
    pub fn settings(&self) -> Settings {
        let release = Settings::default();
        let three = |value: f64| (value * 1000.0).round() / 1000.0;
        let mean = |(count, sum): (u64, f64)| (count > 0).then(|| sum / count as f64);
        Settings {
            epoch: self.epoch,
            rtt: self.rtt.max(SHORTEST),
            delays: self.delays,
            up: mean(self.below).map_or(release.up, |up| three(up.clamp(0.0, 10_000.0))),
            down: mean(self.above).map_or(release.down, |down| three(down.exp().clamp(0.01, 1.0))),
        }
    }

    /// The model: each block divided by its sum, without what is below `noise`, in thousandths.
    pub fn model(&self, noise: f64, provenance: Vec<String>) -> Model {
        let mut model = Model::new(self.grid, self.settings(), provenance);
        for row in 0..self.grid.states() {
            for block in self.row(row).chunks_exact(self.grid.windows.count()) {
                model.push(&shares(block, noise)).expect("thousandths that add up to 1");
            }
        }
        model
    }

    /// The text of the counts, which [`Counts::read`] reads.
    pub fn text(&self) -> String {
        let delays = if self.delays == Delays::Level { LEVEL } else { CHANGE };
        let mut text = format!("{MARK}\n{delays}\n# epoch_ms: {}\n", self.epoch.as_millis_f64());
        let _ = writeln!(text, "# rtt_ms: {}", self.rtt.as_millis_f64());
        let _ = writeln!(text, "# moves: {} {}", self.moves, self.outside);
        let _ =
            writeln!(text, "# above: {} {}\n# below: {} {}", self.above.0, self.above.1, self.below.0, self.below.1);
        let axis = |axis: Axis| format!("{},{},{},{}", axis.count(), axis.min(), axis.max(), axis.step());
        let _ = writeln!(text, "{},{}", axis(self.grid.windows), axis(self.grid.delays));
        for row in 0..self.grid.states() {
            let cells: Vec<String> = self.row(row).iter().map(u64::to_string).collect();
            let _ = writeln!(text, "{}", cells.join(","));
        }
        text
    }

    /// Reads what [`Counts::text`] wrote.
    ///
    /// # Errors
    /// [`CountsError`] at the first line that is wrong.
    pub fn read(text: &str) -> Result<Self, CountsError> {
        let wrong = |line: usize, problem: &str| CountsError::Line { line, problem: problem.to_owned() };
        let mut lines = text.lines().zip(1..);
        if lines.next().is_none_or(|(line, _)| line != MARK) {
            return Err(wrong(1, "this is not a file of counts; name one that --counts wrote"));
        }
        let delays = match lines.next().map(|(line, _)| line) {
            Some(CHANGE) => Delays::Change,
            Some(LEVEL) => Delays::Level,
            _ => return Err(wrong(2, "it is neither '# delay: change' nor '# delay: level'")),
        };
        let mut fields: [Vec<f64>; 5] = Default::default();
        let names = ["# epoch_ms: ", "# rtt_ms: ", "# moves: ", "# above: ", "# below: "];
        for (field, name) in fields.iter_mut().zip(names) {
            let (line, number) = lines.next().ok_or_else(|| wrong(3, "the text ends too soon"))?;
            let words =
                line.strip_prefix(name).ok_or_else(|| wrong(number, &format!("it does not begin with '{name}'")))?;
            let read: Option<Vec<f64>> =
                words.split(' ').map(|word| word.parse().ok().filter(|x: &f64| x.is_finite())).collect();
            let wanted = if name.contains("_ms") { 1 } else { 2 };
            *field = read
                .filter(|field| field.len() == wanted)
                .ok_or_else(|| wrong(number, "its numbers cannot be read"))?;
        }
        let [epoch, rtt, moves, above, below] = fields;
        if !(1.0..=1000.0).contains(&epoch[0])
            || !(0.0..=60_000.0).contains(&rtt[0])
            || [moves[0], moves[1], above[0], below[0]].iter().any(|count| *count < 0.0)
        {
            return Err(wrong(3, "an epoch from 1 to 1000 ms, an RTT up to 60000 ms and counts from 0 on are wanted"));
        }
        let (line, number) = lines.next().ok_or_else(|| wrong(8, "the text ends before its header"))?;
        let header: Option<Vec<i64>> = line.split(',').map(|word| word.trim().parse().ok()).collect();
        let Some([_, wmin, wmax, wstep, _, dmin, dmax, dstep]) = header.as_deref() else {
            return Err(wrong(number, "it is not NW,Wmin,Wmax,Wstep,ND,Dmin,Dmax,Dstep"));
        };
        let grid = Grid::new(Axis::new(*wmin, *wmax, *wstep)?, Axis::new(*dmin, *dmax, *dstep)?)?;
        let mut cells = Vec::new();
        for row in 0..grid.states() {
            let (line, number) =
                lines.next().ok_or_else(|| wrong(number + row + 1, "the text ends before its last row"))?;
            let read: Result<Vec<u64>, _> =
                line.split(',').map(|word| word.parse().map_err(|_| clipped(word))).collect();
            let read = read.map_err(|word| wrong(number, &format!("'{word}' is not a count")))?;
            if read.len() != grid.states() {
                return Err(wrong(number, &format!("{} counts instead of {}", read.len(), grid.states())));
            }
            cells.extend(read);
        }
        Ok(Self {
            grid,
            epoch: Nanos::from_millis(epoch[0] as u64),
            rtt: Nanos::from_millis_f64(rtt[0]),
            delays,
            cells,
            moves: moves[0] as u64,
            outside: moves[1] as u64,
            above: (above[0] as u64, above[1]),
            below: (below[0] as u64, below[1]),
        })
    }
}

/// A block of counts as shares in thousandths, which add up to 1; all 0 for nothing.
fn shares(block: &[u64], noise: f64) -> Vec<f64> {
    // Counts of a file are any numbers, and their sum may be larger than one of them can be.
    let sum: u128 = block.iter().map(|count| u128::from(*count)).sum();
    let kept = |count: u64| if count as f64 >= noise * sum as f64 { count } else { 0 };
    let total: u128 = block.iter().map(|count| u128::from(kept(*count))).sum();
    if total == 0 {
        // All of a block may be noise where it is wide and flat.
        return if sum == 0 { vec![0.0; block.len()] } else { shares(block, 0.0) };
    }
    let exact: Vec<f64> = block.iter().map(|count| kept(*count) as f64 * UNITS as f64 / total as f64).collect();
    let mut units: Vec<u64> = exact.iter().map(|share| share.floor() as u64).collect();
    // The largest remainders get what rounding down left over.
    let mut order: Vec<usize> = (0..block.len()).collect();
    order.sort_by(|one, other| (exact[*other].fract()).total_cmp(&exact[*one].fract()));
    let left = UNITS - units.iter().sum::<u64>();
    order.iter().take(left as usize).for_each(|index| units[*index] += 1);
    units.iter().map(|unit| *unit as f64 / UNITS as f64).collect()
}
