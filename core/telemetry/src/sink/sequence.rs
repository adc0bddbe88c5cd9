//! Which numbers of a flow have come.

/// Numbers looked at: what is missing and further behind the highest is counted, old enough or not.
pub(super) const WINDOW: u64 = 1024;
/// A step forward that is not a loss but another start (our choice: half a second of 1 Gbit/s).
const RESTART: i64 = 1 << 15;
/// Packets in a row from far behind after which the source is taken to have started again (our choice).
const STRANGERS: u32 = 16;
/// Where numbers without wraps begin, so that one that is older than the first is not below zero.
const ORIGIN: u64 = 1 << 32;

/// Numbers without their wraps, and which of the last have come.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// Numbers below it have been counted.
    counted: u64,
    /// Highest number that has come.
    hi: Option<u64>,
    /// By number, modulo the window: those from `counted` on.
    came: [u64; (WINDOW / 64) as usize],
    strangers: u32,
}

/// Where a header's numbers belong.
pub(super) enum Place {
    /// The flow begins, or its source has begun again.
    Start,
    /// At this number.
    At(u64),
    /// All of them have been counted.
    Behind,
}

impl Sequence {
    /// Where the `segs` numbers from `seq` on belong.
    pub(super) fn place(&mut self, seq: u32, segs: u8) -> Place {
        let Some(hi) = self.hi else { return Place::Start };
        let step = i64::from(seq.wrapping_sub(hi as u32) as i32);
        let first = hi.saturating_add_signed(step);
        let behind = first + u64::from(segs) <= self.counted;
        self.strangers = if behind { self.strangers + 1 } else { 0 };
        match behind {
            _ if step > RESTART || self.strangers > STRANGERS => Place::Start,
            true => Place::Behind,
            false => Place::At(first),
        }
    }

    /// Begins with `seq`, and says which number that is.
    pub(super) fn start(&mut self, seq: u32) -> u64 {
        let first = ORIGIN + u64::from(seq);
        *self = Self { counted: first, ..Self::default() };
        first
    }

    /// `wire` packets came of those that share the `segs` numbers from `first` on: marks the first that have not come, and says
    /// how many packets were not expected any more.
    pub(super) fn mark(&mut self, first: u64, segs: u8, wire: u8) -> u32 {
        let mut left = u32::from(wire);
        for number in first.max(self.counted)..first + u64::from(segs) {
            if left == 0 {
                break;
            }
            let (word, bit) = place(number);
            if self.came[word] & bit == 0 {
                self.came[word] |= bit;
                self.hi = self.hi.max(Some(number));
                left -= 1;
            }
        }
        left
    }

    /// Marks the first `count` of the numbers that have not come, up to the highest that has; says how many there were more than those.
    pub(super) fn fill(&mut self, count: u64) -> u64 {
        let mut left = count;
        for number in self.counted..=self.hi.unwrap_or(0) {
            if left == 0 {
                break;
            }
            let (word, bit) = place(number);
            left -= u64::from(self.came[word] & bit == 0);
            self.came[word] |= bit;
        }
        left
    }

    /// Takes the next number out of the window: whether it had come.
    pub(super) fn count(&mut self) -> bool {
        let (word, bit) = place(self.counted);
        let came = self.came[word] & bit != 0;
        self.came[word] &= !bit;
        self.counted += 1;
        came
    }

    /// The next number to be counted.
    pub(super) fn counted(&self) -> u64 {
        self.counted
    }

    /// The highest number that has come.
    pub(super) fn hi(&self) -> Option<u64> {
        self.hi
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}
