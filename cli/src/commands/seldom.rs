//! Lines about what goes on for long.

use std::time::{Duration, Instant};

/// Between two lines about the same (our choice: as the bus has it).
const SAY: Duration = Duration::from_secs(10);

/// When a line was last said.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Option<Instant>);

impl Seldom {
    /// Whether it may be said again, which is then taken for done.
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|said| said.elapsed() >= SAY);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}
