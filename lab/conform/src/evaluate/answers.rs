//! From runs to figures, checks and one sentence, which says what the numbers support and no more.

use serde::Serialize;

use super::cells::{CellRun, Cells, share};
use super::verdict::{Bound, ClauseVerdict};
use super::watched::trips;
use super::{AnswerChart, AnswerLine};
use crate::page::figure;

/// What a question comes to.
pub(super) struct Answer {
    /// One sentence of what the numbers support.
    pub(super) text: String,
    pub(super) charts: Vec<AnswerChart>,
    /// What the figures say of the clauses.
    pub(super) checks: Vec<Check>,
}

/// A figure that was held against a bound for a clause, in the condition where it holds least.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The clause, by section and, where that wants two things, which.
    #[serde(skip)]
    pub(super) clause: &'static str,
    /// The question that measured it; empty for what is a matter of words.
    pub question: &'static str,
    /// What the figure is.
    pub measures: &'static str,
    /// Where it holds least, of several conditions.
    pub at: Option<String>,
    /// Median over the runs; `null` where it could not be measured, or is a time that never came.
    pub figure: Option<f64>,
    /// Least and most of the runs.
    pub spread: Option<(f64, f64)>,
    /// CUBIC's in the same condition.
    pub cubic: Option<f64>,
    /// Unit of both, with the space before it.
    pub unit: &'static str,
    /// What is expected of it.
    pub bound: String,
    /// In how many conditions it holds, and of how many.
    pub holds: Option<(usize, usize)>,
    /// What it says of the clause.
    pub verdict: ClauseVerdict,
    /// Why it was not asked, or does not apply.
    pub why: Option<String>,
    /// The figure and CUBIC's as the page has them.
    #[serde(skip)]
    pub(super) said: [String; 2],
}

impl Check {
    /// Without a figure.
    pub(super) fn said(clause: &'static str, measures: &'static str, verdict: ClauseVerdict) -> Self {
        Self {
            clause,
            question: "",
            measures,
            at: None,
            figure: None,
            spread: None,
            cubic: None,
            unit: "",
            bound: String::new(),
            holds: None,
            why: verdict.why().map(str::to_owned),
            verdict,
            said: [String::new(), String::new()],
        }
    }
}

/// A time that stands for never: longer than any run, and a number that a median can take.
pub(super) const NEVER: f64 = 1e9;

/// A figure in one condition.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) at: String,
    pub(super) own: Option<f64>,
    pub(super) spread: Option<(f64, f64)>,
    pub(super) cubic: Option<f64>,
}

/// What is held against a bound.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    /// The clause that wants it.
    pub(super) clause: &'static str,
    /// What it is, as beside an axis, with its unit: `lost, %`.
    pub(super) what: &'static str,
    pub(super) bound: Bound,
}

impl Measure {
    /// `lost` of `lost, %`, and ` %`.
    fn parts(&self) -> (&'static str, String) {
        let (name, unit) = self.what.rsplit_once(", ").unwrap_or((self.what, ""));
        (name, if unit.is_empty() { String::new() } else { format!(" {unit}") })
    }

