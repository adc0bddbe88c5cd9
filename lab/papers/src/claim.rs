//! Claims held against runs: what a paper, theory or the field says, what we get, and whether it holds.
//!
//! `reproduce` and `validate` make claims, and nothing else does. As JSON they are written here ([`json`]), as a table for
//! people in [`markdown`]; `reproduce`'s page arranges them in grids.

pub mod markdown;

use serde::{Serialize, Serializer};
use serde_json::Value;

use paceline_lab::contestant::{Contestant, ContestantError};
use paceline_lab::run::World;

/// A claim, and what we get.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The figure of the paper, the name of an experiment of ours, or the section under which it stands.
    pub figure: String,
    /// What was run; empty where the cells say so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub setup: String,
    /// What must hold: with its tolerance, and who set that.
    pub claim: String,
    /// Whose runs it speaks of; empty where it speaks of the path alone.
    pub contestant: String,
    /// What the paper says or shows, or the source of a law.
    #[serde(rename = "paper")]
    pub source: String,
    /// What we get.
    pub ours: String,
    /// Whether it holds, in every cell and bound.
    #[serde(rename = "holds")]
    pub verdict: ClaimVerdict,
    /// Why not, or what to know.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Where it was tried.
    pub world: World,
    /// The command that runs it alone: where it misses, or else its first cell. Empty where there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// What its figures must be, where numbers decide, and are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<ClaimBound>,
    /// The conditions it was tried under, where there are several or each has a command.
    pub cells: Vec<Cell>,
    /// Its place in a grid, where it stands in one.
    #[serde(skip)]
    pub(crate) place: Option<Place>,
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// It does.
    Holds,
    /// It does not.
    Misses,
    /// It was not tried.
    NotRun,
}

impl ClaimVerdict {
    fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Misses }
    }
}

/// `true`, `false` or nothing.
impl Serialize for ClaimVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Holds => serializer.serialize_bool(true),
            Self::Misses => serializer.serialize_bool(false),
            Self::NotRun => serializer.serialize_none(),
        }
    }
}

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Apart from a value by at most a share of it, or by less than `slack`.
    Near {
        /// The value.
        value: f64,
        /// The share.
        share: f64,
        /// In the value's unit; 0 where the share alone decides.
        slack: f64,
    },
    /// This or more.
    AtLeast(f64),
    /// More than this.
    Above(f64),
    /// This or less.
    AtMost(f64),
    /// Less than this.
    Below(f64),
    /// Between the two, or one of them.
    Between(f64, f64),
}

impl Expected {
    /// Whether a figure is as expected; not a number never is.
    pub fn holds(self, figure: f64) -> bool {
        match self {
            Self::Near { value, share, slack } => {
                let apart = (figure - value).abs();
                apart <= share * value.abs() || apart < slack
            }
            Self::AtLeast(least) => figure >= least,
            Self::Above(below) => figure > below,
            Self::AtMost(most) => figure <= most,
            Self::Below(above) => figure < above,
            Self::Between(least, most) => (least..=most).contains(&figure),
        }
    }
}

/// What a figure must be, and is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClaimBound {
    /// What it must be.
    pub expected: Expected,
    /// What it is; `None` where it was not run.
    pub measured: Option<f64>,
}

/// A claim under one condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The condition.
    pub setup: String,
    /// What we get there.
    pub ours: String,
    /// Whether it holds there.
    pub holds: bool,
    /// The command that runs it alone.
    pub command: String,
}

/// The place of a claim in a grid: claims that differ in the contestant, a row, and in one number, a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    /// Title of the grid: the claim without the number.
    pub(crate) grid: String,
    pub(crate) column: String,
    /// The figure to show.
    pub(crate) figure: String,
}

/// A claim that cannot be held against anything: a mistake in it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("claim '{claim}': {source}")]
pub struct ClaimError {
    /// The claim, or those that the same runs answer.
    pub claim: String,
    /// What is wrong with whose runs it speaks of.
    pub source: Box<ContestantError>,
}

impl Cell {
    pub(crate) fn new(
        setup: impl Into<String>,
        ours: impl Into<String>,
        holds: bool,
        command: impl Into<String>,
    ) -> Self {
        Self { setup: setup.into(), ours: ours.into(), holds, command: command.into() }
    }

    /// `50 ms: 1.2 Mbit/s`.
    fn said(&self) -> String {
        format!("{}: {}", self.setup, self.ours)
    }
}

impl ClaimError {
    /// Reads who runs for a claim.
    ///
    /// # Errors
    /// Where the controller or the datapath is unknown, or they do not fit.
    pub(crate) fn check(claim: &str, contestant: &str) -> Result<Contestant, Self> {
        contestant.parse().map_err(|source| Self { claim: claim.to_owned(), source: Box::new(source) })
    }
}

