//! Bars, a row for each contestant: where the delay came from in each direction, and what [`super::hops`] has of each hop.

use paceline_lab::record::{Parts, Split};

use super::data::{Contestant, Data};
use super::overview::LABEL;
use super::panel::{PAGE, Panel, WIDTH};
use super::plot::exact;
use super::svg::{Anchor, Rect, Scale, Svg, escape, n, nice, short, text_width};

/// Height of a row.
const ROW: f64 = 22.0;
/// Above and below the rows.
const HEAD: f64 = 28.0;
const FOOT: f64 = 44.0;
/// Least room between two numbers of the axis.
const TICK: f64 = 80.0;

fn total(parts: Parts) -> f64 {
    parts.propagation_ms + parts.queue_ms + parts.transmission_ms
}

fn down(split: &Split) -> Option<Parts> {
    split.down
}

fn up(split: &Split) -> Option<Parts> {
    split.up
}

/// What all contestants have in the upward direction, where a picture of it would show the same bar again and again: within 2 %
/// (our choice).
pub(crate) fn same_upwards(data: &Data<'_>) -> Option<f64> {
    let all: Option<Vec<f64>> = data.contestants.iter().map(|c| c.split().up.map(total)).collect();
    let all = all.filter(|all| all.len() > 1)?;
    let (least, most) = (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
    (most <= 1.02 * least).then_some(most)
}

/// Mean one-way delay of each direction by where it came from, as stacked bars: for a page, and for a phone.
pub(crate) fn delay_split(data: &Data<'_>) -> Vec<Panel> {
    let mut directions = vec![direction(data, down, "down: from the network to the user")];
    if same_upwards(data).is_none() && data.contestants.iter().any(|c| c.split().up.is_some()) {
        directions.push(direction(data, up, "up: from the user to the network"));
    }
    let both = |bars: &Bars<'_>| {
        let label = format!("Mean one-way delay, {}: propagation, queue and transmission", bars.title);
        [(PAGE, "wide"), (WIDTH, "narrow")].map(|(width, class)| Panel::plain(bars.draw(width, &label), class))
    };
    directions.iter().flat_map(both).collect()
}

/// Bars that share an axis, a row for each contestant.
pub(crate) struct Bars<'a> {
    /// Above them.
    pub(crate) title: String,
    /// Below them, with its unit.
    pub(crate) axis: &'static str,
    /// What they are of: the name of that column in a table of numbers, and what stands in it.
    pub(crate) of: (&'static str, String),
    /// Parts of a bar: columns of their numbers, and classes of their colours.
    pub(crate) parts: &'static [(&'static str, &'static str)],
    /// Sizes of the parts; nothing where there is nothing to show.
    pub(crate) rows: Vec<(&'a Contestant<'a>, Option<Vec<f64>>)>,
}

const DELAYS: [(&str, &str); 3] =
    [("propagation_ms", "propagation"), ("queue_ms", "queue"), ("transmission_ms", "transmission")];

fn direction<'a>(data: &'a Data<'_>, of: fn(&Split) -> Option<Parts>, title: &str) -> Bars<'a> {
    let parts = |p: Parts| vec![p.propagation_ms, p.queue_ms, p.transmission_ms];
    Bars {
        title: title.to_owned(),
        axis: "mean one-way delay, ms",
        of: ("direction", title.split(':').next().unwrap_or_default().to_owned()),
        parts: &DELAYS,
        rows: data.contestants.iter().map(|c| (c, of(&c.split()).map(parts))).collect(),
    }
}

impl Bars<'_> {
    /// A panel among others.
    pub(crate) fn panel(&self, label: &str) -> Panel {
        Panel::plain(self.draw(WIDTH, label), "")
    }

    /// The picture, in a line for screen readers.
    fn draw(&self, width: f64, label: &str) -> String {
        let rows = &self.rows;
        let left = rows.iter().map(|(c, _)| text_width(c.name(), LABEL)).fold(60.0, f64::max);
        let left = left.min(width / 2.0) + 10.0;
        let most = rows.iter().flat_map(|(_, parts)| parts).map(|parts| parts.iter().sum()).fold(0.0, f64::max);
        let right = width - 40.0;
        let want = (((right - left) / TICK) as usize).max(3);
        let step = nice(most.max(1e-3) / want as f64);
        let x = Scale::linear(0.0, (most / step).ceil().max(1.0) * step, left, right);
        let bottom = HEAD + rows.len() as f64 * ROW;
        let mut svg = Svg::default();
        svg.text(0.0, 14.0, Anchor::Start, "head", &self.title);
        let columns: Vec<&str> =
            std::iter::once(self.of.0).chain(self.parts.iter().map(|(column, _)| *column)).collect();
        svg.raw(&format!(
            r#"<g class="bars" data-rect="{} {} {} {}" data-columns="{}" data-of="{}" data-ticks="{want}"><g class="axes">"#,
            n(left),
            n(HEAD),
            n(right - left),
            n(ROW),
            columns.join(" "),
            escape(&self.of.1)
        ));
        for tick in x.ticks(want) {
            svg.line(x.at(tick), HEAD, x.at(tick), bottom, "grid");
            svg.text(x.at(tick), bottom + 15.0, Anchor::Middle, "tick", &short(tick));
        }
        svg.raw("</g>");
        for (index, (c, sizes)) in rows.iter().enumerate() {
            self.bar(&mut svg, x, (left, HEAD + index as f64 * ROW), c, sizes.as_deref());
        }
        svg.close();
        svg.raw(r#"<g class="foot">"#);
        svg.text(f64::midpoint(left, right), bottom + 32.0, Anchor::Middle, "axis", self.axis);
        svg.close();
        svg.inline(width, bottom + FOOT, label)
    }

    fn bar(&self, svg: &mut Svg, x: Scale, (left, y): (f64, f64), c: &Contestant<'_>, sizes: Option<&[f64]>) {
        let numbers: Vec<String> = sizes.unwrap_or_default().iter().map(|size| exact(*size)).collect();
        svg.raw(&format!(
            r#"<g class="{} bar" transform="translate(0 {})" data-name="{}" data-parts="{}">"#,
            c.class(),
            n(y),
            escape(c.name()),
            numbers.join(" ")
        ));
        svg.text(left - 8.0, 15.0, Anchor::End, "name", c.name());
        if let Some(sizes) = sizes {
            let mut at = 0.0;
            for ((_, class), size) in self.parts.iter().zip(sizes) {
                svg.rect(Rect { x: x.at(at), y: 3.0, w: x.at(at + size) - x.at(at), h: ROW - 6.0 }, class);
                at += size;
            }
            svg.text(x.at(at) + 6.0, 15.0, Anchor::Start, "tick", &short(at));
        } else {
            svg.text(left + 4.0, 15.0, Anchor::Start, "tick", "nothing travelled");
        }
        svg.close();
    }
}