    /// The check of the condition where it holds least.
    pub(super) fn of(self, points: &[Point]) -> Check {
        let (name, unit) = self.parts();
        let judged = |point: &Point| self.bound.judge(point.own, point.cubic);
        let seen: Vec<&Point> = points.iter().filter(|point| judged(point).why().is_none()).collect();
        let excess = |point: &&&Point| {
            let excess = self.bound.excess(point.own, point.cubic).unwrap_or(f64::NEG_INFINITY);
            excess / point.cubic.unwrap_or(1.0).abs().max(1.0)
        };
        let Some(worst) = seen.iter().max_by(|a, b| excess(a).total_cmp(&excess(b))) else {
            let why = "nothing could be measured".to_owned();
            let why = points.iter().find_map(|point| judged(point).why().map(str::to_owned)).unwrap_or(why);
            return Check::said(self.clause, name, ClauseVerdict::NotAsked(why));
        };
        let holds = |point: &&&Point| !matches!(judged(point), ClauseVerdict::NotMet | ClauseVerdict::Worse);
        let with = |value: Option<f64>| match value {
            Some(value) if value >= NEVER => "never".to_owned(),
            value => value.map_or_else(String::new, |value| format!("{}{unit}", short(value))),
        };
        let spread = worst.spread.filter(|(low, high)| *high < NEVER && short(*low) != short(*high));
        let spread_said =
            spread.map_or_else(String::new, |(low, high)| format!(" ({} to {})", short(low), short(high)));
        let finite = |value: Option<f64>| value.filter(|value| *value < NEVER);
        Check {
            at: (seen.len() > 1).then(|| worst.at.clone()),
            figure: finite(worst.own),
            spread,
            cubic: finite(worst.cubic),
            unit: self.what.rsplit_once(", ").map_or("", |(_, unit)| unit),
            bound: self.bound.text(&unit),
            holds: (seen.len() > 1).then(|| (seen.iter().filter(holds).count(), seen.len())),
            said: [with(worst.own) + &spread_said, with(worst.cubic)],
            ..Check::said(self.clause, name, judged(worst))
        }
    }
}

/// The horizontal axis of a figure: numbers, or conditions by name.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    pub(super) title: &'static str,
    pub(super) log: bool,
    pub(super) names: &'static [&'static str],
}

impl Axis {
    /// Numbers, in equal steps for equal factors.
    pub(super) const fn numbers(title: &'static str) -> Self {
        Self { title, log: true, names: &[] }
    }

    /// Conditions, numbered from 1.
    pub(super) const fn conditions(names: &'static [&'static str]) -> Self {
        Self { title: "", log: false, names }
    }

    /// A value of it: `0.5 BDP`, `16 flows`, `outage`.
    pub(super) fn at(&self, x: f64) -> String {
        if let Some(name) = self.names.get((x as usize).wrapping_sub(1)) {
            return (*name).to_owned();
        }
        let unit = self.title.rsplit_once(", ").map_or(self.title, |(_, unit)| unit);
        format!("{} {unit}", figure(x))
    }

    pub(super) fn chart(&self, y: &'static str, top: Option<f64>, lines: Lines) -> AnswerChart {
        let (x, names) = (self.title, self.names.to_vec());
        AnswerChart { x, y, log: self.log, top, names, places: Vec::new(), lines: lines.0 }
    }
}

/// A figure that is read from each run and held against a bound.
pub(super) struct Reading {
    pub(super) measure: Measure,
    /// The end of its axis, where it is known before.
    pub(super) top: Option<f64>,
    /// From a run, at this place of the axis.
    pub(super) read: fn(&CellRun, f64) -> Option<f64>,
}

/// A reading whose clause, name, bound and source stand in one line.
pub(super) const fn reading(
    clause: &'static str,
    what: &'static str,
    top: Option<f64>,
    bound: Bound,
    read: fn(&CellRun, f64) -> Option<f64>,
) -> Reading {
    Reading { measure: Measure { clause, what, bound }, top, read }
}

/// A circuit breaker's question (RFC 8084 leaves its figures to the operator): flows that lose more than a tenth in three intervals in a row,
/// and do not have half of their rate in the third.
pub(super) const BREAKER: Reading =
    reading("7.2", "flows that trip a breaker, %", Some(100.0), Bound::like_or_less(0.5), |run, _| {
        let own: Vec<bool> =
            run.watched.flows().iter().zip(&run.own).filter(|(_, own)| **own).map(|(flow, _)| trips(flow)).collect();
        (!own.is_empty()).then(|| 100.0 * own.iter().filter(|trips| **trips).count() as f64 / own.len() as f64)
    });

