//! How numbers are written for people: in the terminal's table, in sentences and on pages.

use crate::stats::Median;

/// The median, and its interval; with fewer runs the quartiles.
pub fn spread(value: &Median) -> String {
    let (low, high) = value.interval.unwrap_or((value.q25, value.q75));
    let median = plain(value.median);
    let (low, high) = (plain(low), plain(high));
    if low == high { median } else { format!("{median} ({low} to {high})") }
}

/// Three digits, and all before the point.
pub fn plain(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A span of time as people say it.
pub fn span(ms: f64) -> String {
    if ms >= 1000.0 { format!("{} s", short(ms / 1000.0)) } else { format!("{} ms", short(ms)) }
}

/// A tick's or a table's number, as short as it stays exact to three figures.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if size >= 1e7 {
        let text = format!("{value:.2e}");
        return text.replace(".00e", "e").replace("0e", "e");
    }
    let decimals = match size {
        s if s >= 100.0 || s == 0.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        s => (2 - s.log10().floor() as i32).clamp(0, 9) as usize,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
