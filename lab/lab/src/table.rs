//! What a race prints in a terminal: one row per contestant, and where no difference was found.

use std::fmt::Write;

use crate::numbers::{plain, spread};
use crate::record::{Record, ReleaseError};
use crate::stats::{MIN_RUNS, Summary, Verdict, pairs};
use crate::variation::{Variation, figures};

/// Widest table where no terminal is known.
pub const WIDTH: usize = 100;
/// Longest name that takes space from columns.
const NAME: usize = 30;
/// Most pairs named one by one.
const MOST_PAIRS: usize = 8;

type Cell = fn(&Summary) -> Option<String>;

/// Header in two lines (figure, unit), how soon the column is left out in a narrow terminal (0: never), and the cell.
const COLUMNS: [(&str, &str, u8, Cell); 14] = [
    ("throughput", "Mbit/s", 0, |s| Some(spread(&s.throughput_mbps))),
    ("own", "Mbit/s", 0, |s| s.own_throughput_mbps.as_ref().map(spread)),
    ("used", "%", 3, |s| s.utilization.map(|value| plain(value.median * 100.0))),
    ("delay p50", "ms", 4, |s| s.delay_p50_ms.map(|value| plain(value.median))),
    ("delay p95", "ms", 0, |s| s.delay_p95_ms.as_ref().map(spread)),
    ("rtt p50", "ms", 4, |s| s.rtt_p50_ms.map(|value| plain(value.median))),
    ("rtt p95", "ms", 0, |s| s.rtt_p95_ms.as_ref().map(spread)),
    ("queue p95", "ms", 2, |s| s.queue_p95_ms.map(|value| plain(value.median))),
    ("loss", "%", 5, |s| Some(plain(s.loss.median * 100.0))),
    ("resent", "packets", 1, |s| s.retransmits.map(|value| format!("{:.0}", value.median))),
    ("completion", "p50 ms", 0, |s| s.fct_p50_ms.map(|value| plain(value.median))),
    ("fairness", "Jain", 0, |s| s.jain.map(|value| format!("{:.3}", value.median))),
    ("cpu", "% core", 4, |s| s.cpu.map(|value| plain(value.median * 100.0))),
    ("trusted", "runs", 0, |s| s.trusted.map(|trusted| format!("{trusted} of {}", s.runs))),
];

struct Column {
    name: &'static str,
    unit: &'static str,
    leaves: u8,
    cells: Vec<Option<String>>,
    width: usize,
}

/// Columns that say something, as many as fit into the width beside the contestants' names.
fn columns(summaries: &[Summary], names: usize, width: usize) -> Vec<Column> {
    let mut columns: Vec<Column> = COLUMNS
        .iter()
        .map(|(name, unit, leaves, cell)| {
            let cells: Vec<Option<String>> = summaries.iter().map(cell).collect();
            let widest = cells.iter().flatten().map(String::len).max().unwrap_or(0);
            Column { name, unit, leaves: *leaves, width: widest.max(name.len()).max(unit.len()), cells }
        })
        .filter(|column| column.cells.iter().any(Option::is_some))
        .collect();
    let room = width.saturating_sub(names.clamp("contestant".len(), NAME));
    while columns.iter().map(|column| column.width + 2).sum::<usize>() > room {
        let Some(first) = columns.iter().map(|column| column.leaves).filter(|leaves| *leaves > 0).min() else { break };
        columns.retain(|column| column.leaves != first);
    }
    columns
}