/// The figures of the contestant and of those beside it, each judged in the condition where it holds least.
pub(super) fn measured(name: &str, cells: &Cells, axis: Axis, keys: &[&str], readings: &[Reading]) -> Answer {
    let (mut said, mut charts, mut checks) = (Vec::new(), Vec::new(), Vec::new());
    for Reading { measure, top, read } in readings {
        let lines = Lines(
            keys.iter()
                .map(|key| AnswerLine {
                    name: called(key, name),
                    points: cells.points(key, read).into_iter().map(known).collect(),
                })
                .collect(),
        );
        let (what, unit) = measure.parts();
        let of = |key: &str| spanned(&values(&cells.points(key, read)), &unit);
        let beside: Vec<String> = keys[1..].iter().map(|key| format!("{} {}", upper(key), of(key))).collect();
        let beside = if beside.is_empty() { String::new() } else { format!(" ({})", beside.join(", ")) };
        said.push(format!("{what}: {}{beside}", of(keys[0])));
        checks.push(measure.of(&points(cells, axis, ["itself", "cubic"], read)));
        charts.push(axis.chart(measure.what, *top, lines));
    }
    Answer { text: format!("{}.", capital(&said.join("; "))), charts, checks }
}

/// From the least to the most, and how often it never came.
fn spanned(values: &[f64], unit: &str) -> String {
    let (known, never): (Vec<f64>, Vec<f64>) = values.iter().partition(|value| **value < NEVER);
    match (known.is_empty(), never.len()) {
        (true, 1..) => "never".to_owned(),
        (_, 0) => range(&known, unit),
        (_, times) => format!("{}, never in {times} of {}", range(&known, unit), values.len()),
    }
}

/// What never came has no place on an axis.
fn known((x, y): (f64, Option<f64>)) -> (f64, Option<f64>) {
    (x, y.filter(|y| *y < NEVER))
}

/// The figures of a key and of the one that it is held against, in each condition.
pub(super) fn points(
    cells: &Cells,
    axis: Axis,
    [own, cubic]: [&str; 2],
    read: impl Fn(&CellRun, f64) -> Option<f64> + Copy,
) -> Vec<Point> {
    let point = |x: f64| Point {
        at: axis.at(x),
        own: cells.at(own, x, |run| read(run, x)),
        spread: cells.spread(own, x, |run| read(run, x)),
        cubic: cells.at(cubic, x, |run| read(run, x)),
    };
    cells.numbers(own).into_iter().map(point).collect()
}

/// A line of a figure for each of those who are compared.
pub(super) struct Lines(pub(super) Vec<AnswerLine>);

impl Lines {
    /// One for each of these keys.
    pub(super) fn of(cells: &Cells, name: &str, keys: &[&str], read: impl Fn(&CellRun) -> Option<f64> + Copy) -> Self {
        Self(keys.iter().map(|key| AnswerLine { name: called(key, name), points: cells.line(key, read) }).collect())
    }

    /// From the least to the most of a line.
    pub(super) fn range(&self, line: usize, unit: &str) -> String {
        range(&values(&self.0[line].points), unit)
    }

    /// `98, 97, ?`: every value of a line in order.
    pub(super) fn each(&self, line: usize) -> String {
        self.0[line].points.iter().map(|(_, value)| said(*value)).collect::<Vec<_>>().join(", ")
    }

    /// A value of a line.
    pub(super) fn at(&self, line: usize, index: usize) -> Option<f64> {
        self.0[line].points.get(index)?.1
    }

    /// The last value of a line.
    pub(super) fn last(&self, line: usize) -> String {
        said(self.0[line].points.last().and_then(|(_, value)| *value))
    }
}

/// The name of a key: the contestant's own where it is its.
pub(super) fn called(key: &str, name: &str) -> String {
    if key == "itself" { name.to_owned() } else { format!("{key}@tcp") }
}

/// A controller of the key, as prose has it.
pub(super) fn upper(name: &str) -> &str {
    match name {
        "reno" => "Reno",
        "cubic" => "CUBIC",
        "bbr" => "BBR",
        "bbr3" => "BBRv3",
        "prague" => "Prague",
        "dctcp" => "DCTCP",
        "cubic:start=hystart++" => "CUBIC with HyStart++",
        other => other,
    }
}

