//! Verdicts: pure functions of a figure and of CUBIC's on the same path. RFC 9743 sets no threshold anywhere, so every number here is our
//! choice, and is printed beside the verdict.

use serde::{Serialize, Serializer};

use super::answers::short;

/// What a figure, or a statement, says of a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClauseVerdict {
    /// The bound holds.
    Met,
    /// It does not.
    NotMet,
    /// Better than CUBIC on the same path, where the clause asks to explore.
    Better,
    /// Like CUBIC.
    Like,
    /// Worse than CUBIC.
    Worse,
    /// It is said in words.
    Stated,
    /// The words are missing.
    NotStated,
    /// The clause does not concern this controller, for this reason.
    DoesNotApply(String),
    /// It was not asked, or nothing could be measured, for this reason.
    NotAsked(String),
}

impl ClauseVerdict {
    /// In words.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotMet => "not met",
            Self::Better => "better than CUBIC",
            Self::Like => "like CUBIC",
            Self::Worse => "worse than CUBIC",
            Self::Stated => "stated",
            Self::NotStated => "not stated",
            Self::DoesNotApply(_) => "does not apply",
            Self::NotAsked(_) => "not asked",
        }
    }

    /// Why, where it has a reason.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::DoesNotApply(why) | Self::NotAsked(why) => Some(why),
            _ => None,
        }
    }

    /// Its place among the verdicts of one clause: the first stands for all.
    fn rank(&self) -> usize {
        match self {
            Self::NotMet => 0,
            Self::NotStated => 1,
            Self::Worse => 2,
            Self::Met => 3,
            Self::Like => 4,
            Self::Better => 5,
            Self::Stated => 6,
            Self::DoesNotApply(_) => 7,
            Self::NotAsked(_) => 8,
        }
    }

    /// The one of several that stands for all: what fails before what holds, and what was asked before what was not.
    pub fn of_all<'a>(verdicts: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        verdicts.into_iter().min_by_key(|verdict| verdict.rank())
    }
}

impl Serialize for ClauseVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Like CUBIC's is a figure within this many times CUBIC's (because three runs are few, and a smaller difference may be their spread).
pub(super) const LIKE_TIMES: f64 = 1.1;

/// What is expected of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    /// At most so much.
    Most(f64),
    /// At least so much.
    Least(f64),
    /// From the first to the second.
    Between(f64, f64),
    /// At most this many times CUBIC's, and so much more.
    MostBeside(f64, f64),
    /// At least this many times CUBIC's, and so much less.
    LeastBeside(f64, f64),
    /// No bound: where less is better, it is better, like or worse within [`LIKE_TIMES`] and so much.
    LessIsBetter(f64),
    /// The same where more is better.
    MoreIsBetter(f64),
}

impl Bound {
    /// At most like CUBIC's: within [`LIKE_TIMES`], and so much.
    pub(super) const fn like_or_less(slack: f64) -> Self {
        Self::MostBeside(LIKE_TIMES, slack)
    }

    /// At least like CUBIC's.
    pub(super) const fn like_or_more(slack: f64) -> Self {
        Self::LeastBeside(1.0 / LIKE_TIMES, slack)
    }

    /// What this figure says, beside CUBIC's.
    pub(super) fn judge(self, own: Option<f64>, cubic: Option<f64>) -> ClauseVerdict {
        let Some(excess) = self.excess(own, cubic) else {
            let whose = if own.is_none() { "nothing could be measured" } else { "CUBIC's figure is missing" };
            return ClauseVerdict::NotAsked(whose.to_owned());
        };
        match self {
            Self::LessIsBetter(slack) | Self::MoreIsBetter(slack) => match excess {
                excess if excess > 0.0 => ClauseVerdict::Worse,
                _ if self.turned(slack).excess(own, cubic) > Some(0.0) => ClauseVerdict::Better,
                _ => ClauseVerdict::Like,
            },
            _ if excess > 0.0 => ClauseVerdict::NotMet,
            _ => ClauseVerdict::Met,
        }
    }

    fn turned(self, slack: f64) -> Self {
        if matches!(self, Self::LessIsBetter(_)) { Self::MoreIsBetter(slack) } else { Self::LessIsBetter(slack) }
    }

    /// How far beyond the bound a figure lies, in its own unit; not above zero where it holds.
    pub(super) fn excess(self, own: Option<f64>, cubic: Option<f64>) -> Option<f64> {
        let own = own?;
        // A sum of decimals must not fail at the bound itself.
        let grace = |limit: f64| 1e-9 * limit.abs().max(1.0);
        let above = |limit: f64| own - limit - grace(limit);
        let below = |limit: f64| limit - own - grace(limit);
        Some(match self {
            Self::Most(limit) => above(limit),
            Self::Least(limit) => below(limit),
            Self::Between(low, high) => above(high).max(below(low)),
            Self::MostBeside(times, more) => above(times * cubic? + more),
            Self::LeastBeside(times, less) => below(times * cubic? - less),
            Self::LessIsBetter(slack) => above(LIKE_TIMES * cubic? + slack),
            Self::MoreIsBetter(slack) => below(cubic? / LIKE_TIMES - slack),
        })
    }

