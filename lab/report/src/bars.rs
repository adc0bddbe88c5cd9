//! Where the delay came from: a bar for each contestant and direction.

use paceline_lab::record::{Parts, Split};

use super::data::{Contestant, Data};
use super::overview::LABEL;
use super::panel::{Panel, WIDTH};
use super::plot::exact;
use super::svg::{Anchor, Rect, Scale, Svg, escape, n, nice, short, text_width};

/// Height of a row.
const ROW: f64 = 22.0;
/// Above and below the rows.
const HEAD: f64 = 28.0;
const FOOT: f64 = 44.0;

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

/// Mean one-way delay of each direction by where it came from, as stacked bars.
pub(crate) fn delay_split(data: &Data<'_>) -> Vec<Panel> {
    let mut panels = vec![direction(data, down, "down: from the network to the user")];
    if same_upwards(data).is_none() && data.contestants.iter().any(|c| c.split().up.is_some()) {
        panels.push(direction(data, up, "up: from the user to the network"));
    }
    panels
}

fn direction(data: &Data<'_>, of: fn(&Split) -> Option<Parts>, title: &str) -> Panel {
    let rows: Vec<(&Contestant<'_>, Option<Parts>)> = data.contestants.iter().map(|c| (c, of(&c.split()))).collect();
    let left = rows.iter().map(|(c, _)| text_width(c.name(), LABEL)).fold(60.0, f64::max).min(170.0) + 10.0;
    let most = rows.iter().filter_map(|(_, parts)| parts.map(total)).fold(0.0, f64::max);
    let step = nice(most.max(1e-3) / 3.0);
    let right = WIDTH - 40.0;
    let x = Scale::linear(0.0, (most / step).ceil() * step, left, right);
    let bottom = HEAD + rows.len() as f64 * ROW;
    let mut svg = Svg::default();
    svg.text(0.0, 14.0, Anchor::Start, "head", title);
    svg.raw(&format!(
        r#"<g class="bars" data-rect="{} {} {} {}" data-most="{}"><g class="axes">"#,
        n(left),
        n(HEAD),
        n(right - left),
        n(ROW),
        exact(x.ticks(1).last().copied().unwrap_or(0.0).max((most / step).ceil() * step))
    ));
    for tick in x.ticks(3) {
        svg.line(x.at(tick), HEAD, x.at(tick), bottom, "grid");
        svg.text(x.at(tick), bottom + 15.0, Anchor::Middle, "tick", &short(tick));
    }
    svg.raw("</g>");
    for (index, (c, parts)) in rows.iter().enumerate() {
        let y = HEAD + index as f64 * ROW;
        let numbers =
            parts.map_or_else(String::new, |p| [p.propagation_ms, p.queue_ms, p.transmission_ms].map(exact).join(" "));
        svg.raw(&format!(
            r#"<g class="{} bar" transform="translate(0 {})" data-name="{}" data-parts="{numbers}">"#,
            c.class(),
            n(y),
            escape(c.name())
        ));
        svg.text(left - 8.0, 15.0, Anchor::End, "name", c.name());
        let Some(p) = parts else {
            svg.text(left + 4.0, 15.0, Anchor::Start, "tick", "nothing travelled");
            svg.close();
            continue;
        };
        let mut at = 0.0;
        for (ms, class) in
            [(p.propagation_ms, "propagation"), (p.queue_ms, "queue"), (p.transmission_ms, "transmission")]
        {
            svg.open("", &format!("{}: {class} {} ms", c.name(), short(ms)));
            svg.rect(Rect { x: x.at(at), y: 3.0, w: x.at(at + ms) - x.at(at), h: ROW - 6.0 }, class);
            svg.close();
            at += ms;
        }
        svg.text(x.at(at) + 6.0, 15.0, Anchor::Start, "tick", &short(at));
        svg.close();
    }
    svg.close();
    svg.raw(r#"<g class="foot">"#);
    svg.text(f64::midpoint(left, right), bottom + 32.0, Anchor::Middle, "axis", "mean one-way delay, ms");
    svg.close();
    let label = format!("Mean one-way delay, {title}: propagation, queue and transmission");
    Panel::plain(svg.inline(WIDTH, bottom + FOOT, &label), "")
}