pub(super) fn values(points: &[(f64, Option<f64>)]) -> Vec<f64> {
    points.iter().filter_map(|(_, value)| *value).collect()
}

/// `12 %`, `12 to 40 %`; what is missing is said so.
pub(super) fn range(values: &[f64], unit: &str) -> String {
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    match (low, high) {
        (Some(low), Some(high)) if short(low) == short(high) => format!("{}{unit}", short(low)),
        (Some(low), Some(high)) => format!("{} to {}{unit}", short(low), short(high)),
        _ => "nothing that could be measured".to_owned(),
    }
}

/// Two digits and more, as a sentence needs them.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        a if a >= 10.0 => format!("{value:.0}"),
        a if a >= 1.0 => figure((value * 10.0).round() / 10.0),
        _ => figure((value * 100.0).round() / 100.0),
    }
}

/// A value as a sentence needs it; what is missing is said so.
pub(super) fn said(value: Option<f64>) -> String {
    value.map_or_else(|| "?".to_owned(), short)
}

/// With a capital.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

pub(super) fn used(run: &CellRun) -> Option<f64> {
    run.record.utilization.map(|used| used * 100.0)
}

pub(super) fn waits(run: &CellRun) -> Option<f64> {
    run.record.queue_ms.map(|queue| queue.p95)
}

pub(super) fn lost(run: &CellRun) -> Option<f64> {
    Some(run.record.loss * 100.0)
}

pub(super) fn percent(run: &CellRun) -> Option<f64> {
    share(run).map(|share| share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at: &str, own: Option<f64>, cubic: Option<f64>) -> Point {
        Point { at: at.to_owned(), own, spread: own.map(|own| (own - 0.5, own + 0.5)), cubic }
    }

    #[test]
    fn a_check_is_of_the_condition_where_it_holds_least() {
        let lost = Measure { clause: "5.1.3", what: "lost, %", bound: Bound::MostBeside(2.0, 1.0) };
        let check = lost.of(&[
            at("1 BDP", Some(2.0), Some(2.0)),
            at("0.1 BDP", Some(9.5), Some(3.0)),
            at("2 BDP", None, Some(1.0)),
        ]);
        assert_eq!(
            (check.verdict.word(), check.at.as_deref(), check.holds),
            ("not met", Some("0.1 BDP"), Some((1, 2)))
        );
        assert_eq!((check.measures, check.unit, check.bound.as_str()), ("lost", "%", "at most twice CUBIC's + 1 %"));
        assert_eq!(check.said, ["9.5 % (9 to 10)", "3 %"]);
        let check = lost.of(&[at("1 BDP", None, Some(2.0))]);
        assert_eq!((check.verdict.word(), check.why.as_deref()), ("not asked", Some("nothing could be measured")));
    }

    #[test]
    fn what_never_came_is_said_so() {
        let time = Measure { clause: "7.9", what: "time to 80 %, s", bound: Bound::MostBeside(2.0, 0.0) };
        let never = Point { spread: None, ..at("outage", Some(NEVER), Some(3.0)) };
        let check = time.of(&[never]);
        assert_eq!(
            (check.verdict, check.figure, check.said),
            (ClauseVerdict::NotMet, None, ["never".into(), "3 s".into()])
        );
        let said = [&[1.0, 3.0][..], &[NEVER], &[1.0, NEVER, NEVER], &[]].map(|values| spanned(values, " s"));
        assert_eq!(said, ["1 to 3 s", "never", "1 s, never in 2 of 3", "nothing that could be measured"]);
    }

    #[test]
    fn conditions_and_numbers_have_names() {
        let axis = Axis::numbers("buffer, BDP");
        assert_eq!((axis.at(0.5), Axis::numbers("flows").at(16.0)), ("0.5 BDP".to_owned(), "16 flows".to_owned()));
        assert_eq!(Axis::conditions(&["CoDel", "PIE"]).at(2.0), "PIE");
    }
}
