//! Plots that the page's script can draw again: a plot carries its rectangle and axes as attributes, each curve its numbers.
//!
//! The attributes, which `plot.js` reads: on `g.plot` `data-rect="x y w h"`, `data-x` and `data-y` (`low high lin|log fit`, and
//! `rev` where small values lie to the right), `data-columns` (names of both columns of numbers), `data-link` (plots with the same
//! word share the horizontal axis and the cursor), `data-ticks` (about how many of each) and `data-labels` (which axes have
//! numbers); on a curve `data-name`, `data-y` (numbers, `-` where one is missing) and `data-x` (`first step`, or as many numbers
//! as `data-y` where `data-points` says so). On `g.bars` `data-columns` (what the bars are of, then the columns of their parts),
//! `data-of` and `data-ticks`; on a bar `data-parts`.

use std::fmt::Write;

use super::svg::{Anchor, Rect, Scale, Svg, area, escape, n, short, trail};

/// How an axis follows what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// From zero to the largest value.
    Zero,
    /// From zero too, or from a round number below the smallest value where nothing is below half of the largest.
    Near,
    /// It stays.
    Fixed,
}

impl Fit {
    fn word(self) -> &'static str {
        match self {
            Fit::Zero => "zero",
            Fit::Near => "near",
            Fit::Fixed => "fixed",
        }
    }
}

/// Where the numbers of a curve lie.
#[derive(Clone, Copy, Debug)]
pub enum Places<'a> {
    /// The first one, then a step each.
    Steps(f64, f64),
    /// One by one.
    Points(&'a [f64]),
}

