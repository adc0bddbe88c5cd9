//! Panels: small pictures of one width that a figure puts side by side, as many as fit.

use serde::Serialize;

use super::data::Contestant;
use super::steps::Shown;
use super::svg::{Rect, Svg};

/// Width of a panel in its own units: on the page and on a phone one is about a pixel.
pub(crate) const WIDTH: f64 = 360.0;
/// Width of a picture that has the page to itself.
pub(crate) const PAGE: f64 = 1080.0;
/// Height of most plots.
pub(crate) const HIGH: f64 = 110.0;
/// Room around a plot.
pub(crate) const LEFT: f64 = 42.0;
const RIGHT: f64 = 8.0;
const HEAD: f64 = 22.0;
const FOOT: f64 = 22.0;

/// One picture of a figure.
#[derive(Debug, Serialize)]
pub(crate) struct Panel {
    pub(crate) svg: String,
    /// Classes for the toggles.
    pub(crate) class: String,
    /// The run, where it shows one.
    pub(crate) run: Option<u32>,
    /// Another run is shown first.
    pub(crate) hidden: bool,
}

impl Panel {
    /// Of one run of a contestant, with a plot of this height.
    pub(crate) fn of(c: &Contestant<'_>, shown: &Shown<'_>, svg: &Svg, high: f64, label: &str) -> Self {
        let run = shown.record.run;
        let first = c.shown.first().map_or(run, |first| first.record.run);
        Self {
            svg: svg.inline(WIDTH, HEAD + high + FOOT, label),
            class: c.panel_class(),
            run: Some(run),
            hidden: run != first,
        }
    }

    /// Of no contestant in particular.
    pub(crate) fn plain(svg: String, class: &str) -> Self {
        Self { svg, class: class.to_owned(), run: None, hidden: false }
    }
}

/// Where the plot of a panel lies.
pub(crate) fn frame(high: f64) -> Rect {
    Rect { x: LEFT, y: HEAD, w: WIDTH - LEFT - RIGHT, h: high }
}
