//! The starts of an experiment in one table, and held against each other.

use super::alone::{Started, time};
use super::measure::Starts;
use super::{START_UPS, StartUp};
use crate::reproduce::prelude::*;

/// A row of a start-up over all places of an experiment; `more` are further columns.
pub(super) fn table(title: &str, started: &[Started], more: &[(&str, Vec<String>)]) -> Table {
    let columns = ["t80, RTT", "never", "queue, RTT", "lost, BDP", "window, BDP", "by loss, %"];
    let columns = columns.into_iter().chain(more.iter().map(|(name, _)| *name));
    let row = |(at, who): (usize, &StartUp)| {
        let all = || started.iter().map(|one| &one.of[at]);
        let of = |figure: &dyn Fn(&Starts) -> f64| {
            let values: Vec<f64> = all().map(figure).filter(|value| value.is_finite()).collect();
            if values.is_empty() { "\u{2013}".to_owned() } else { short(median(&values)) }
        };
        let never = all().filter(|starts| starts.t80().is_infinite()).count();
        let by_loss = mean(&all().map(Starts::by_loss).collect::<Vec<_>>());
        let values = [
            of(&|starts| starts.t80() / starts.rtt),
            never.to_string(),
            of(&|starts| starts.peak_ms() / 1e3 / starts.rtt),
            of(&|starts| starts.lost()[0] / starts.bdp),
            of(&Starts::window),
            short((by_loss * 100.0).round()),
        ];
        let values = values.into_iter().chain(more.iter().map(|(_, values)| values[at].clone()));
        (who.name.to_owned(), values.map(|value| (value, String::new())).collect())
    };
    let note = "Medians over conditions, of medians over runs; t80 where it came, and in how many it never did.";
    Table::new(title, note, columns, START_UPS.iter().enumerate().map(row))
}

/// How titles of tables begin that have every condition.
pub(super) const EACH: &str = "Each condition";

/// Every place in a row: t80, and below it queue and losses.
pub(super) fn each(started: &[Started]) -> Table {
    let cell = |starts: &Starts| {
        let below = format!("{} ms, {} lost", short(starts.peak_ms()), short(starts.lost()[0]));
        (time(starts.t80()), below)
    };
    let rows = started.iter().map(|one| (one.place.name.clone(), one.of.iter().map(cell).collect()));
    let note = "t80, below it the largest queue and the packets lost; medians and means over runs.";
    Table::new(EACH, note, START_UPS.iter().map(|who| who.name), rows)
}

/// t80 against the queue, a dot for each start-up.
pub(super) fn drawing(title: &str, one: &Started) -> Drawing {
    let classes = palette::classes(START_UPS.iter().map(|who| who.name));
    let at = |starts: &Starts| (starts.t80() / starts.rtt, starts.peak_ms() / 1e3 / starts.rtt);
    let points: Vec<(f64, f64)> = one.of.iter().map(at).collect();
    let came = points.iter().filter(|point| point.0.is_finite());
    let (x, y) = came.fold((1.0, 0.1), |(x, y): (f64, f64), point| (x.max(point.0), y.max(point.1)));
    let line = |(class, point): (&String, &(f64, f64))| {
        PlotLine::dotted(class.clone(), point.0.is_finite().then_some((point.0, Some(point.1))))
    };
    let lines = classes.iter().zip(&points).map(line).collect();
    let row = ChartRow::single("largest queue, RTT", PlotAxis::linear(y * 1.1), 220.0, lines);
    let names = classes.iter().zip(START_UPS).map(|(class, who)| (class.clone(), who.name));
    let sheet = Sheet::new(title, ("t80, RTT", PlotAxis::linear(x * 1.1)), vec![row]).legend(names);
    Drawing::new(title, &sheet, "To the left is sooner, below is less queue. One that never has 80 % has no dot.")
}