impl Places<'_> {
    /// Of the number with this index.
    pub fn at(&self, index: usize) -> f64 {
        match self {
            Places::Steps(first, step) => first + step * index as f64,
            Places::Points(all) => all.get(index).copied().unwrap_or(f64::NAN),
        }
    }

    fn attributes(&self) -> String {
        match self {
            Places::Steps(first, step) => format!(r#"data-x="{} {}""#, exact(*first), exact(*step)),
            Places::Points(all) => {
                let all: Vec<String> = all.iter().map(|x| exact(*x)).collect();
                format!(r#"data-points="" data-x="{}""#, all.join(" "))
            }
        }
    }
}

/// A number without a needless zero.
pub(crate) fn exact(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A band is at least so wide, in units of the picture (our choice: what can still be seen).
const LEAST_BAND: f64 = 1.2;

/// A rectangle with two axes.
#[derive(Clone, Copy, Debug)]
pub struct Plot<'a> {
    /// Where it lies in the picture.
    pub rect: Rect,
    /// The horizontal axis.
    pub x: Scale,
    /// The vertical axis.
    pub y: Scale,
    /// How they follow what is shown.
    pub fits: [Fit; 2],
    /// What the numbers are called in a table: of the horizontal axis, of the vertical one.
    pub columns: [&'a str; 2],
    /// Plots with the same word share the horizontal axis and the cursor.
    pub link: &'a str,
    /// About how many ticks each axis has.
    pub ticks: [usize; 2],
    /// Which axes have numbers.
    pub labels: [bool; 2],
}

impl Plot<'_> {
    /// Opens it and draws the axes.
    pub fn open(&self, svg: &mut Svg) {
        let p = self.rect;
        let axis = |scale: Scale, fit: Fit, reversed: bool| {
            let kind = if scale.is_log() { "log" } else { "lin" };
            let reversed = if reversed { " rev" } else { "" };
            format!("{} {} {kind} {}{reversed}", exact(scale.low()), exact(scale.high()), fit.word())
        };
        svg.raw(&format!(
            concat!(
                r#"<g class="plot" data-rect="{} {} {} {}" data-x="{}" data-y="{}" data-columns="{}" data-link="{}" "#,
                r#"data-ticks="{} {}" data-labels="{} {}"><g class="axes">"#
            ),
            n(p.x),
            n(p.y),
            n(p.w),
            n(p.h),
            axis(self.x, self.fits[0], self.x.at(self.x.high()) < self.x.at(self.x.low())),
            axis(self.y, self.fits[1], false),
            escape(&self.columns.join(" ")),
            escape(self.link),
            self.ticks[0],
            self.ticks[1],
            u8::from(self.labels[0]),
            u8::from(self.labels[1]),
        ));
        for tick in self.x.ticks(self.ticks[0]) {
            let x = self.x.at(tick);
            svg.line(x, p.y, x, p.bottom(), "grid");
            if self.labels[0] {
                // The last label stays inside, away from the next plot's first.
                let anchor = if x > p.right() - 8.0 { Anchor::End } else { Anchor::Middle };
                svg.text(x, p.bottom() + 15.0, anchor, "tick", &self.x.label(tick, self.ticks[0]));
            }
        }
        for tick in self.y.ticks(self.ticks[1]) {
            let y = self.y.at(tick);
            svg.line(p.x, y, p.right(), y, "grid");
            if self.labels[1] {
                let least = self.y.is_log() && tick <= self.y.low();
                let text = if least { format!("\u{2264}{}", short(tick)) } else { self.y.label(tick, self.ticks[1]) };
                svg.text(p.x - 6.0, y + 4.0, Anchor::End, "tick", &text);
            }
        }
        svg.rect(p, "frame");
        svg.raw("</g>");
    }

    /// A curve with its numbers; `name` is what the cursor calls it. Where `filled`, the area below it too.
    pub fn curve(
        &self,
        svg: &mut Svg,
        class: &str,
        name: &str,
        places: Places<'_>,
        numbers: &[Option<f64>],
        filled: bool,
    ) {
        let points = || numbers.iter().enumerate().map(|(i, y)| (self.x.at(places.at(i)), y.map(|y| self.y.at(y))));
        let line = if matches!(places, Places::Points(_)) { joined(points()) } else { trail(points()) };
        let mut values = String::with_capacity(numbers.len() * 5);
        for (index, value) in numbers.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            let text = value.filter(|v| v.is_finite()).map_or_else(|| "-".to_owned(), short);
            let _ = write!(values, "{gap}{text}");
        }
        svg.raw(&format!(
            r#"<path class="{class}" d="{line}" data-name="{}" {} data-y="{values}"/>"#,
            escape(name),
            places.attributes()
        ));
        if filled {
            // The script takes the numbers of the curve before it.
            svg.raw(&format!(r#"<path class="area" data-area="" d="{}"/>"#, area(points(), self.rect.bottom())));
        }
    }

    /// When something was so, as a band between two heights; what the cursor calls it is `name`. Short spans can be seen too.
    pub fn band(&self, svg: &mut Svg, class: &str, name: &str, (top, bottom): (f64, f64), spans: &[(f64, f64)]) {
        let d: String = spans
            .iter()
            .map(|(from, to)| {
                let from = self.x.at(*from);
                let to = self.x.at(*to).max(from + LEAST_BAND);
                format!("M{} {}H{}V{}H{}Z", n(from), n(top), n(to), n(bottom), n(from))
            })
            .collect();
        let numbers: Vec<String> = spans.iter().map(|(from, to)| format!("{from:.3} {to:.3}")).collect();
        svg.raw(&format!(
            r#"<path class="{class}" d="{d}" data-name="{}" data-band="{} {}" data-spans="{}"/>"#,
            escape(name),
            n(top),
            n(bottom),
            numbers.join(" ")
        ));
    }

    /// Closes it.
    pub fn close(&self, svg: &mut Svg) {
        svg.raw("</g>");
    }
}

/// A line through points as they come, not thinned: for few of them.
fn joined(points: impl Iterator<Item = (f64, Option<f64>)>) -> String {
    let mut d = String::new();
    let mut pen_down = false;
    for (x, y) in points {
        if let Some(y) = y {
            let _ = write!(d, "{}{} {}", if pen_down { " " } else { "M" }, n(x), n(y));
        }
        pen_down = y.is_some();
    }
    d
}

/// An axis that starts above zero spans at least this share of its largest value (our choice: differences of 1 or 2 % look small).
const LEAST_SPAN: f64 = 0.1;

/// A linear axis for values from `low` to `high`: from zero, or from a round number where nothing lies below half of the largest.
/// The script does the same.
pub(crate) fn near(low: f64, high: f64) -> (f64, f64) {
    let high = if high > 0.0 { high } else { 1.0 };
    if low < high / 2.0 || !low.is_finite() {
        return (0.0, high * 1.1);
    }
    let spread = (high - low).max(high * LEAST_SPAN);
    let step = super::svg::nice(spread / 4.0);
    let (middle, half) = (f64::midpoint(low, high), 0.65 * spread);
    (((middle - half) / step).floor().max(0.0) * step, middle + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_carries_its_axes_and_numbers() {
        let rect = Rect { x: 40.0, y: 10.0, w: 100.0, h: 50.0 };
        let plot = Plot {
            rect,
            x: Scale::linear(0.0, 2.0, rect.x, rect.right()),
            y: Scale::linear(0.0, 8.0, rect.bottom(), rect.y),
            fits: [Fit::Fixed, Fit::Zero],
            columns: ["t_s", "throughput_mbps"],
            link: "time",
            ticks: [4, 2],
            labels: [true, true],
        };
        let mut svg = Svg::default();
        plot.open(&mut svg);
        plot.curve(&mut svg, "line", "<a>", Places::Steps(0.5, 1.0), &[Some(4.0), None], true);
        plot.close(&mut svg);
        let svg = svg.inline(150.0, 80.0, "p");
        let start = r#"<g class="plot" data-rect="40 10 100 50" data-x="0 2 lin fixed" data-y="0 8 lin zero" "#;
        assert!(svg.contains(start), "{svg}");
        assert!(svg.contains(r#"data-name="&lt;a&gt;" data-x="0.5 1" data-y="4 -"/>"#), "{svg}");
        assert!(svg.contains("data-area"));
    }

    #[test]
    fn an_axis_shows_differences_where_there_is_nothing_else() {
        assert_eq!(near(1.0, 10.0), (0.0, 11.0));
        let (low, high) = near(9.0, 10.0);
        assert!(low > 8.0 && low < 9.0 && high > 10.0 && high < 10.5, "{low} to {high}");
        let (low, high) = near(99.0, 100.0);
        assert!(high - low >= 10.0 && high > 100.0, "1 % fills {low} to {high}");
        assert_eq!(near(f64::INFINITY, 0.0), (0.0, 1.1));
    }
}