/// The table, a line each, in this many columns of characters where its least columns have room there; `bold` makes the header bold by
/// terminal codes.
pub fn table(summaries: &[Summary], width: usize, bold: bool) -> String {
    let longest = summaries.iter().map(|summary| summary.contestant.chars().count()).max().unwrap_or(0);
    let columns = columns(summaries, longest, width);
    let taken: usize = columns.iter().map(|column| column.width + 2).sum();
    let first = longest.max("contestant".len()).min(width.saturating_sub(taken).max(12));
    let (on, off) = if bold { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let mut text = String::new();
    for head in [0, 1] {
        let mut line = format!("{:first$}", if head == 0 { "contestant" } else { "" });
        for Column { name, unit, width, .. } in &columns {
            let _ = write!(line, "  {:>width$}", if head == 0 { name } else { unit });
        }
        let _ = writeln!(text, "{on}{}{off}", line.trim_end());
    }
    for (row, summary) in summaries.iter().enumerate() {
        let mut line = format!("{:first$}", clipped(&summary.contestant, first));
        for Column { cells, width, .. } in &columns {
            let _ = write!(line, "  {:>width$}", cells[row].as_deref().unwrap_or("-"));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// How well the host kept time in the real world; empty for the simulator.
pub fn timekeeping<'a>(records: impl IntoIterator<Item = &'a Record>) -> String {
    let timed: Vec<(&Record, ReleaseError)> =
        records.into_iter().filter_map(|record| Some((record, record.release_error_us?))).collect();
    if timed.is_empty() {
        return String::new();
    }
    let worst = |figure: fn(&ReleaseError) -> f64| timed.iter().map(|(_, error)| figure(error)).fold(0.0, f64::max);
    let (p50, p99, max) = (worst(|e| e.p50), worst(|e| e.p99), worst(|e| e.max));
    let (p50, p99, max) = (plain(p50), plain(p99), plain(max));
    let mut text = format!("Packets were released late by p50 {p50}, p99 {p99}, at most {max} us in the worst run.\n");
    let doubtful: Vec<String> = timed
        .iter()
        .filter(|(record, _)| record.trusted == Some(false))
        .map(|(record, _)| format!("{} run {}", record.contestant(), record.run))
        .collect();
    if doubtful.is_empty() {
        let _ =
            writeln!(text, "Trusted: at most 1 % of packets later than 1 ms in every run, and none lost by the host.");
    } else {
        let (count, all) = (doubtful.len(), timed.len());
        let _ = write!(
            text,
            "NOT to be trusted: {count} of {all} runs (over 1 % of packets later than 1 ms, or lost by the host): "
        );
        text.push_str(&doubtful[..count.min(MOST_PAIRS)].join(", "));
        text.push_str(if count > MOST_PAIRS { ", and others.\n" } else { ".\n" });
    }
    text
}

/// What the numbers are, and between which contestants the runs show no difference.
pub fn reading<'a>(records: impl IntoIterator<Item = &'a Record> + Clone) -> String {
    let summaries = Summary::all(records.clone());
    let Variation { one_run, text: variation } = Variation::of(records.clone());
    if one_run {
        return variation + &nothing(records);
    }
    let fewest = summaries.iter().map(|summary| summary.runs).min().unwrap_or(0);
    if fewest < MIN_RUNS {
        let what = if fewest < 2 {
            "One run each".to_owned()
        } else {
            format!("Medians of {fewest} runs each (25 % to 75 % of them)")
        };
        return format!(
            "{what}: too few to tell a difference from chance; --runs {MIN_RUNS} gives 95 % intervals.
{variation}{}",
            nothing(records)
        );
    }
    let mut text = format!("Medians of {fewest} runs each (95 % confidence interval from order statistics).\n");
    text.push_str(&variation);
    for (name, _, figure) in figures(records.clone()) {
        let same: Vec<String> = pairs(records.clone(), figure)
            .into_iter()
            .filter(|pair| pair.verdict == Verdict::NoDifference)
            .map(|pair| format!("{} and {}", pair.first, pair.second))
            .collect();
        if same.is_empty() {
            continue;
        }
        let _ = write!(text, "No difference found in {name}: {}", same[..same.len().min(MOST_PAIRS)].join("; "));
        if same.len() > MOST_PAIRS {
            let _ = write!(text, "; and {} more", same.len() - MOST_PAIRS);
        }
        text.push_str(".\n");
    }
    text + &nothing(records)
}

/// Who got nothing through in some run: a path that is broken rather than slow.
fn nothing<'a>(records: impl IntoIterator<Item = &'a Record>) -> String {
    let mut names: Vec<String> = Vec::new();
    for record in records.into_iter().filter(|record| record.throughput_mbps == 0.0) {
        let name = record.contestant();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { String::new() } else { format!("Nothing got through: {}.\n", names.join(", ")) }
}

fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut clipped: String = text.chars().take(width.saturating_sub(1)).collect();
    clipped.push('…');
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Median;

    fn summary(name: &str, median: f64) -> Summary {
        let value = Median { median, q25: median * 0.98, q75: median * 1.02, interval: None };
        Summary {
            contestant: name.to_owned(),
            runs: 3,
            throughput_mbps: value,
            own_throughput_mbps: None,
            utilization: None,
            delay_p50_ms: Some(value),
            delay_p95_ms: Some(value),
            rtt_p50_ms: None,
            rtt_p95_ms: None,
            queue_p95_ms: Some(value),
            loss: Median { median: 0.0, q25: 0.0, q75: 0.0, interval: None },
            retransmits: Some(value),
            fct_p50_ms: None,
            jain: None,
            cpu: None,
            trusted: None,
        }
    }

    #[test]
    fn columns_align_under_their_headers() {
        let text = table(&[summary("cubic@tcp", 4.73), summary("copa:delta=0.1@alcc", 1234.5)], WIDTH, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].split("  ").filter(|part| !part.is_empty()).count(), 7);
        assert!(lines[0].ends_with("resent") || lines[0].ends_with(" resent"), "{text}");
        assert!(lines[1].ends_with("packets"), "{text}");
        let throughput = lines[0].find("throughput").unwrap() + "throughput".len();
        assert_eq!(&lines[2][throughput - 6..throughput], " 4.82)");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn a_wide_table_gives_up_columns_before_it_gives_up_names() {
        let mut wide = summary("copa:delta=0.1,mode=default@udp", 1234.5);
        for value in [&mut wide.fct_p50_ms, &mut wide.jain, &mut wide.own_throughput_mbps, &mut wide.utilization] {
            *value = Some(wide.throughput_mbps);
        }
        let text = table(&[wide], WIDTH, false);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("own") && !text.contains("resent"), "{text}");
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns() {
        let text = table(&[summary("sprout-ewma@udp", 1234.5), summary("cubic@tcp", 4.73)], 80, false);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("throughput") && text.contains("delay p95") && !text.contains("resent"), "{text}");
    }
}
