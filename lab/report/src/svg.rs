//! A little SVG: numbers, escaped text, scales with ticks, lines through many points.

use std::fmt::Write;

pub use paceline_lab::numbers::short;

/// A number for an attribute: one decimal, no trailing zero, never `NaN` or `-0`.
pub fn n(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Escapes text for SVG and HTML, in content and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A rectangle in the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Left edge, in the picture's units.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
}

impl Rect {
    /// Right edge.
    pub fn right(self) -> f64 {
        self.x + self.w
    }

    /// Lower edge.
    pub fn bottom(self) -> f64 {
        self.y + self.h
    }

    /// Area shared with `other`.
    pub fn overlap(self, other: Rect) -> f64 {
        let w = self.right().min(other.right()) - self.x.max(other.x);
        let h = self.bottom().min(other.bottom()) - self.y.max(other.y);
        w.max(0.0) * h.max(0.0)
    }
}

/// Horizontal anchor of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// Width of a bold text in pixels at a font size, on the wide side of common fonts, to keep labels apart.
pub fn text_width(text: &str, size: f64) -> f64 {
    let width = |letter: char| match letter {
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.04,
        'f' | 'i' | 'j' | 'l' | 'r' | 't' | 'I' | ' ' | '-' | '.' | ',' | ':' | '/' => 0.5,
        _ => 0.72,
    };
    size * text.chars().map(width).sum::<f64>()
}

/// A picture under construction.
#[derive(Debug, Default)]
pub struct Svg {
    body: String,
}

