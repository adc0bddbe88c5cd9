//! The controller's own variables over a trajectory.

use crate::trajectory::{MOST_POINTS, Trajectory};

/// What is noted like a variable: the stream's position of each packet as it leaves, in packets.
pub const SENT: &str = "sent_packets";

/// The same of how many packets were declared lost so far.
pub const LOST: &str = "lost_packets";

/// From when to when a variable had a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spell {
    /// The value.
    pub value: f64,
    /// Seconds.
    pub from: f64,
    /// Seconds: those of the change that ended it, or of the trajectory's last point.
    pub to: f64,
    /// The value that followed; `None` where it lasted to the end.
    pub next: Option<f64>,
}

impl Trajectory {
    /// Notes a variable at `t`, if it has changed.
    pub(crate) fn note(&mut self, name: &'static str, t: f64, value: f64) {
        let values = self.variables.entry(name).or_default();
        if values.last().is_none_or(|(_, last)| *last != value) && values.len() < MOST_POINTS {
            values.push((t, value));
        }
    }

    /// The changes of a variable.
    pub fn changes(&self, name: &str) -> &[(f64, f64)] {
        self.variables.get(name).map_or(&[], Vec::as_slice)
    }

    /// A variable after all that happened at `t`.
    pub fn value(&self, name: &str, t: f64) -> Option<f64> {
        let changes = self.changes(name);
        Some(changes[changes.partition_point(|(at, _)| *at <= t).checked_sub(1)?].1)
    }

    /// A variable before anything happened at `t`.
    pub fn value_before(&self, name: &str, t: f64) -> Option<f64> {
        let changes = self.changes(name);
        Some(changes[changes.partition_point(|(at, _)| *at < t).checked_sub(1)?].1)
    }

    /// From when to when a variable had which value. Of several changes at one time the last counts.
    pub fn spells(&self, name: &str) -> Vec<Spell> {
        let mut changes: Vec<(f64, f64)> = Vec::new();
        for (at, value) in self.changes(name) {
            changes.pop_if(|(before, _)| *before == *at);
            if changes.last().is_none_or(|(_, last)| last != value) {
                changes.push((*at, *value));
            }
        }
        let next = |index: usize| changes.get(index + 1).copied();
        let spell = |(index, (from, value)): (usize, &(f64, f64))| Spell {
            value: *value,
            from: *from,
            to: next(index).map_or(self.end(), |(at, _)| at),
            next: next(index).map(|(_, value)| value),
        };
        changes.iter().enumerate().map(spell).collect()
    }

    /// When a `[[when]]` of its path first acted.
    ///
    /// # Errors
    /// Where it did not.
    pub fn fired(&self, when: u32) -> Result<f64, &'static str> {
        let fired = self.fired.iter().find(|(number, _)| *number == when);
        fired.map(|(_, at)| *at).ok_or("what was to change the path never did")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Origin, TrajectoryPoint};

    #[test]
    fn a_variable_has_its_spells() {
        let mut line = Trajectory::new("line", Origin::Simulated, 1000.0);
        for (t, value) in [(0.0, 1.0), (1.0, 1.0), (2.0, 5.0), (2.0, 3.0), (4.0, 1.0)] {
            line.note("state", t, value);
        }
        line.push(TrajectoryPoint { t: 5.0, ..TrajectoryPoint::default() });
        assert_eq!(line.changes("state").len(), 4);
        assert_eq!((line.value("state", 2.0), line.value_before("state", 2.0)), (Some(3.0), Some(1.0)));
        assert_eq!((line.value("state", -1.0), line.value("other", 1.0)), (None, None));
        let spells: Vec<_> = line.spells("state").iter().map(|one| (one.value, one.from, one.to, one.next)).collect();
        assert_eq!(spells, [(1.0, 0.0, 2.0, Some(3.0)), (3.0, 2.0, 4.0, Some(1.0)), (1.0, 4.0, 5.0, None)]);
        assert!(line.fired(0).is_err());
    }
}
