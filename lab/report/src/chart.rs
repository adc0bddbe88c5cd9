//! A sheet of line charts: rows of panels that share the x axis, each row with a y axis of its own, and one legend above.

use std::borrow::Cow;

use super::plot::{Fit, Places, Plot};
use super::svg::{Anchor, Rect, Scale, Svg, n, short, text_width, trail};

/// From where to where an axis goes.
#[derive(Clone, Copy, Debug)]
pub struct PlotAxis {
    low: f64,
    high: f64,
    log: bool,
}

impl PlotAxis {
    /// From 0 to `high`.
    pub fn linear(high: f64) -> Self {
        Self { low: 0.0, high, log: false }
    }

    /// Equal steps for equal factors.
    pub fn log(low: f64, high: f64) -> Self {
        Self { low, high, log: true }
    }

    fn scale(self, from: f64, to: f64) -> Scale {
        if self.log { Scale::log(self.low, self.high, from, to) } else { Scale::linear(self.low, self.high, from, to) }
    }
}

/// CSS classes of colour and dash: by the name of a controller ([`super::palette::classes`]), or a place of the palette such as `c0`.
pub type Class = Cow<'static, str>;

/// A curve; where `y` is missing it breaks.
#[derive(Clone, Debug)]
pub struct PlotLine {
    /// CSS classes of colour and dash.
    pub class: Class,
    /// Points in the units of the axes.
    pub points: Vec<(f64, Option<f64>)>,
    /// With a dot at each point, for few points.
    pub dots: bool,
}

/// One chart.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Above it to the left.
    pub title: String,
    /// Above it to the right.
    pub note: String,
    /// What it shows.
    pub lines: Vec<PlotLine>,
}

/// Charts side by side.
#[derive(Clone, Debug)]
pub struct ChartRow {
    /// What stands beside the vertical axis, with its unit.
    pub y_title: &'static str,
    /// The vertical axis, of all its panels.
    pub y: PlotAxis,
    /// Height of a panel.
    pub height: f64,
    /// Side by side.
    pub panels: Vec<Panel>,
}

/// The whole sheet.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// For screen readers.
    pub label: String,
    /// What stands below the horizontal axis, with its unit.
    pub x_title: &'static str,
    /// The horizontal axis, of all panels.
    pub x: PlotAxis,
    /// One below the other.
    pub rows: Vec<ChartRow>,
    /// CSS classes and names.
    pub legend: Vec<(Class, String)>,
}

impl PlotLine {
    /// A curve through these points.
    pub fn new(class: impl Into<Class>, points: impl IntoIterator<Item = (f64, Option<f64>)>) -> Self {
        Self { class: class.into(), points: points.into_iter().collect(), dots: false }
    }

    /// With a dot at each point.
    pub fn dotted(class: impl Into<Class>, points: impl IntoIterator<Item = (f64, Option<f64>)>) -> Self {
        Self { dots: true, ..Self::new(class, points) }
    }
}

impl Panel {
    /// A chart with something above it to the left, and to the right.
    pub fn new(title: impl Into<String>, note: impl Into<String>, lines: Vec<PlotLine>) -> Self {
        Self { title: title.into(), note: note.into(), lines }
    }
}

impl ChartRow {
    /// A single chart without a title.
    pub fn single(y_title: &'static str, y: PlotAxis, height: f64, lines: Vec<PlotLine>) -> Self {
        Self { y_title, y, height, panels: vec![Panel { lines, ..Panel::default() }] }
    }
}

/// The largest value of curves, and `least` or more.
pub fn highest<'a>(lines: impl IntoIterator<Item = &'a PlotLine>, least: f64) -> f64 {
    lines.into_iter().flat_map(|line| &line.points).filter_map(|(_, y)| *y).fold(least, f64::max)
}

/// Where the longest of curves ends, and `least` or further.
pub fn end<'a>(lines: impl IntoIterator<Item = &'a PlotLine>, least: f64) -> f64 {
    lines.into_iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(least, f64::max)
}

