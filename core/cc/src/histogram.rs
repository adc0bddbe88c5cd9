//! Counts of whole numbers by their size, as in HdrHistogram (G. Tene; hdrhistogram.org, "bucket" and "sub-bucket"): each power of
//! two is divided into the same number of equal cells, so that the index of a cell is a matter of shifts.

/// A histogram with a bounded relative error.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Numbers below `2^bits` have a cell each; above, so many as half of that divide each power of two.
    bits: u32,
    /// Up to the largest number that was recorded, in whole powers of two.
    cells: Vec<u64>,
    count: u64,
}

impl Histogram {
    /// Empty; numbers up to `2 * 10^digits` are kept as they are, so that the relative error is below `10^-digits`.
    pub fn new(digits: u8) -> Self {
        let exact = 2 * 10_u64.pow(u32::from(digits));
        Self { bits: exact.next_power_of_two().ilog2(), cells: Vec::new(), count: 0 }
    }

    /// Adds a number.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let index = self.index(value);
        match self.cells.get_mut(index) {
            Some(cell) => *cell += 1,
            None => self.grow(index, 1),
        }
        self.count += 1;
    }

    /// Adds a number that is beyond the last cell.
    #[cold]
    fn grow(&mut self, index: usize, count: u64) {
        let half = 1 << (self.bits - 1);
        self.cells.resize((index + 1).next_multiple_of(half).max(2 * half), 0);
        self.cells[index] = count;
    }

    /// The index of a number's cell.
    #[inline]
    fn index(&self, value: u64) -> usize {
        // By how many bits its cell is coarser than one.
        let half = self.bits - 1;
        let shift = (value | 1 << half).ilog2() - half;
        ((shift as usize) << half) + (value >> shift) as usize
    }

    /// The smallest and the largest number of a cell.
    fn range(&self, index: usize) -> (u64, u64) {
        let half = self.bits - 1;
        let shift = (index >> half).saturating_sub(1);
        let least = ((index - (shift << half)) as u64) << shift;
        (least, least + ((1 << shift) - 1))
    }

    /// Adds all numbers of another one; where its cells are others, the smallest number of each.
    pub fn add(&mut self, other: &Self) {
        for (index, count) in other.cells.iter().enumerate().filter(|(_, count)| **count > 0) {
            let index = self.index(other.range(index).0);
            match self.cells.get_mut(index) {
                Some(cell) => *cell += count,
                None => self.grow(index, *count),
            }
            self.count += count;
        }
    }

    /// How many numbers.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest number of the cell that the share `q` (0 to 1) of all numbers reaches, or the smallest of the first one for 0;
    /// 0 when empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((q.min(1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0;
        let reached = self.cells.iter().position(|count| {
            below += count;
            below >= rank
        });
        let Some(index) = reached else { return 0 };
        let (least, largest) = self.range(index);
        if q == 0.0 { least } else { largest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_follow_each_other_and_are_as_fine_as_promised() {
        for digits in 1..=5 {
            let histogram = Histogram::new(digits);
            let mut next = 0;
            for index in 0..40 << (histogram.bits - 1) {
                let (least, largest) = histogram.range(index);
                assert_eq!(least, next, "cell {index}");
                assert_eq!((histogram.index(least), histogram.index(largest)), (index, index));
                assert!((largest - least) * 10_u64.pow(u32::from(digits)) <= least);
                next = largest + 1;
            }
        }
    }

    #[test]
    fn quantiles_are_the_ends_of_cells() {
        let mut histogram = Histogram::new(3);
        assert_eq!(histogram.quantile(0.5), 0);
        for value in [5, 2047, 2049, 100_000] {
            histogram.record(value);
        }
        // Two digits in binary: 2048 cells of one, then 1024 of two, 1024 of four; 100 000 lies among those of 64.
        let quantiles = [0.0, 0.25, 0.5, 0.51, 1.0].map(|q| histogram.quantile(q));
        assert_eq!(quantiles, [5, 5, 2047, 2049, 100_031]);
        assert_eq!(histogram.quantile(2.0), 100_031);
        assert_eq!(histogram.count(), 4);
    }

    #[test]
    fn sums_hold_the_numbers_of_both() {
        let mut sum = Histogram::new(3);
        sum.record(7);
        let mut coarse = Histogram::new(2);
        for value in [1_000, 1_001, u64::MAX] {
            coarse.record(value);
        }
        sum.add(&coarse);
        // Below 1024 a cell of two digits holds 4 numbers: both are in that of 1000.
        assert_eq!([0.25, 0.75].map(|q| sum.quantile(q)), [7, 1_000]);
        assert_eq!(sum.quantile(1.0), sum.range(sum.index(255 << 56)).1);
        assert_eq!(sum.count(), 4);
    }
}
