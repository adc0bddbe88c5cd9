//! The questions: for which clauses each is asked, on which paths it is run, and who answers.

mod aqm;
mod changes;
mod coexist;
mod collapse;
mod mixed;
mod paths;
mod range;
mod signals;
mod special;
mod within;

use paceline_cc::controller::{Ecn, Env};
use paceline_lab::contestant::Contestant;

use super::answers::{Answer, Axis};
use super::clauses::CLAUSES;
use super::{Cells, Effort, QuestionCell};

/// A question.
pub(super) struct Question {
    pub(super) id: &'static str,
    pub(super) asks: fn(&str) -> String,
    /// The clauses of RFC 9743 that it is asked for.
    pub(super) clauses: &'static [&'static str],
    /// Who else asks, and how.
    pub(super) after: &'static str,
    pub(super) setup: fn(Effort) -> String,
    /// What of the clauses it does not ask in this version.
    pub(super) unasked: &'static str,
    pub(super) cells: fn(&Contestant, Effort) -> Vec<QuestionCell>,
    pub(super) answer: fn(&str, &Cells, Effort) -> Answer,
}

/// What most questions have.
const PLAIN: Question = Question {
    id: "",
    asks: |_| String::new(),
    clauses: &[],
    after: "",
    setup: |_| String::new(),
    unasked: "",
    cells: |_, _| Vec::new(),
    answer: |_, _, _| Answer { text: String::new(), charts: Vec::new(), checks: Vec::new() },
};

/// Every question, in the order of the clauses.
pub(super) fn all() -> impl Iterator<Item = &'static Question> {
    let groups: [&'static [Question]; 10] = [
        &[collapse::QUESTION],
        within::QUESTIONS,
        coexist::QUESTIONS,
        mixed::QUESTIONS,
        &[range::QUESTION],
        paths::QUESTIONS,
        signals::QUESTIONS,
        aqm::QUESTIONS,
        changes::QUESTIONS,
        special::QUESTIONS,
    ];
    groups.into_iter().flatten()
}

impl Question {
    /// Who asks it: the clauses by number, and others.
    pub(super) fn source(&self) -> String {
        let title = |id: &&str| {
            let clause = CLAUSES.iter().find(|clause| clause.id == *id);
            clause.map_or_else(String::new, |clause| format!("{} ({})", clause.section(), clause.title))
        };
        let clauses: Vec<String> = self.clauses.iter().map(title).collect();
        let plural = if clauses.len() == 1 { "" } else { "s" };
        let after = if self.after.is_empty() { String::new() } else { format!("; {}", self.after) };
        format!("RFC 9743 section{plural} {}{after}", clauses.join(", "))
    }
}

/// Those it must live with: the name in the registry, and in prose. QUIC's controller (RFC 9002) is Reno here. One more needs nothing else.
pub(super) const RIVALS: [(&str, &str); 5] =
    [("reno", "Reno"), ("cubic", "CUBIC"), ("bbr", "BBR"), ("bbr3", "BBRv3"), ("prague", "Prague")];

/// Buffers in BDP.
const BUFFERS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
const BUFFER: Axis = Axis::numbers("buffer, BDP");

/// A link with a round trip and a queue; `more` stands under `[down]`.
fn path(mbps: f64, rtt_ms: f64, queue: &str, more: &str) -> String {
    let delay = rtt_ms * 500.0;
    format!(
        "[down]\nrate = \"{mbps} Mbit/s\"\ndelay = \"{delay}us\"\nqueue = \"{queue}\"\n{more}\n[up]\ndelay = \"{delay}us\"\n"
    )
}

fn named(name: &str) -> Contestant {
    format!("{name}@tcp").parse().unwrap_or_else(|error| unreachable!("{name} comes with paceline: {error}"))
}

/// A link of 50 Mbit/s and 40 ms with a buffer of this many BDP.
fn buffered(bdp: f64) -> String {
    path(50.0, 40.0, &format!("droptail:bdp={bdp}"), "")
}

/// The same with a buffer of one BDP, and with more under `[down]`.
fn plain(more: &str) -> String {
    path(50.0, 40.0, "droptail:bdp=1", more)
}

/// The contestant, or one whose figures stand beside its.
struct Compared {
    key: &'static str,
    who: Contestant,
}

impl Compared {
    /// One bulk flow of it on this path.
    fn at(&self, x: impl Into<f64>, path: String) -> QuestionCell {
        QuestionCell::new(self.key, x.into(), &self.who, path)
    }
}

/// Cells of the contestant and of those whose figures stand beside its, at each of these values.
fn each<T: Copy>(
    contestant: &Contestant,
    beside: &[&'static str],
    values: &[T],
    cell: impl Fn(&Compared, T) -> QuestionCell,
) -> Vec<QuestionCell> {
    let own = Compared { key: "itself", who: contestant.clone() };
    let others = beside.iter().map(|key| Compared { key, who: named(key) });
    let all = std::iter::once(own).chain(others);
    all.flat_map(|one| values.iter().map(|value| cell(&one, *value)).collect::<Vec<_>>()).collect()
}

/// The same in conditions that have names, by their number from 1.
fn every(
    contestant: &Contestant,
    beside: &[&'static str],
    axis: Axis,
    cell: impl Fn(&Compared, u32) -> QuestionCell,
) -> Vec<QuestionCell> {
    let numbers: Vec<u32> = (1..).take(axis.names.len()).collect();
    each(contestant, beside, &numbers, cell)
}

/// What a controller asks of ECN.
fn ecn(contestant: &Contestant) -> Ecn {
    contestant.controller.build(&Env::default()).nature().ecn
}

const STARTS: &str = "\n[[flows]]\nstart = \"0ms..200ms\"\n";
const CUBIC: &str = "\n[[flows]]\ncontestant = \"cubic@tcp\"\nstart = \"0ms..200ms\"\n";
