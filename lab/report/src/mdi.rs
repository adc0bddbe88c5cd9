//! The page of a model of transitions: its matrix as a picture, where it stays, what it answers, and how near it comes to its
//! original.

use std::fmt::Write as _;

use minijinja::context;
use minijinja::value::Serde;
use paceline_cc::mdi::Model;
use paceline_lab::mdi::against::Comparison;
use paceline_lab::mdi::analysis::{Analysis, answers};

use crate::svg::{Anchor, Rect, Scale, Svg, n, short};
use crate::{PageError, STYLE};

/// Width of a picture, in its own units.
const WIDTH: f64 = 1000.0;
/// Height of the picture of the stationary distribution and of the ellipses.
const HEIGHT: f64 = 320.0;
/// Room for labels.
const MARGIN: f64 = 60.0;
/// Darkness in this many steps: each is one path, however many cells it has.
const SHADES: usize = 6;

/// The page as HTML that opens offline. `against` is the original's name and the comparison.
///
/// # Errors
/// When the page cannot be put together.
pub fn page(
    name: &str,
    model: &Model,
    analysis: &Analysis,
    against: Option<(&str, &Comparison)>,
) -> Result<String, PageError> {
    let answers: Vec<(String, String)> = answers(model)
        .iter()
        .enumerate()
        .map(|(index, mean)| {
            let mean = mean.map_or_else(|| "\u{2013}".to_owned(), |mean| format!("{mean:.2}"));
            (short(model.grid().delays.value(index)), mean)
        })
        .collect();
    let times = analysis.mixing.map(|steps| steps.map_or_else(|| "never".to_owned(), |steps| steps.to_string()));
    Ok(crate::html(
        include_str!("mdi.html"),
        context! {
            version => env!("CARGO_PKG_VERSION"),
            style => STYLE,
            title => name,
            name => name,
            provenance => Serde(model.provenance()),
            states => model.grid().states(),
            empty => model.empty_states(),
            blocks => model.blocks(),
            filled => model.filled(),
            delay => format!("{:.2}", analysis.delay),
            window => format!("{:.2}", analysis.window),
            times => Serde(times),
            matrix => matrix(model),
            stationary => stationary(model, analysis),
            answers => Serde(answers),
            original => against.map(|(original, _)| original),
            throughput => against.map(|(_, c)| format!("{:.3}", c.throughput)),
            delays => against.map(|(_, c)| format!("{:.3}", c.delay)),
            bits => against.map(|(_, c)| format!("{:.3}", c.divergence)),
            traces => against.map(|(_, c)| c.pairs.len()),
            ellipses => against.map(|(original, c)| ellipses(original, c)),
        },
    )?)
}

/// Darker with the share, by its square root: small ones are to be seen.
fn shade(share: f64) -> usize {
    ((share.clamp(0.0, 1.0).sqrt() * SHADES as f64).ceil() as usize).clamp(1, SHADES) - 1
}

/// Cells of one size as few paths as there are shades.
fn cells(svg: &mut Svg, cells: impl Iterator<Item = (f64, f64, f64)>, size: (f64, f64)) {
    let mut paths = vec![String::new(); SHADES];
    for (x, y, share) in cells {
        let _ = write!(paths[shade(share)], "M{x:.2} {y:.2}h{:.2}v{:.2}h-{:.2}z", size.0, size.1, size.0);
    }
    for (index, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let opacity = (index + 1) as f64 / SHADES as f64;
        svg.raw(&format!("<path d=\"{path}\" fill=\"currentColor\" fill-opacity=\"{opacity:.2}\"/>"));
    }
}