impl Claim {
    /// A claim about `contestant`: what must hold, and what the paper says.
    pub(crate) fn new(claim: impl Into<String>, contestant: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            figure: String::new(),
            setup: String::new(),
            claim: claim.into(),
            contestant: contestant.into(),
            source: source.into(),
            ours: String::new(),
            verdict: ClaimVerdict::NotRun,
            note: String::new(),
            world: World::Sim,
            command: String::new(),
            bounds: Vec::new(),
            cells: Vec::new(),
            place: None,
        }
    }

    /// A claim in a section about one setup.
    pub(crate) fn on(section: impl Into<String>, setup: impl Into<String>, claim: impl Into<String>) -> Self {
        Self { figure: section.into(), setup: setup.into(), ..Self::new(claim, "", "") }
    }

    /// Of this figure, where an experiment runs several.
    pub(crate) fn of(mut self, figure: &str) -> Self {
        figure.clone_into(&mut self.figure);
        self
    }

    /// With whose law it is, which stands behind the claim in brackets.
    pub(crate) fn after(mut self, source: &str) -> Self {
        self.claim.push_str(&format!(" ({source})"));
        self.by(source)
    }

    /// With its source, which the section names.
    pub(crate) fn by(mut self, source: &str) -> Self {
        source.clone_into(&mut self.source);
        self
    }

    /// With a figure that is near one of theory or of the field, which the claim then says.
    pub(crate) fn within(mut self, value: f64, share: f64) -> Self {
        self.claim.push_str(&format!(", within {:.0} %", share * 100.0));
        self.near(value, share)
    }

    /// The same for a claim that says so itself.
    pub(crate) fn near(self, value: f64, share: f64) -> Self {
        self.expect(Expected::Near { value, share, slack: 0.0 })
    }

    /// With one figure more, in the order of [`Claim::measured`].
    pub(crate) fn expect(mut self, expected: Expected) -> Self {
        self.bounds.push(ClaimBound { expected, measured: None });
        self
    }

    /// What we get: a figure for each that is expected, and all of them in words.
    pub(crate) fn measured(mut self, ours: impl Into<String>, figures: &[f64]) -> Self {
        self.ours = ours.into();
        for (bound, figure) in self.bounds.iter_mut().zip(figures) {
            bound.measured = Some(*figure);
        }
        let holds = |bound: &ClaimBound| bound.measured.is_some_and(|figure| bound.expected.holds(figure));
        self.verdict = ClaimVerdict::of(!self.bounds.is_empty() && self.bounds.iter().all(holds));
        self
    }

    /// What we get where the runs gave no figures.
    pub(crate) fn failed(mut self, ours: impl Into<String>) -> Self {
        self.ours = ours.into();
        self.verdict = ClaimVerdict::Misses;
        self
    }

    /// With one cell, or where the cells speak for themselves.
    pub(crate) fn got(mut self, ours: impl Into<String>, cells: Vec<Cell>) -> Self {
        self.ours = ours.into();
        self.verdict = ClaimVerdict::of(!cells.is_empty() && cells.iter().all(|cell| cell.holds));
        let telling = cells.iter().find(|cell| !cell.holds).or(cells.first());
        self.command = telling.map(|cell| cell.command.clone()).unwrap_or_default();
        self.cells = cells;
        self
    }

    /// With cells of which each is said.
    pub(crate) fn got_each(self, cells: Vec<Cell>) -> Self {
        let ours = cells.iter().map(Cell::said).collect::<Vec<_>>().join("; ");
        self.got(ours, cells)
    }

    /// With cells of which the first that misses is said, or else the last.
    pub(crate) fn got_worst(self, cells: Vec<Cell>) -> Self {
        let worst = cells.iter().find(|cell| !cell.holds).or(cells.last());
        let ours = worst.map(Cell::said).unwrap_or_default();
        self.got(ours, cells)
    }

    /// With what to know.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Whether it was tried and holds.
    pub fn holds(&self) -> bool {
        self.verdict == ClaimVerdict::Holds
    }

    /// Whether it was tried and does not hold.
    pub fn misses(&self) -> bool {
        self.verdict == ClaimVerdict::Misses
    }
}

/// One JSON object per claim and line; beside each `ours` its `numbers`, for scripts.
pub fn json<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> String {
    let line = |claim| {
        // Texts, numbers and lists of them: nothing that JSON cannot hold.
        let mut object = serde_json::to_value(claim).expect("a claim is plain data");
        number(&mut object);
        object["cells"].as_array_mut().into_iter().flatten().for_each(number);
        format!("{object}\n")
    };
    claims.into_iter().map(line).collect()
}

fn number(said: &mut Value) {
    let numbers = numbers(said["ours"].as_str().unwrap_or_default());
    said["numbers"] = numbers.into();
}

