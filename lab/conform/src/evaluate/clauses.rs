//! The clauses of RFC 9743 (BCP 133, March 2025) that a proposal is held against, and what an evaluation says of each.

use paceline_cc::statements::Statements;
use serde::Serialize;

use super::answers::Check;
use super::questions::{self, Question};
use super::verdict::ClauseVerdict;

/// What RFC 9743 wants in one place.
#[derive(Clone, Copy)]
pub(super) struct Clause {
    /// Its section, and where a section wants two things, which.
    pub(super) id: &'static str,
    /// How much it is wanted, in the words of RFC 2119 and of the text.
    pub(super) level: &'static str,
    /// Its title, short.
    pub(super) title: &'static str,
    /// What it wants.
    pub(super) wants: &'static str,
    /// The statement that answers it, where it is a matter of words.
    pub(super) words: Option<fn(&Statements) -> &'static str>,
    /// What of it does not concern any controller here.
    pub(super) without: Option<&'static str>,
}

impl Clause {
    /// `5.2` of `5.2 starvation`.
    pub(super) fn section(&self) -> &'static str {
        self.id.split(' ').next().unwrap_or(self.id)
    }

    /// Whether unsatisfactory results may pass (section 7 of the RFC).
    fn is_special(&self) -> bool {
        self.section().starts_with('7')
    }

    /// Whether `named` is this section or one that holds it.
    pub(super) fn is_within(&self, named: &str) -> bool {
        let rest = self.section().strip_prefix(named.trim_end_matches('.'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// The questions that are asked for it.
    pub(super) fn questions(&self) -> impl Iterator<Item = &'static Question> {
        questions::all().filter(|question| question.clauses.contains(&self.id))
    }
}

const fn clause(id: &'static str, level: &'static str, title: &'static str, wants: &'static str) -> Clause {
    Clause { id, level, title, wants, words: None, without: None }
}

const fn words(clause: Clause, of: fn(&Statements) -> &'static str) -> Clause {
    Clause { words: Some(of), ..clause }
}

const fn without(clause: Clause, why: &'static str) -> Clause {
    Clause { without: Some(why), ..clause }
}

/// The clause that the page itself answers.
const CRITERIA: &str = "5";

/// Every clause, in the order of the text.
pub(super) const CLAUSES: &[Clause] = &[
    words(clause("3.1", "should", "evaluation", "practical experience, independent implementations"), |said| {
        said.implementations
    }),
    words(
        clause(
            "3.2",
            "must, should",
            "status",
            "experimental until there is evidence at Internet scale: then not a default, measured, with a switch; where it is safe",
        ),
        |said| said.status,
    ),
    words(
        clause(
            "4",
            "must by need",
            "controlled environments",
            "which functions of the network it relies on, and what happens without them",
        ),
        |said| said.environments,
    ),
    clause(CRITERIA, "consider", "criteria", "all are considered, and what is not met has its reason"),
    clause("5.1.1", "should", "congestion collapse", "it stops, or backs off fully"),
    clause("5.1.2", "should", "bufferbloat", "no excessive standing queue"),
    clause("5.1.3", "should", "high loss", "no excessive loss, and less rate under loss"),
    clause("5.1.4", "should", "fairness within", "how flows of it share"),
    clause("5.1.5", "must", "short flows", "its short flows beside long ones, and long ones beside short"),
    clause("5.2", "should", "mixed: harm", "no more harm to others than they do to each other"),
    clause("5.2 starvation", "must", "mixed: starvation", "none starves another; without feedback it backs off"),
    clause("5.2.1", "must", "general purpose", "beside Reno, CUBIC, QUIC's controller, and what else is widely used"),
    clause("5.2.2", "should", "real time", "beside flows with a finite rate that need low delay"),
    clause("5.2.3", "must", "short and long of others", "beside short and long flows of others"),
    words(clause("5.3.1", "must", "principles", "what deviates from RFC 2914 and RFC 7141"), |said| said.deviations),
    words(
        clause(
            "5.3.2",
            "must, should",
            "deployment",
            "incremental, through the equipment that is there; how its scope is kept",
        ),
        |said| said.deployment,
    ),
    clause("6", "must, should", "general use", "over a range of rates, delays and queues"),
    clause("6.1", "must", "tail drop", "queues that drop what does not fit"),
    clause("6.2", "must if signals are used", "tunnels", "routers that do not see the flow or its signals"),
    clause("6.3", "baseline", "wired paths", "a constant path"),
    clause("6.4", "should", "wireless paths", "losses of radio, capacity over time, jitter of access and repetition"),
    clause(
        "7.1",
        "should; must for ECN",
        "AQM",
        "a variety of active queue management, and the code point that is used",
    ),
    clause("7.2", "should", "circuit breakers", "within their envelope"),
    clause("7.3", "should", "varying delay", "robust when the least delay changes"),
    clause("7.4", "consider", "constrained nodes", "low rates, small packets, few acknowledgements, low cost"),
    clause("7.5", "should", "high delay", "satellites"),
    clause("7.6", "should", "misbehaving nodes", "senders, receivers, routers, attackers"),
    clause("7.7", "should", "extreme reordering", "packets that overtake by far"),
    clause("7.8", "should", "transients", "onset of congestion, changes of routing, mobility"),
    clause("7.9", "must", "sudden path changes", "robust on the time scale of rerouting"),
    without(
        clause("7.10", "must if it has several paths", "multipath", "failover without starvation, shared bottlenecks"),
        "several paths at once: controllers here have one path",
    ),
    clause("7.11", "should", "data centres", "whom it lives with there"),
    words(clause("8", "must", "security and privacy", "examined"), |said| said.security),
];

/// A clause with what an evaluation says of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClauseRow {
    /// Its section in RFC 9743.
    pub clause: &'static str,
    /// Its title, short.
    pub title: &'static str,
    /// How much it is wanted.
    pub level: &'static str,
    /// Of section 7, where unsatisfactory results may pass.
    pub special: bool,
    /// What it wants.
    pub wants: &'static str,
    /// The verdict that stands for all of its checks: what fails first.
    pub verdict: ClauseVerdict,
    /// Why it was not asked, or does not apply.
    pub why: Option<String>,
    /// The questions that are asked for it, by name.
    pub questions: Vec<&'static str>,
    /// What was measured, or looked for.
    pub checks: Vec<Check>,
    /// What the controller's registry says in words, where the clause is a matter of them.
    pub statement: Option<String>,
    /// Why a clause that is not met may be: for the authors to fill (RFC 9743, section 5).
    pub reason: String,
}