fn matrix(model: &Model) -> String {
    let grid = model.grid();
    let (states, windows) = (grid.states(), grid.windows.count());
    let side = WIDTH - 2.0 * MARGIN;
    let cell = side / states as f64;
    let mut svg = Svg::default();
    let filled = (0..states).flat_map(|row| {
        (0..grid.delays.count()).flat_map(move |delay| {
            let at = move |window: u16| MARGIN + (delay * windows + usize::from(window)) as f64 * cell;
            let y = MARGIN / 2.0 + row as f64 * cell;
            model.block(row, delay).iter().map(move |(window, share)| (at(*window), y, *share))
        })
    });
    cells(&mut svg, filled, (cell, cell));
    for delay in 0..=grid.delays.count() {
        let at = delay as f64 * windows as f64 * cell;
        let (x, y) = (MARGIN + at, MARGIN / 2.0 + at);
        svg.line(x, MARGIN / 2.0, x, MARGIN / 2.0 + side, "grid");
        svg.line(MARGIN, y, MARGIN + side, y, "grid");
        if delay < grid.delays.count() {
            let middle = windows as f64 * cell / 2.0;
            let value = short(grid.delays.value(delay));
            svg.text(x + middle, MARGIN / 2.0 + side + 18.0, Anchor::Middle, "axis", &value);
            svg.text(MARGIN - 6.0, y + middle + 4.0, Anchor::End, "axis", &value);
        }
    }
    svg.inline(
        WIDTH,
        side + 1.2 * MARGIN,
        "The matrix: a row for each state, a block of columns for each next move of the delay",
    )
}

fn stationary(model: &Model, analysis: &Analysis) -> String {
    let grid = model.grid();
    let (windows, delays) = (grid.windows.count(), grid.delays.count());
    let size = ((WIDTH - 2.0 * MARGIN) / windows as f64, (HEIGHT - MARGIN) / delays as f64);
    let most = analysis.stationary.iter().fold(f64::MIN_POSITIVE, |most, share| share.max(most));
    let mut svg = Svg::default();
    let places = analysis.stationary.iter().enumerate().filter(|(_, share)| **share > 1e-6);
    let places = places.map(|(state, share)| {
        let (x, y) = ((state % windows) as f64, (delays - 1 - state / windows) as f64);
        (MARGIN + x * size.0, 10.0 + y * size.1, share / most)
    });
    cells(&mut svg, places, size);
    for window in (0..windows).step_by(windows.div_ceil(13)) {
        let x = MARGIN + (window as f64 + 0.5) * size.0;
        svg.text(x, HEIGHT - MARGIN + 28.0, Anchor::Middle, "axis", &short(grid.windows.value(window)));
    }
    for delay in 0..delays {
        let y = 14.0 + ((delays - 1 - delay) as f64 + 0.5) * size.1;
        svg.text(MARGIN - 6.0, y, Anchor::End, "axis", &short(grid.delays.value(delay)));
    }
    svg.inline(WIDTH, HEIGHT, "Share of time in each state: across the window's move, upwards the delay's")
}

/// Mean and covariance of points.
fn spread(points: &[(f64, f64)]) -> ((f64, f64), [f64; 3]) {
    let count = points.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>() / count;
    ((x, y), [sum(&|a, _| a * a), sum(&|a, b| a * b), sum(&|_, b| b * b)])
}

