//! Sums in steps of time, in bounded memory: when a file goes on for longer than there are steps, steps become ten times as long.

use paceline_cc::Nanos;

/// Most steps (our choice: a few times what a picture can show, after steps have grown ten times as long).
const MOST: usize = 4000;
/// The shortest step.
const SHORTEST: u64 = 1_000_000;
/// Most points of a curve (our choice: about three pixels each).
const POINTS: u64 = 400;

/// Seconds and values of a curve.
pub(crate) type Points = Vec<(f64, Option<f64>)>;

/// What came in a step.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    sum: f64,
    most: f32,
    count: u32,
}

impl Cell {
    /// Of several steps together.
    fn of(cells: &[Self]) -> Self {
        cells.iter().fold(Self::default(), |all, cell| Self {
            sum: all.sum + cell.sum,
            most: all.most.max(cell.most),
            count: all.count.saturating_add(cell.count),
        })
    }
}

/// Sums of a value over time.
#[derive(Clone, Debug)]
pub(crate) struct Bins {
    step: u64,
    cells: Vec<Cell>,
}

impl Default for Bins {
    fn default() -> Self {
        Self { step: SHORTEST, cells: Vec::new() }
    }
}

impl Bins {
    /// Adds a value at a time in nanoseconds.
    pub(crate) fn add(&mut self, at: u64, value: f64) {
        while at / self.step >= MOST as u64 {
            self.coarsen();
        }
        let index = (at / self.step) as usize;
        if self.cells.len() <= index {
            self.cells.resize(index + 1, Cell::default());
        }
        let cell = &mut self.cells[index];
        cell.sum += value;
        cell.most = cell.most.max(value as f32);
        cell.count = cell.count.saturating_add(1);
    }

    fn coarsen(&mut self) {
        self.cells = self.cells.chunks(10).map(Cell::of).collect();
        self.step = self.step.saturating_mul(10);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Itself, where something came.
    pub(crate) fn any(&self) -> Option<&Self> {
        (!self.is_empty()).then_some(self)
    }

    /// Of everything.
    pub(crate) fn sum(&self) -> f64 {
        // The sum of nothing is -0 in Rust.
        self.cells.iter().fold(0.0, |sum, cell| sum + cell.sum)
    }

    /// A point for each step that is drawn.
    fn points(&self, grid: Grid, value: impl Fn(usize, Cell) -> Option<f64>) -> Points {
        let factor = (grid.step / self.step).max(1) as usize;
        let mut cells: Vec<Cell> = self.cells.chunks(factor).map(Cell::of).collect();
        cells.resize(grid.points(), Cell::default());
        cells.into_iter().enumerate().map(|(index, cell)| (grid.middle(index), value(index, cell))).collect()
    }

    /// Sums for each second, times `factor`; zero where nothing came.
    pub(crate) fn rates(&self, grid: Grid, factor: f64) -> Points {
        self.points(grid, |index, cell| Some(cell.sum * factor / grid.length(index)))
    }

    /// Means; nothing where nothing came.
    pub(crate) fn means(&self, grid: Grid) -> Points {
        self.points(grid, |_, cell| (cell.count > 0).then(|| cell.sum / f64::from(cell.count)))
    }

    /// Largest values; nothing where nothing came.
    pub(crate) fn most(&self, grid: Grid) -> Points {
        self.points(grid, |_, cell| (cell.count > 0).then(|| f64::from(cell.most)))
    }
}

/// The steps that are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// Nanoseconds of one.
    step: u64,
    /// Nanoseconds at which the file ends.
    end: u64,
}

impl Grid {
    /// For a file that ends at `end` nanoseconds: as long as `wanted`, as far as steps were kept apart.
    pub(crate) fn new(end: u64, wanted: Option<Nanos>) -> Self {
        let mut base = SHORTEST;
        while end / base >= MOST as u64 {
            base = base.saturating_mul(10);
        }
        let step = match wanted {
            Some(wanted) => (wanted.as_nanos().saturating_add(base / 2) / base).max(1).saturating_mul(base),
            None => {
                let nice = (0..)
                    .flat_map(|tens| [1, 2, 5].map(|digit| digit * base.saturating_mul(10_u64.saturating_pow(tens))));
                // A base of ten times as much is beyond all.
                nice.take(9).find(|step| end / step < POINTS).unwrap_or(base)
            }
        };
        Self { step, end }
    }

    pub(crate) fn step_s(self) -> f64 {
        self.step as f64 / 1e9
    }

    pub(crate) fn seconds(self) -> f64 {
        self.end as f64 / 1e9
    }

    /// Steps; the last one is left out where less than half of it is covered.
    fn points(self) -> usize {
        let whole = self.end / self.step;
        let rest = u64::from(whole == 0 || self.end % self.step >= self.step / 2);
        (whole + rest) as usize
    }

    fn middle(self, index: usize) -> f64 {
        index as f64 * self.step_s() + self.length(index) / 2.0
    }

    /// Seconds of a step that the file covers.
    fn length(self, index: usize) -> f64 {
        let begun = index as u64 * self.step;
        (self.end.saturating_sub(begun).min(self.step).max(self.step / 100)) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_and_sums_stay() {
        let mut bins = Bins::default();
        for second in 0..3600_u64 {
            bins.add(second * 1_000_000_000, 125_000.0);
        }
        assert!(bins.cells.len() <= MOST && bins.step == 1_000_000_000);
        let grid = Grid::new(3_600_000_000_000, None);
        let rates = bins.rates(grid, 8e-6);
        assert!(rates.len() <= 400 && rates.len() > 100, "{}", rates.len());
        assert!(rates.iter().all(|(_, rate)| (rate.unwrap() - 1.0).abs() < 1e-9));
        assert_eq!(bins.sum(), 3600.0 * 125_000.0);
        bins.add(u64::MAX, 1.0);
        assert!(bins.cells.len() <= MOST);
    }

    #[test]
    fn means_and_maxima_have_gaps() {
        let mut bins = Bins::default();
        bins.add(0, 1.0);
        bins.add(500_000, 3.0);
        bins.add(2_000_000, 7.0);
        let grid = Grid::new(3_000_000, None);
        assert_eq!(bins.means(grid), [(0.0005, Some(2.0)), (0.0015, None), (0.0025, Some(7.0))]);
        assert_eq!(bins.most(grid)[0].1, Some(3.0));
        assert!((Grid::new(30_000_000_000, None).step_s() - 0.1).abs() < 1e-12);
        assert!((Grid::new(30_000_000_000, Some(Nanos::from_millis(23))).step_s() - 0.02).abs() < 1e-12);
        assert_eq!(Grid::new(0, None).points(), 1);
    }
}
