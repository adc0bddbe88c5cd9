//! A rule: what must hold of a trajectory, how closely, who says so, and where it is judged.

use crate::rig::Rig;
use crate::trajectory::Trajectory;

/// A part of a trajectory that a rule looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrajectorySpan {
    /// Seconds.
    pub from: f64,
    /// Seconds.
    pub to: f64,
    /// What was measured there.
    pub value: f64,
}

/// What a rule measured on a trajectory.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The figure that is held against what the rule expects.
    pub value: f64,
    /// Where.
    pub spans: Vec<TrajectorySpan>,
}

impl Seen {
    /// The median of what was measured in these places; `None` without any.
    pub fn median(spans: Vec<TrajectorySpan>) -> Option<Self> {
        let value = crate::trajectory::median(spans.iter().map(|span| span.value).collect())?;
        Some(Self { value, spans })
    }
}

/// Whether a rule holds.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleVerdict {
    /// It does.
    Holds(Seen),
    /// It does not; `by` is how far outside of what is expected, as a share of the nearer bound.
    Departs {
        /// What was measured.
        seen: Seen,
        /// How far off.
        by: f64,
    },
    /// The trajectory does not show it; why.
    NotSeen(String),
}

impl RuleVerdict {
    /// One word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Holds(_) => "holds",
            Self::Departs { .. } => "departs",
            Self::NotSeen(_) => "not seen",
        }
    }

    /// What was measured.
    pub const fn seen(&self) -> Option<&Seen> {
        match self {
            Self::Holds(seen) | Self::Departs { seen, .. } => Some(seen),
            Self::NotSeen(_) => None,
        }
    }
}

/// What must hold of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name: `cubic-beta`.
    pub id: &'static str,
    /// The controller that it is about, by its name in the registry.
    pub controller: &'static str,
    /// What must hold, in one line.
    pub says: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// What is measured, with its unit.
    pub measures: &'static str,
    /// From where to where the figure may lie: what the source says and the tolerance.
    pub expect: (f64, f64),
    /// Why the tolerance is as it is.
    pub tolerance: &'static str,
    /// Where it is judged.
    pub rig: Rig,
    /// The controller's own variables that it looks at; without them it is not seen.
    pub needs: &'static [&'static str],
    /// Measures; an error says why the trajectory does not show it.
    pub measure: fn(&Trajectory) -> Result<Seen, &'static str>,
}

impl Rule {
    /// Judges a trajectory.
    pub fn judge(&self, of: &Trajectory) -> RuleVerdict {
        let (low, high) = self.expect;
        if let Some(why) = &of.hidden {
            return RuleVerdict::NotSeen(why.clone());
        }
        if let Some(name) = self.needs.iter().find(|name| !of.variables.contains_key(**name)) {
            return RuleVerdict::NotSeen(format!("it needs the controller's variable '{name}', which is not there"));
        }
        if of.unfired {
            return RuleVerdict::NotSeen("what was to change the path never did".to_owned());
        }
        match (self.measure)(of) {
            Err(why) => RuleVerdict::NotSeen(why.to_owned()),
            Ok(seen) if !seen.value.is_finite() => RuleVerdict::NotSeen("nothing could be measured".to_owned()),
            Ok(seen) if (low..=high).contains(&seen.value) => RuleVerdict::Holds(seen),
            Ok(seen) => {
                let bound = if seen.value < low { low } else { high };
                let by = (seen.value - bound).abs() / bound.abs().max(1e-9);
                RuleVerdict::Departs { seen, by }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;
    use crate::trajectory::Origin;

    #[test]
    fn what_is_not_there_or_never_happened_is_not_seen() {
        let rule = rules::of("bbr3").into_iter().find(|rule| rule.id == "bbr3-a04-rounds").unwrap();
        let mut bare = Trajectory::new("bare", Origin::Qlog, 1448.0);
        let why = |of: &Trajectory| match rule.judge(of) {
            RuleVerdict::NotSeen(why) => why,
            verdict => panic!("{verdict:?}"),
        };
        assert_eq!(why(&bare), "it needs the controller's variable 'state', which is not there");
        rule.needs.iter().for_each(|name| bare.note(name, 0.0, 1.0));
        bare.unfired = true;
        assert_eq!(why(&bare), "what was to change the path never did");
    }
}