/// Delay across, share of the link upwards; each controller's traces as points, and the ellipse of one standard deviation.
fn ellipses(original: &str, comparison: &Comparison) -> String {
    let points = |of: &dyn Fn(usize) -> (f64, f64)| -> Vec<(f64, f64)> {
        let share = |index: usize| {
            let (mbps, delay) = of(index);
            (delay.max(0.1), mbps / comparison.pairs[index].link_mbps.max(1e-9))
        };
        (0..comparison.pairs.len()).map(share).collect()
    };
    let sets = [
        (original, points(&|index| comparison.pairs[index].original)),
        ("mdi", points(&|index| comparison.pairs[index].model)),
    ];
    let all = || sets.iter().flat_map(|(_, points)| points);
    let low = all().fold(f64::INFINITY, |low, point| low.min(point.0));
    let high = all().fold(1.0, |high: f64, point| high.max(point.0));
    let x = Scale::log(low.min(high) * 0.8, high * 1.25, MARGIN, WIDTH - 20.0);
    let y = Scale::linear(0.0, 1.05, HEIGHT - MARGIN / 1.5, 10.0);
    let mut svg = Svg::default();
    for tick in x.ticks(8) {
        svg.line(x.at(tick), 10.0, x.at(tick), HEIGHT - MARGIN / 1.5, "grid");
        svg.text(x.at(tick), HEIGHT - MARGIN / 1.5 + 18.0, Anchor::Middle, "axis", &format!("{} ms", short(tick)));
    }
    for tick in y.ticks(5) {
        svg.line(MARGIN, y.at(tick), WIDTH - 20.0, y.at(tick), "grid");
        svg.text(MARGIN - 6.0, y.at(tick) + 4.0, Anchor::End, "axis", &format!("{} %", short(tick * 100.0)));
    }
    for (index, (name, points)) in sets.iter().enumerate() {
        let drawn: Vec<(f64, f64)> = points.iter().map(|point| (x.at(point.0), y.at(point.1))).collect();
        let dash = if index == 0 { "" } else { " stroke-dasharray=\"6 4\"" };
        let fill = if index == 0 { "currentColor" } else { "none" };
        for (x, y) in &drawn {
            svg.raw(&format!(
                "<circle cx=\"{}\" cy=\"{}\" r=\"3.5\" stroke=\"currentColor\" fill=\"{fill}\"/>",
                n(*x),
                n(*y)
            ));
        }
        let ((cx, cy), [xx, xy, yy]) = spread(&drawn);
        let (half, root) = ((xx + yy) / 2.0, (((xx - yy) / 2.0).powi(2) + xy * xy).sqrt());
        let (long, wide) = ((half + root).max(0.0).sqrt(), (half - root).max(0.0).sqrt());
        let angle = 0.5 * (2.0 * xy).atan2(xx - yy).to_degrees();
        svg.raw(&format!(
            "<ellipse cx=\"{}\" cy=\"{}\" rx=\"{}\" ry=\"{}\" transform=\"rotate({} {} {})\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"{dash}/>",
            n(cx), n(cy), n(long), n(wide), n(angle), n(cx), n(cy)
        ));
        let row = Rect { x: MARGIN + 10.0, y: 30.0 + 22.0 * index as f64, w: 26.0, h: 0.0 };
        svg.raw(&format!(
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"currentColor\" stroke-width=\"2\"{dash}/>",
            n(row.x),
            n(row.y),
            n(row.right()),
            n(row.y)
        ));
        svg.text(row.right() + 8.0, row.y + 4.0, Anchor::Start, "axis", name);
    }
    svg.inline(
        WIDTH,
        HEIGHT,
        "Median delay and share of the link over each trace, with the ellipse of one standard deviation",
    )
}

#[cfg(test)]
mod tests {
    use paceline_cc::mdi::models::SHIPPED;
    use paceline_lab::mdi::against::Pair;

    use super::*;

    #[test]
    fn the_page_has_its_pictures_and_escapes_what_it_is_given() {
        let model = Model::read(SHIPPED[0].1).unwrap();
        let analysis = Analysis::of(&model);
        let pair = Pair { link_mbps: 12.0, original: (10.0, 100.0), model: (9.0, 120.0) };
        let other = Pair { link_mbps: 20.0, original: (19.0, 80.0), model: (18.0, 90.0) };
        let comparison = Comparison { pairs: vec![pair, other], throughput: 0.9, delay: 1.2, divergence: 0.1 };
        let page = page("<b>.csv", &model, &analysis, Some(("verus", &comparison))).unwrap();
        assert_eq!((page.matches("<svg").count(), page.matches("<ellipse").count()), (3, 2));
        assert!(page.contains("&lt;b&gt;.csv") && !page.contains("<b>.csv") && !page.contains("NaN"));
        let alone = super::page("verus", &model, &analysis, None).unwrap();
        assert_eq!(alone.matches("<svg").count(), 2);
    }
}
