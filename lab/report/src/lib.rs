//! The report: one HTML file that opens offline, and its leading figure as an SVG file.
//!
//! Everything is drawn here, without scripts. The page's script draws plots again, from the numbers that each carries (`plot`):
//! values under the cursor, zoom, contestants that come and go.

#[macro_use]
pub mod palette;

mod bars;
mod base;
pub mod chart;
mod data;
mod figures;
mod hops;
mod labels;
pub mod logs;
pub mod mdi;
mod overview;
mod page;
mod panel;
pub mod plot;
mod reading;
mod steps;
pub mod svg;
#[cfg(feature = "parquet")]
pub mod sweep;
mod tables;
mod time;
mod variables;

use std::io::Write;
use std::path::{Path, PathBuf};

use data::Data;
use paceline_lab::record::{Record, Run};
use page::render;
use svg::{Anchor, Rect, Svg};

pub use base::html;

/// Name of the page in the report's folder.
pub const PAGE: &str = "report.html";

/// Name of the leading figure in the report's folder.
pub const FIGURE: &str = "race.svg";

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The folder cannot be made or written to.
    #[error("report folder {}: {source}; name a folder you can write to", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is nothing to show.
    #[error("there are no records to report; give files written by 'paceline race --json FILE'")]
    Empty,
    /// The page could not be put together.
    #[error("the report could not be rendered: {0}")]
    Render(#[from] minijinja::Error),
}

/// A race just run, as a report shows it.
#[derive(Clone, Copy, Debug)]
pub struct Raced<'a> {
    /// One line for people.
    pub title: &'a str,
    /// The scenario as written.
    pub written: &'a str,
    /// The scenario as raced.
    pub effective: &'a str,
    /// The command that gives the same report again.
    pub command: &'a str,
    /// Its runs, by contestant.
    pub runs: &'a [Run],
}

/// Writes the report of a race into a folder, made where it is missing, and gives the page's path.
///
/// Files are complete or absent: each is written under another name and renamed.
///
/// # Errors
/// [`PageError`] when the folder cannot be written to or the race has no runs.
pub fn write(race: Raced<'_>, folder: &Path) -> Result<PathBuf, PageError> {
    let data = Data::of_race(race);
    let page = render(&[&data])?;
    store(folder, FIGURE, &leading_figure(&data))?;
    store(folder, PAGE, &page)
}

/// As [`write()`] from records alone: the page says which figures need the race to be run again.
///
/// # Errors
/// As [`write()`].
pub fn write_records(records: &[Record], folder: &Path) -> Result<PathBuf, PageError> {
    let sections = Data::of_records(records);
    let page = render(&sections.iter().collect::<Vec<_>>())?;
    if let Some(first) = sections.first() {
        store(folder, FIGURE, &leading_figure(first))?;
    }
    store(folder, PAGE, &page)
}

/// The page of [`write()`] as a text.
///
/// # Errors
/// [`PageError`] when the race has no runs.
pub fn page(race: Raced<'_>) -> Result<String, PageError> {
    render(&[&Data::of_race(race)])
}

/// Writes a file into a folder, made where it is missing.
pub fn store(folder: &Path, name: &str, text: &str) -> Result<PathBuf, PageError> {
    let path = folder.join(name);
    let bad = |source| PageError::Folder { folder: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(bad)?;
    paceline_files::write_regular(&path, |draft| draft.write_all(text.as_bytes()))
        .map_err(|error| bad(error.source))?;
    Ok(path)
}

/// The style of every page.
pub const STYLE: &str = concat!(palette_style!(), include_str!("report.css"), include_str!("page.css"));

/// The style of a picture in a file of its own.
pub(crate) const PICTURE_STYLE: &str = concat!(palette_style!(), include_str!("report.css"));

/// What makes plots of a page answer: values under the cursor, zoom, switches, downloads. It asks for nothing but the page itself.
pub const SCRIPT: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("script/scale.js"),
    include_str!("script/plot.js"),
    include_str!("script/labels.js"),
    include_str!("script/view.js"),
    include_str!("script/cursor.js"),
    include_str!("script/tools.js"),
    include_str!("script/export.js"),
    include_str!("script/start.js"),
    "})();\n"
);

/// Throughput against delay beside the time series of up to three contestants along that trade-off.
fn leading_figure(data: &Data<'_>) -> String {
    let label = format!("{}: throughput against delay", data.title);
    let mut svg = Svg::default();
    let mut by_delay: Vec<(usize, f64)> = data
        .contestants
        .iter()
        .enumerate()
        .filter(|(_, c)| !c.shown.is_empty())
        .filter_map(|(i, c)| c.delay_p95_ms().map(|d| (i, d.median)))
        .collect();
    by_delay.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut chosen: Vec<usize> = match by_delay.as_slice() {
        [] => Vec::new(),
        all => [all[0], all[(all.len() - 1) / 2], all[all.len() - 1]].map(|(i, _)| i).to_vec(),
    };
    chosen.sort_unstable();
    chosen.dedup();
    let width = if chosen.is_empty() { 640.0 } else { 1280.0 };
    svg.text(20.0, 26.0, Anchor::Start, "head", &data.title);
    let more = overview::trade_off(&mut svg, data, Rect { x: 70.0, y: 44.0, w: 550.0, h: 430.0 });
    if !chosen.is_empty() {
        time::pair(&mut svg, data, &chosen, Rect { x: 690.0, y: 60.0, w: 570.0, h: 414.0 });
    }
    svg.standalone(width, 524.0 + more, &label, PICTURE_STYLE)
}

#[cfg(test)]
#[path = "script/tests.rs"]
mod script_tests;
#[cfg(test)]
mod tests;