impl Sheet {
    /// Charts over one horizontal axis, without a legend.
    pub fn new(label: impl Into<String>, (x_title, x): (&'static str, PlotAxis), rows: Vec<ChartRow>) -> Self {
        Self { label: label.into(), x_title, x, rows, legend: Vec::new() }
    }

    /// With a legend: CSS classes and names.
    #[must_use]
    pub fn legend(self, names: impl IntoIterator<Item = (impl Into<Class>, impl Into<String>)>) -> Self {
        Self { legend: names.into_iter().map(|(class, name)| (class.into(), name.into())).collect(), ..self }
    }
}

/// Width of a sheet on the page and in a file, where text must stay legible in a narrow column.
const PAGE: f64 = 1080.0;
const FILE: f64 = 900.0;
/// Room around the panels.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
const GAP: f64 = 18.0;
const HEAD: f64 = 22.0;
const LEGEND: f64 = 22.0;
const FOOT: f64 = 40.0;

impl Sheet {
    /// The picture for the page. Where the page has [`crate::SCRIPT`], its plots show values and can be zoomed.
    pub fn draw(&self) -> String {
        let (svg, height) = self.paint(PAGE, true);
        svg.inline(PAGE, height, &self.label)
    }

    /// The picture as a file of its own.
    pub fn file(&self) -> String {
        let (svg, height) = self.paint(FILE, false);
        svg.standalone(FILE, height, &self.label, crate::PICTURE_STYLE)
    }

    /// At this width, with the numbers in it or without; the answer has the height too.
    fn paint(&self, width: f64, live: bool) -> (Svg, f64) {
        let mut svg = Svg::default();
        let mut top = self.draw_legend(&mut svg, width);
        let columns = self.rows.iter().map(|row| row.panels.len()).max().unwrap_or(1).max(1);
        let w = (width - LEFT - RIGHT - GAP * (columns - 1) as f64) / columns as f64;
        for (index, row) in self.rows.iter().enumerate() {
            top += HEAD;
            for (column, panel) in row.panels.iter().enumerate() {
                let plot = Rect { x: LEFT + column as f64 * (w + GAP), y: top, w, h: row.height };
                let labelled = (column == 0, index + 1 == self.rows.len());
                if live {
                    self.draw_plot(&mut svg, row, panel, plot, labelled);
                } else {
                    self.draw_panel(&mut svg, row, panel, plot, labelled);
                }
            }
            svg.text_upwards(16.0, top + row.height / 2.0, "axis", row.y_title);
            top += row.height + 6.0;
        }
        svg.text(LEFT + (width - LEFT - RIGHT) / 2.0, top + 30.0, Anchor::Middle, "axis", self.x_title);
        (svg, top + FOOT)
    }

    /// Entries in lines; the answer is where it ends.
    fn draw_legend(&self, svg: &mut Svg, sheet: f64) -> f64 {
        let (mut x, mut y) = (LEFT, 14.0);
        for (class, name) in &self.legend {
            let width = 50.0 + text_width(name, 11.0);
            if x + width > sheet - RIGHT && x > LEFT {
                (x, y) = (LEFT, y + LEGEND);
            }
            svg.open(class, "");
            svg.line(x, y - 4.0, x + 24.0, y - 4.0, "line");
            svg.text(x + 30.0, y, Anchor::Start, "name", name);
            svg.close();
            x += width;
        }
        if self.legend.is_empty() { 0.0 } else { y + 6.0 }
    }