impl Svg {
    /// Appends markup as it is.
    pub fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
    }

    /// A text; `class` is a CSS class (`tick`, `axis`, `name`, ...).
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let _ = write!(
            self.body,
            r#"<text x="{}" y="{}" text-anchor="{}" class="{class}">{}</text>"#,
            n(x),
            n(y),
            anchor.name(),
            escape(text)
        );
    }

    /// A text that reads upwards, centred on a point.
    pub fn text_upwards(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let _ = write!(
            self.body,
            r#"<text transform="translate({} {})rotate(-90)" text-anchor="middle" class="{class}">{}</text>"#,
            n(x),
            n(y),
            escape(text)
        );
    }

    /// A straight line.
    pub fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, class: &str) {
        let _ = write!(self.body, r#"<path class="{class}" d="M{} {}L{} {}"/>"#, n(x1), n(y1), n(x2), n(y2));
    }

    /// A rectangle.
    pub fn rect(&mut self, r: Rect, class: &str) {
        let _ = write!(
            self.body,
            r#"<rect x="{}" y="{}" width="{}" height="{}" class="{class}"/>"#,
            n(r.x),
            n(r.y),
            n(r.w),
            n(r.h)
        );
    }

    /// A path from its data.
    pub fn path(&mut self, d: &str, class: &str) {
        if !d.is_empty() {
            let _ = write!(self.body, r#"<path class="{class}" d="{d}"/>"#);
        }
    }

    /// Opens a group; `title` shows as a tool tip.
    pub fn open(&mut self, class: &str, title: &str) {
        let _ = write!(self.body, r#"<g class="{class}">"#);
        if !title.is_empty() {
            let _ = write!(self.body, "<title>{}</title>", escape(title));
        }
    }

    /// Closes the group opened last.
    pub fn close(&mut self) {
        self.body.push_str("</g>");
    }

    /// The picture for a page that brings the style; `label` is read aloud in its place.
    pub fn inline(&self, width: f64, height: f64, label: &str) -> String {
        format!(
            r#"<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>"#,
            n(width),
            n(height),
            escape(label),
            self.body
        )
    }

    /// The picture as a file of its own.
    pub fn standalone(&self, width: f64, height: f64, label: &str, style: &str) -> String {
        format!(
            concat!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" "#,
                r#"role="img" aria-label="{label}"><style>{style}</style>"#,
                r#"<rect class="paper" width="{w}" height="{h}"/>{body}</svg>"#,
                "\n"
            ),
            w = n(width),
            h = n(height),
            label = escape(label),
            style = style,
            body = self.body
        )
    }
}

/// How numbers become places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// `low` lies at `from`, `high` at `to`.
    pub fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { log: false, low, high, from, to }
    }

    /// As [`Scale::linear`] with equal steps for equal factors; values below `low` lie at `from`.
    pub fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.max(1e-9);
        let high = if high > low { high } else { low * 10.0 };
        Self { log: true, low, high, from, to }
    }

    /// Logarithmic from a little below `low` to a little above `high`. The script does the same.
    pub fn log_around(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.max(1e-3);
        let high = high.max(low);
        let margin = (high / low).powf(0.03).max(1.05);
        Self::log(low / margin, high * margin, from, to)
    }

    /// The same scale over other places.
    pub fn over(self, from: f64, to: f64) -> Self {
        Self { from, to, ..self }
    }

    /// Whether it is logarithmic.
    pub fn is_log(self) -> bool {
        self.log
    }

    /// Its lower end.
    pub fn low(self) -> f64 {
        self.low
    }

    /// Its upper end.
    pub fn high(self) -> f64 {
        self.high
    }

    /// Where a value lies.
    pub fn at(self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round values to label, about `want` of them.
    pub fn ticks(self, want: usize) -> Vec<f64> {
        if self.has_log_ticks() {
            return self.log_ticks(want);
        }
        let step = nice((self.high - self.low) / want.max(1) as f64);
        let first = (self.low / step - 1e-9).ceil() as i64;
        (first..).map(|i| i as f64 * step).take_while(|v| *v <= self.high * (1.0 + 1e-9)).collect()
    }

    /// A tick's number, with as many digits as distinguish it from the next one.
    pub fn label(self, tick: f64, want: usize) -> String {
        let step = nice((self.high - self.low) / want.max(1) as f64);
        if self.has_log_ticks() || step >= 1.0 || tick == 0.0 {
            return short(tick);
        }
        let decimals = (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
        let text = format!("{tick:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }

    /// Over less than a factor of 4 there may be no 1, 2 or 5 to label.
    fn has_log_ticks(self) -> bool {
        self.log && self.high > 4.0 * self.low
    }

    fn log_ticks(self, want: usize) -> Vec<f64> {
        let pick = |multiples: &[f64]| -> Vec<f64> {
            let mut ticks = Vec::new();
            let mut ten = decade(self.low);
            while ten <= self.high {
                ticks.extend(
                    multiples
                        .iter()
                        .map(|m| m * ten)
                        .filter(|v| (self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9)).contains(v)),
                );
                ten *= 10.0;
            }
            ticks
        };
        let (fine, middle) = (pick(&[1.0, 2.0, 5.0]), pick(&[1.0, 3.0]));
        match want {
            want if fine.len() <= want => fine,
            want if middle.len() <= want && middle.len() > 1 => middle,
            _ => pick(&[1.0]),
        }
    }
}

/// The power of ten at or below a positive value.
fn decade(value: f64) -> f64 {
    10f64.powi(value.log10().floor() as i32)
}

/// The nearest of 1, 2, 5 x 10^k at or above a positive value.
pub fn nice(value: f64) -> f64 {
    let ten = decade(value.max(1e-12));
    [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * ten).find(|v| *v >= value * (1.0 - 1e-9)).unwrap_or(ten * 10.0)
}

/// The data of a path through `(x, y)` places where `y` may be missing, thinned to the smallest and largest `y` of
/// each pixel column. A column without any point breaks the line.
pub fn trail(points: impl Iterator<Item = (f64, Option<f64>)>) -> String {
    let mut d = String::new();
    let mut pen_down = false;
    for column in Columns::new(points) {
        match column {
            Some((x, [first, second])) => {
                let _ = write!(d, "{}{} {}", if pen_down { " " } else { "M" }, n(x), n(first));
                if n(first) != n(second) {
                    let _ = write!(d, " {} {}", n(x), n(second));
                }
                pen_down = true;
            }
            None => pen_down = false,
        }
    }
    d
}

/// As [`trail`], closed along `base`: the area under the points. A missing `y` counts as `base`.
pub fn area(points: impl Iterator<Item = (f64, Option<f64>)>, base: f64) -> String {
    let mut ends: Option<(f64, f64)> = None;
    let line = trail(points.map(|(x, y)| {
        ends = Some((ends.map_or(x, |(first, _)| first), x));
        (x, Some(y.unwrap_or(base)))
    }));
    match ends {
        Some((first, last)) => format!("{line} {} {base} {} {base}Z", n(last), n(first), base = n(base)),
        None => String::new(),
    }
}

/// Groups points by pixel column: the smallest and largest `y`, in the order in which they came.
struct Columns<I> {
    points: I,
    open: Option<(f64, Option<Extremes>)>,
}

/// Smallest and largest `y` with the number of the point that held it.
struct Extremes {
    low: (usize, f64),
    high: (usize, f64),
    seen: usize,
}

impl<I: Iterator<Item = (f64, Option<f64>)>> Columns<I> {
    fn new(points: I) -> Self {
        Self { points, open: None }
    }
}

impl<I: Iterator<Item = (f64, Option<f64>)>> Iterator for Columns<I> {
    type Item = Option<(f64, [f64; 2])>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((x, y)) = self.points.next() else {
                return self.open.take().map(finish);
            };
            let column = x.floor();
            let done = match &self.open {
                Some((open, _)) if *open == column => None,
                _ => self.open.replace((column, None)).map(finish),
            };
            if let (Some((_, extremes)), Some(y)) = (&mut self.open, y) {
                let extremes = extremes.get_or_insert(Extremes { low: (0, y), high: (0, y), seen: 0 });
                extremes.seen += 1;
                if y < extremes.low.1 {
                    extremes.low = (extremes.seen, y);
                }
                if y > extremes.high.1 {
                    extremes.high = (extremes.seen, y);
                }
            }
            if done.is_some() {
                return done;
            }
        }
    }
}