/// A row for every clause. `heard` has the checks of a question that was asked.
pub(super) fn rows<'a>(
    statements: &Statements,
    all: bool,
    heard: impl Fn(&str) -> Option<&'a [Check]>,
) -> Vec<ClauseRow> {
    let mut rows: Vec<ClauseRow> = CLAUSES.iter().map(|clause| row(clause, statements, &heard)).collect();
    let open = rows.iter().filter(|row| row.verdict == ClauseVerdict::NotMet).count();
    if let Some(row) = rows.iter_mut().find(|row| row.clause == CRITERIA) {
        row.verdict = documented(all, open);
        row.why = row.verdict.why().map(str::to_owned);
        row.statement = (row.verdict == ClauseVerdict::NotStated).then(|| {
            let clauses = if open == 1 { "One clause is".to_owned() } else { format!("{open} clauses are") };
            format!("{clauses} not met, without a reason beside it yet.")
        });
    }
    rows
}

/// Whether each clause that is not met has its reason.
fn documented(all: bool, open: usize) -> ClauseVerdict {
    match (all, open) {
        (false, _) => ClauseVerdict::NotAsked("only some questions were asked".to_owned()),
        (true, 0) => ClauseVerdict::DoesNotApply("no clause is not met".to_owned()),
        (true, _) => ClauseVerdict::NotStated,
    }
}

fn row<'a>(clause: &Clause, statements: &Statements, heard: &impl Fn(&str) -> Option<&'a [Check]>) -> ClauseRow {
    let mut checks = Vec::new();
    let statement = clause.words.map(|of| of(statements)).filter(|said| !said.is_empty());
    if clause.words.is_some() {
        let verdict = if statement.is_some() { ClauseVerdict::Stated } else { ClauseVerdict::NotStated };
        checks.push(Check::said(clause.id, "in words", verdict));
    }
    for question in clause.questions() {
        match heard(question.id) {
            Some(of) => checks.extend(of.iter().filter(|check| check.clause == clause.id).cloned()),
            None => {
                let verdict = ClauseVerdict::NotAsked("by this call".to_owned());
                checks.push(Check { question: question.id, ..Check::said(clause.id, "", verdict) });
            }
        }
    }
    if let Some(why) = clause.without {
        let verdict = ClauseVerdict::DoesNotApply(why.to_owned());
        checks.push(Check::said(clause.id, "several paths", verdict));
    }
    let verdict = ClauseVerdict::of_all(checks.iter().map(|check| &check.verdict)).cloned();
    let verdict = verdict.unwrap_or_else(|| ClauseVerdict::NotAsked("no question asks it in this version".to_owned()));
    ClauseRow {
        clause: clause.section(),
        title: clause.title,
        level: clause.level,
        special: clause.is_special(),
        wants: clause.wants,
        why: verdict.why().map(str::to_owned),
        verdict,
        questions: clause.questions().map(|question| question.id).collect(),
        checks,
        statement: statement.map(str::to_owned),
        reason: String::new(),
    }
}

/// The form of the statements: what to write for a controller, and what is there already.
pub fn form(name: &str, statements: &Statements) -> String {
    use std::fmt::Write as _;
    let mut text = format!("# {name}: what RFC 9743 wants in words; one sentence each\n");
    for (clause, of) in CLAUSES.iter().filter_map(|clause| Some((clause, clause.words?))) {
        let said = of(statements);
        let said = if said.is_empty() { "(not stated)" } else { said };
        let _ = write!(text, "\n{} {} ({}): {}\n  {said}\n", clause.id, clause.title, clause.level, clause.wants);
    }
    text
}