/// The numbers of a sentence, in its order.
fn numbers(text: &str) -> Vec<f64> {
    let part = |word: &str| word.trim_end_matches(['.', ',', ';', ':', ')', '%']).trim_start_matches('(').parse().ok();
    text.split_whitespace().filter_map(part).filter(|number: &f64| number.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(holds: bool, command: &str) -> Cell {
        Cell { setup: "50 ms".to_owned(), ours: "1 ms".to_owned(), holds, command: command.to_owned() }
    }

    #[test]
    fn a_claim_holds_when_it_holds_in_every_cell() {
        let claim = || Claim::new("at most 2 ms", "dctcp@tcp", "1 ms");
        assert!(claim().got("", vec![cell(true, "a"), cell(true, "b")]).holds());
        assert!(claim().got("", vec![cell(true, "a"), cell(false, "b")]).misses());
        assert!(claim().got("", Vec::new()).misses(), "nothing was run");
        assert_eq!(claim().got("", vec![cell(true, "a"), cell(true, "b")]).command, "a");
        assert_eq!(claim().got("", vec![cell(true, "a"), cell(false, "b")]).command, "b", "where it misses");
    }

    #[test]
    fn a_claim_holds_when_every_figure_is_as_expected() {
        let claim = || Claim::on("Laws", "two flows", "at most 2 ms, above 0").expect(Expected::AtMost(2.0));
        let claim = || claim().expect(Expected::Above(0.0));
        assert!(claim().measured("", &[2.0, 0.1]).holds());
        assert!(claim().measured("", &[2.0, 0.0]).misses() && claim().measured("", &[2.1, 1.0]).misses());
        assert!(claim().measured("", &[2.0]).misses(), "one was not measured");
        assert!(claim().measured("", &[2.0, f64::NAN]).misses());
        assert_eq!(claim().verdict, ClaimVerdict::NotRun);
    }

    #[test]
    fn bounds_by_hand() {
        let near = |slack| Expected::Near { value: -10.0, share: 0.05, slack };
        assert!(near(0.0).holds(-10.5) && near(0.0).holds(-9.5) && !near(0.0).holds(-10.6));
        assert!(near(1.0).holds(-10.9) && !near(1.0).holds(-11.0));
        assert!(Expected::AtLeast(1.0).holds(1.0) && !Expected::Above(1.0).holds(1.0));
        assert!(Expected::AtMost(1.0).holds(1.0) && !Expected::Below(1.0).holds(1.0));
        let between = Expected::Between(1.0, 2.0);
        assert!(between.holds(1.0) && between.holds(2.0) && !between.holds(0.9) && !between.holds(2.1));
    }

    #[test]
    fn a_law_is_said_with_its_source_and_tolerance() {
        let claim =
            Claim::on("Laws", "one flow", "mean window 41 packets").after("Mathis et al. 1997").within(41.4, 0.06);
        assert_eq!(claim.claim, "mean window 41 packets (Mathis et al. 1997), within 6 %");
        assert_eq!(claim.source, "Mathis et al. 1997");
        assert!(claim.clone().measured("43.8", &[43.8]).holds() && claim.measured("44", &[44.0]).misses());
    }

    #[test]
    fn a_claim_has_the_keys_that_scripts_read() {
        let claim = Claim::new("at most 2 ms", "dctcp@tcp", "1 ms").got("1 ms", vec![cell(true, "a")]);
        let json = serde_json::to_value(&claim).unwrap();
        for key in ["figure", "claim", "paper", "ours", "contestant", "command", "world"] {
            assert!(json[key].is_string(), "{key}");
        }
        assert!(json["holds"].as_bool().unwrap() && json["cells"][0]["holds"].as_bool().unwrap());
        let lines = super::json(&[Claim::on("Laws", "one flow", "it is fair").within(1.0, 0.05), claim]);
        let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert!(first["holds"].is_null() && lines.lines().count() == 2, "{lines}");
        assert_eq!(first["bounds"][0]["expected"]["near"]["share"], 0.05);
        let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!((&last["numbers"][0], &last["cells"][0]["numbers"][0]), (&1.0.into(), &1.0.into()));
        let said = "0.14 s, with slow start 2.28 s (97.5 %); 20 ms: -3, CUBIC@tcp 1e3";
        assert_eq!(numbers(said), [0.14, 2.28, 97.5, 20.0, -3.0, 1000.0]);
    }

    #[test]
    fn an_unknown_contestant_is_named_with_its_claim() {
        let error = |text| ClaimError::check("Fig 1", text).unwrap_err().to_string();
        assert_eq!(error("rno@tcp"), "claim 'Fig 1': unknown controller 'rno'; did you mean reno?");
        assert_eq!(error("reno@tpc"), "claim 'Fig 1': 'reno@tpc': unknown datapath 'tpc'; did you mean tcp?");
    }
}