    /// A panel that carries its numbers.
    fn draw_plot(&self, svg: &mut Svg, row: &ChartRow, panel: &Panel, rect: Rect, (first, last): (bool, bool)) {
        let columns = [column(self.x_title), column(row.y_title)];
        let plot = Plot {
            rect,
            x: self.x.scale(rect.x, rect.right()),
            y: row.y.scale(rect.bottom(), rect.y),
            fits: [Fit::Fixed, Fit::Zero],
            columns: [&columns[0], &columns[1]],
            link: &self.label,
            ticks: [(rect.w / 55.0) as usize, ((rect.h / 26.0) as usize).max(2)],
            labels: [last, first],
        };
        plot.open(svg);
        for line in &panel.lines {
            let name = self.legend.iter().find(|(class, _)| *class == line.class).map_or("", |(_, name)| name);
            let (xs, ys) = thinned(&line.points, POINTS);
            svg.open(&line.class, "");
            plot.curve(svg, "line fine", name, Places::Points(&xs), &ys, false);
            if line.dots {
                for (px, py) in xs.iter().zip(&ys).filter_map(|(x, y)| Some((*x, (*y)?))) {
                    let (cx, cy) = (n(plot.x.at(px)), n(plot.y.at(py)));
                    svg.raw(&format!(r#"<circle class="dot" cx="{cx}" cy="{cy}" r="2.6"/>"#));
                }
            }
            svg.close();
        }
        plot.close(svg);
        svg.text(rect.x, rect.y - 6.0, Anchor::Start, "head", &panel.title);
        svg.text(rect.right(), rect.y - 6.0, Anchor::End, "tick", &panel.note);
    }

    fn draw_panel(&self, svg: &mut Svg, row: &ChartRow, panel: &Panel, plot: Rect, (first, last): (bool, bool)) {
        let (x, y) = (self.x.scale(plot.x, plot.right()), row.y.scale(plot.bottom(), plot.y));
        for tick in x.ticks((plot.w / 55.0) as usize) {
            svg.line(x.at(tick), plot.y, x.at(tick), plot.bottom(), "grid");
            if last {
                let anchor = if x.at(tick) > plot.right() - 8.0 { Anchor::End } else { Anchor::Middle };
                svg.text(x.at(tick), plot.bottom() + 15.0, anchor, "tick", &short(tick));
            }
        }
        for tick in y.ticks(((plot.h / 26.0) as usize).max(2)) {
            svg.line(plot.x, y.at(tick), plot.right(), y.at(tick), "grid");
            if first {
                svg.text(plot.x - 6.0, y.at(tick) + 4.0, Anchor::End, "tick", &short(tick));
            }
        }
        svg.rect(plot, "frame");
        for line in &panel.lines {
            let places = line.points.iter().map(|(px, py)| (x.at(*px), py.map(|py| y.at(py))));
            svg.open(&line.class, "");
            svg.path(&trail(places.clone()), "line fine");
            if line.dots {
                for (px, py) in places {
                    if let Some(py) = py {
                        svg.raw(&format!(r#"<circle class="dot" cx="{}" cy="{}" r="2.6"/>"#, n(px), n(py)));
                    }
                }
            }
            svg.close();
        }
        svg.text(plot.x, plot.y - 6.0, Anchor::Start, "head", &panel.title);
        svg.text(plot.right(), plot.y - 6.0, Anchor::End, "tick", &panel.note);
    }
}

/// At most about this many points of a line stand in a page (our choice: what a plot can show).
const POINTS: usize = 600;

/// The points by their coordinates, or the means of as many at a time as leave `most` of them.
pub fn thinned(points: &[(f64, Option<f64>)], most: usize) -> (Vec<f64>, Vec<Option<f64>>) {
    let join = points.len().div_ceil(most.max(1)).max(1);
    let mean = |part: &[(f64, Option<f64>)]| {
        let known: Vec<f64> = part.iter().filter_map(|(_, y)| *y).collect();
        let x = part.iter().map(|(x, _)| x).sum::<f64>() / part.len() as f64;
        (x, (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64))
    };
    points.chunks(join).map(mean).unzip()
}

/// What an axis is called in a table: `queueing delay, ms` as `queueing_delay_ms`, Mbit/s as in records.
fn column(title: &str) -> String {
    let title = title.replace("Mbit/s", "mbps");
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_curve_and_name_is_drawn() {
        let line = PlotLine { class: "c1 d0".into(), points: vec![(1.0, Some(2.0)), (10.0, Some(4.0))], dots: true };
        let panel = Panel { title: "left & right".to_owned(), note: "n".to_owned(), lines: vec![line] };
        let row = ChartRow { y_title: "y", y: PlotAxis::linear(5.0), height: 80.0, panels: vec![panel.clone(), panel] };
        let legend = vec![("c1 d0".into(), "one".to_owned())];
        let sheet =
            Sheet { label: "two".to_owned(), x_title: "x", x: PlotAxis::log(1.0, 10.0), rows: vec![row], legend };
        let svg = sheet.draw();
        assert!(sheet.file().contains("width=\"900\"") && sheet.file().matches("<circle").count() == 4);
        assert_eq!(svg.matches("left &amp; right").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(svg.matches("class=\"line fine\"").count(), 2);
        assert!(svg.contains(r#"data-name="one" data-points="" data-x="1 10" data-y="2 4""#), "{svg}");
        assert!(!sheet.file().contains("data-y"));
        assert_eq!(column("queueing delay, ms"), "queueing_delay_ms");
        assert_eq!(column("throughput, Mbit/s"), "throughput_mbps");
        assert_eq!(thinned(&vec![(1.0, Some(2.0)); 1300], POINTS).0.len(), 434);
        assert!(svg.contains(">one</text>") && !svg.contains("NaN"));
    }
}