fn finish((x, extremes): (f64, Option<Extremes>)) -> Option<(f64, [f64; 2])> {
    extremes.map(|e| (x, if e.low.0 <= e.high.0 { [e.low.1, e.high.1] } else { [e.high.1, e.low.1] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_finite() {
        assert_eq!([n(1.0), n(-0.01), n(2.25), n(f64::NAN)], ["1", "0", "2.2", "0"]);
        assert_eq!(
            [short(0.0), short(1234.4), short(12.34), short(0.01234), short(2.0)],
            ["0", "1234", "12.3", "0.0123", "2"]
        );
        assert_eq!(short(2.5e9), "2.5e9");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::linear(0.0, 11.3, 0.0, 1.0).ticks(5), [0.0, 5.0, 10.0]);
        let narrow = Scale::linear(21.6, 22.03, 0.0, 1.0);
        let labels: Vec<String> = narrow.ticks(5).into_iter().map(|tick| narrow.label(tick, 5)).collect();
        assert_eq!(labels, ["21.6", "21.7", "21.8", "21.9", "22"]);
        assert_eq!(Scale::linear(21.6, 22.03, 0.0, 1.0).label(21.65, 11), "21.65");
        assert_eq!(Scale::log(10.0, 1000.0, 0.0, 1.0).ticks(3), [10.0, 100.0, 1000.0]);
        assert_eq!(Scale::log(10.0, 100.0, 0.0, 1.0).ticks(6), [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(Scale::log_around(21.0, 150.0, 0.0, 1.0).ticks(6), [20.0, 50.0, 100.0]);
        assert_eq!(Scale::log_around(22.0, 40.0, 0.0, 1.0).ticks(4), [30.0, 40.0]);
    }

    #[test]
    fn wide_letters_have_room() {
        // As DejaVu Sans Bold has it.
        assert!(text_width("sprout-ewma@udp", 12.0) >= 126.7);
    }

    #[test]
    fn a_reversed_log_scale_puts_small_values_to_the_right() {
        let scale = Scale::log(10.0, 1000.0, 200.0, 0.0).over(0.0, 200.0).over(200.0, 0.0);
        assert_eq!([scale.at(10.0), scale.at(100.0), scale.at(1000.0), scale.at(0.0)], [200.0, 100.0, 0.0, 200.0]);
    }

    #[test]
    fn thinning_keeps_extremes_in_order_and_breaks_at_gaps() {
        let points = [(0.1, Some(5.0)), (0.5, Some(1.0)), (0.9, Some(3.0)), (1.2, None), (2.0, Some(4.0))];
        assert_eq!(trail(points.into_iter()), "M0 5 0 1M2 4");
        assert_eq!(area([(0.0, Some(1.0)), (1.0, None)].into_iter(), 9.0), "M0 1 1 9 1 9 0 9Z");
    }

    #[test]
    fn text_is_escaped() {
        let mut svg = Svg::default();
        svg.text(0.0, 0.0, Anchor::Start, "name", "<a&\"'>");
        assert!(svg.inline(1.0, 1.0, "\"x\"").contains("&lt;a&amp;&quot;&#39;&gt;"));
        assert!(svg.inline(1.0, 1.0, "\"x\"").contains("&quot;x&quot;"));
    }
}