    /// In words, with the unit of the figure.
    pub(super) fn text(self, unit: &str) -> String {
        let of = |times: f64| match times {
            1.0 => "CUBIC's".to_owned(),
            0.5 => "half of CUBIC's".to_owned(),
            2.0 => "twice CUBIC's".to_owned(),
            _ => format!("{} times CUBIC's", short(times)),
        };
        let much = |sign: &str, slack: f64| {
            if slack == 0.0 { String::new() } else { format!(" {sign} {}{unit}", short(slack)) }
        };
        match self {
            Self::Most(limit) => format!("at most {}{unit}", short(limit)),
            Self::Least(limit) => format!("at least {}{unit}", short(limit)),
            Self::Between(low, high) => format!("{} to {}{unit}", short(low), short(high)),
            Self::MostBeside(times, more) => format!("at most {}{}", of(times), much("+", more)),
            Self::LeastBeside(times, less) => format!("at least {}{}", of(times), much("\u{2212}", less)),
            Self::LessIsBetter(slack) => format!("less is better; like: 1.1 times, {}{unit}", short(slack)),
            Self::MoreIsBetter(slack) => format!("more is better; like: 1.1 times, {}{unit}", short(slack)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_at_itself_and_not_beyond() {
        use ClauseVerdict::{Met, NotMet};
        let cases = [
            (Bound::Most(4.0), None, 4.0, 4.01, 3.9),
            (Bound::Least(0.7), None, 0.7, 0.69, 0.71),
            (Bound::Between(40.0, 60.0), None, 60.0, 60.1, 50.0),
            (Bound::Between(40.0, 60.0), None, 40.0, 39.9, 50.0),
            (Bound::MostBeside(2.0, 1.0), Some(3.0), 7.0, 7.01, 0.0),
            (Bound::LeastBeside(1.0, 5.0), Some(98.0), 93.0, 92.9, 100.0),
            (Bound::like_or_less(1.0), Some(10.0), 12.0, 12.01, 9.0),
            (Bound::like_or_more(1.0), Some(11.0), 9.0, 8.99, 20.0),
        ];
        for (bound, cubic, at, beyond, within) in cases {
            assert_eq!(bound.judge(Some(at), cubic), Met, "{bound:?} at {at}");
            assert_eq!(bound.judge(Some(within), cubic), Met, "{bound:?} at {within}");
            assert_eq!(bound.judge(Some(beyond), cubic), NotMet, "{bound:?} at {beyond}");
        }
    }

    #[test]
    fn beside_cubic_is_better_like_or_worse() {
        use ClauseVerdict::{Better, Like, Worse};
        for (own, verdict) in [(9.0, Like), (12.0, Like), (12.01, Worse), (8.1, Like), (8.0, Better), (0.0, Better)] {
            assert_eq!(Bound::LessIsBetter(1.0).judge(Some(own), Some(10.0)), verdict, "{own}");
        }
        for (own, verdict) in [(11.0, Like), (12.0, Like), (12.01, Better), (8.1, Like), (8.0, Worse)] {
            assert_eq!(Bound::MoreIsBetter(1.0).judge(Some(own), Some(10.0)), verdict, "{own}");
        }
        // Nothing at all beside nothing at all.
        assert_eq!(Bound::LessIsBetter(1.0).judge(Some(0.0), Some(0.0)), Like);
    }

    #[test]
    fn what_is_absent_is_not_judged() {
        let own = Bound::Most(1.0).judge(None, Some(1.0));
        assert_eq!((own.word(), own.why()), ("not asked", Some("nothing could be measured")));
        let cubic = Bound::MostBeside(2.0, 1.0).judge(Some(1.0), None);
        assert_eq!((cubic.word(), cubic.why()), ("not asked", Some("CUBIC's figure is missing")));
        // A bound that does not look at CUBIC needs no figure of it.
        assert_eq!(Bound::Most(1.0).judge(Some(1.0), None), ClauseVerdict::Met);
    }

    #[test]
    fn what_fails_stands_for_all() {
        use ClauseVerdict::{DoesNotApply, Like, Met, NotAsked, NotMet, NotStated, Worse};
        let (none, one_path) = (NotAsked("later".to_owned()), DoesNotApply("one path".to_owned()));
        for (all, stands) in [
            (vec![&Met, &NotMet, &NotStated], &NotMet),
            (vec![&Like, &Worse], &Worse),
            (vec![&none, &Like], &Like),
            (vec![&none, &one_path], &one_path),
            (vec![&NotStated, &Met], &NotStated),
        ] {
            assert_eq!(ClauseVerdict::of_all(all), Some(stands));
        }
        assert_eq!(ClauseVerdict::of_all([]), None);
    }

    #[test]
    fn a_bound_is_said_with_its_numbers() {
        assert_eq!(Bound::MostBeside(2.0, 1.0).text(" %"), "at most twice CUBIC's + 1 %");
        assert_eq!(Bound::LeastBeside(1.0, 5.0).text(" %"), "at least CUBIC's \u{2212} 5 %");
        assert_eq!(Bound::MostBeside(0.5, 0.0).text(" ms"), "at most half of CUBIC's");
        assert_eq!(Bound::like_or_less(1.0).text(" %"), "at most 1.1 times CUBIC's + 1 %");
        assert_eq!(Bound::LessIsBetter(1.0).text(" s"), "less is better; like: 1.1 times, 1 s");
    }
}
