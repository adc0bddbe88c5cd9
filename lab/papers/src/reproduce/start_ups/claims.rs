//! What drafts and papers claim of start-ups, and what is asked of all of them.

use super::alone::{Downloads, Place, Started, size, time};
use super::measure::Starts;
use super::{START_UPS, StartUp};
use crate::reproduce::Place as Grid;
use crate::reproduce::prelude::*;

/// How far from a claim's figure, or from the best of all, is near enough (our choice).
pub(super) const NEAR: f64 = 0.25;
/// A queue that is longer by this is not longer: ms, the resolution of a series.
const SAME_MS: f64 = 1.0;

/// The place of a start-up that a claim is about.
///
/// # Panics
/// Where [`START_UPS`] has none of this name: a mistake that any run finds.
pub(super) fn place(name: &str) -> usize {
    StartUp::place(name).expect("claims are about start-ups of the table")
}

/// Claim 1.
pub(super) fn exit_between(started: &[Started]) -> Claim {
    let who = place("search");
    let cell = |one: &Started| {
        let runs = &one.of[who].runs;
        let between = runs
            .iter()
            .filter(|run| !run.by_loss() && run.t80.zip(run.end).is_some_and(|(reached, end)| reached <= end.at));
        let (count, lost) = (between.count(), runs.iter().filter(|run| run.by_loss()).count());
        let ours = format!("{count} of {} runs, {lost} by loss", runs.len());
        one.cell(who, ours, 2 * count > runs.len())
    };
    Claim::new(
        "1: SEARCH leaves after it has the capacity and before a loss (in most runs)",
        contestant(started, who),
        "draft-chung-ccwg-search section 5, on GEO, LEO and LTE links",
    )
    .got_each(started.iter().map(cell).collect())
}

/// Claim 2.
pub(super) fn exit_two_rounds_late(started: &[Started]) -> Claim {
    let who = place("search, no drain");
    let cell = |one: &Started| {
        let starts = &one.of[who];
        let late = |starts: &Starts| {
            let late = |run: &super::measure::Start| Some((run.end?.at - run.t80?) / starts.rtt);
            median(&starts.runs.iter().filter_map(late).collect::<Vec<_>>())
        };
        let (ours, holds) = match (starts.by_loss() > 0.5, starts.t80().is_finite()) {
            (true, _) => ("a loss comes first".to_owned(), false),
            (false, false) => ("it never has the capacity".to_owned(), false),
            (false, true) => {
                let late = late(starts);
                (format!("{} RTT", short(late)), (late - 2.0).abs() <= NEAR * 2.0)
            }
        };
        one.cell(who, ours, holds)
    };
    let cells: Vec<Cell> = started.iter().map(cell).collect();
    Claim::new(
        "2: SEARCH leaves about 2 RTT after it has the capacity, within 25 %",
        contestant(started, who),
        "draft-chung-ccwg-search section 3",
    )
    .got(counts(&cells), cells)
    .note("the RTT shows 1.66 BDP of queue when it decides, and about 4 wait by then: a shorter queue loses first")
}

/// Claim 3.
pub(super) fn geo_sooner(places: &[Place], loaded: &[Downloads]) -> Claim {
    let (search, hystart) = (place("search"), place("hystart"));
    let long = loaded.iter().filter(|one| one.bytes >= 1_000_000);
    let gain = |one: &Downloads| 100.0 * (1.0 - one.median(search) / one.median(hystart));
    let gains: Vec<(&Downloads, f64)> = long.map(|one| (one, gain(one))).collect();
    let cell = |(one, gain): &(&Downloads, f64)| {
        let name = format!("{}, {}", places[one.place].name, size(one.bytes));
        let ours = format!("{:+.0} %: {}, HyStart {}", -gain, time(one.median(search)), time(one.median(hystart)));
        one.setups[search].cell(name, ours, *gain > 0.0)
    };
    let mut cells: Vec<Cell> = gains.iter().map(cell).collect();
    if let Some((one, gain)) = gains.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        let ours = format!("by {gain:.0} % where it is most");
        cells.push(one.setups[search].cell("up to 14 %", ours, (gain - 14.0).abs() <= NEAR * 14.0));
    }
    Claim::new(
        "3: downloads of 1 MB and more over GEO end sooner with SEARCH than with HyStart, by up to 14 %",
        "cubic:start=search@tcp",
        "Chung et al., LANMAN 2024 and KCL 2024, over QUIC: the median up to 3 s (14 %) faster",
    )
    .got_each(cells)
}

/// Claim 4.
pub(super) fn too_early(started: &[Started]) -> [Claim; 2] {
    ["hystart", "hystart++"].map(|name| {
        let who = place(name);
        let cell = |one: &Started| {
            let starts = &one.of[who];
            let ours = format!("at {} BDP, {:.0} % by loss", short(starts.window()), 100.0 * starts.by_loss());
            one.cell(who, ours, starts.window() < 1.0 && starts.by_loss() <= 0.5)
        };
        Claim::new(
            format!("4: {name} leaves below the capacity on wireless links"),
            contestant(started, who),
            "draft-chung-ccwg-search section 1",
        )
        .got_each(started.iter().map(cell).collect())
    })
}

/// Claims 7 to 9, where a drop-tail queue is known: what the path holds is a product and the queue.
pub(super) fn rapid(started: &[Started]) -> [Claim; 3] {
    /// CUBIC's share of a window after a loss.
    const BETA: f64 = 0.7;
    let (rapid, slow) = (place("rapid"), place("slow"));
    let claim = |text: &str, section: &str, judge: &dyn Fn(&Started, f64) -> (String, bool)| {
        let known = started.iter().filter_map(|one| Some((one, 1.0 + one.place.queue?)));
        let cell = |(one, held): (&Started, f64)| {
            let (ours, holds) = judge(one, held);
            one.cell(rapid, ours, holds)
        };
        let cells: Vec<Cell> = known.map(cell).collect();
        let source = format!("draft-kazuho-ccwg-rapid-start section {section}");
        Claim::new(text, contestant(started, rapid), &source).got(counts(&cells), cells)
    };
    let near = |own: f64, value: f64| (own / value - 1.0).abs() <= NEAR;
    [
        claim(
            "7: after the first recovery Rapid Start's window is 0.7 of what the path holds, queue included, within 25 %",
            "3.3",
            &|one, held| {
                let share = one.of[rapid].window() / held;
                (format!("{} of it", short(share)), near(share, BETA))
            },
        ),
        claim(
            "8: Rapid Start has the capacity after 0.63 of slow start's round trips, within 25 %",
            "3.2: three times the window in place of twice, log 2 / log 3",
            // Without the handshake and the window in which it is measured.
            &|one, _| {
                let rounds = |who: usize| {
                    one.of[who].t80() / one.place.frame.rtt - 1.0 - one.place.frame.window / one.place.frame.rtt
                };
                let share = rounds(rapid) / rounds(slow);
                (
                    format!("{} of {}", short(rounds(rapid)), short(rounds(slow))),
                    near(share, 2.0_f64.ln() / 3.0_f64.ln()),
                )
            },
        ),
        claim(
            "9: after the first loss Rapid Start is silent until 0.3 of what the path holds is delivered at most, within 25 %",
            "3.3.1",
            &|one, held| {
                let share = typical(&one.of[rapid].runs, |run| run.silence) / (one.place.frame.rtt * held);
                (format!("{} of it", short(share)), share <= (1.0 - BETA) * (1.0 + NEAR))
            },
        ),
    ]
}

/// Claim 10, of a path that is as it was.
pub(super) fn resumes_sooner(loaded: &[Downloads]) -> Claim {
    /// Sizes in bytes, and the share of slow start's time that the RFC names: 4 s of 9, and 62 % sooner.
    const SHARES: [(u64, f64); 2] = [(5_300_000, 4.0 / 9.0), (1_000_000, 0.38)];
    let (resume, slow) = (place("resume"), place("slow"));
    let cell = |(bytes, share): (u64, f64)| {
        let one = loaded.iter().find(|one| one.place == 0 && one.bytes == bytes)?;
        let (own, other) = (one.median(resume), one.median(slow));
        let ours = format!("{}, slow start {}", time(own), time(other));
        let near = (own / other / share - 1.0).abs() <= NEAR;
        Some(one.setups[resume].cell(format!("{}, {share:.2} of slow start's time", size(bytes)), ours, near))
    };
    let cells: Vec<Cell> = SHARES.into_iter().filter_map(cell).collect();
    let text = "10: with a window that is right Careful Resume loads 5.3 MB over GEO in 4/9 of slow start's time, 1 MB in 0.38, within 25 %";
    Claim::new(text, START_UPS[resume].title("cubic:start=resume@tcp"), "RFC 9959, introduction").got_each(cells)
}

/// Claim 11: `harm` gives what others lose beside a start-up of one place, where there are others.
pub(super) fn resumes_safely(started: &[Started], harm: Option<&[Vec<f64>]>) -> Claim {
    let (high, slow) = (place("resume, 4 times too high"), place("slow"));
    let cell = |(at, one): (usize, &Started)| {
        let (own, other) = match harm {
            Some(harms) => (100.0 * harms[at][high], 100.0 * harms[at][slow]),
            None => (one.of[high].lost()[0], one.of[slow].lost()[0]),
        };
        let unit = if harm.is_some() { "% of the other's rate" } else { "packets" };
        let ours = format!("{} {unit}, slow start {}", short(own), short(other));
        one.cell(high, ours, own <= ((1.0 + NEAR) * other).max(other + 1.0))
    };
    Claim::new(
        "11: with a window 4 times too high Careful Resume costs no more than slow start (lost packets, harm to another), within 25 %",
        contestant(started, high),
        "RFC 9959 section 3.4",
    )
    .got_each(started.iter().enumerate().map(cell).collect())
}

/// Claim 13, where a greedy flow has the link: of each generation of chirps.
pub(super) fn chirps_are_calm(started: &[Started]) -> Vec<Claim> {
    let slow = place("slow");
    let of = |name: &str| {
        let who = place(name);
        let cell = |one: &Started| {
            let (own, slow) = (&one.of[who], &one.of[slow]);
            let soon = own.t80().is_finite() && own.t80() <= (1.0 + NEAR) * slow.t80();
            let ours = format!(
                "t80 {}, slow start {}; queue {}, {}",
                time(own.t80()),
                time(slow.t80()),
                millis(own.peak_ms()),
                millis(slow.peak_ms())
            );
            one.cell(who, ours, soon && own.peak_ms() < slow.peak_ms())
        };
        Claim::new(
            "13: paced chirping is as soon as slow start, within 25 %, with less queue",
            contestant(started, who),
            "Misund and Briscoe (2019)",
        )
        .got_each(started.iter().map(cell).collect())
    };
    CHIRPS.map(of).into()
}

/// Generations of paced chirping.
pub(super) const CHIRPS: [&str; 4] = ["chirp-p", "chirp-q", "chirp-r", "chirp"];

/// Of each start-up: is it as good as the best of all, in each respect?
pub(super) fn best(started: &[Started]) -> Vec<Claim> {
    type Respect = (&'static str, &'static str, fn(&Starts) -> f64, fn(f64) -> String, fn(f64, f64) -> bool);
    const RESPECTS: [Respect; 3] = [
        ("soon", "t80 is within 25 % of the soonest", Starts::t80, time, |own, least| {
            own.is_finite() && own <= (1.0 + NEAR) * least
        }),
        ("queue", "the largest queue is within 25 %, or 1 ms, of the least", Starts::peak_ms, millis, |own, least| {
            own <= ((1.0 + NEAR) * least).max(least + SAME_MS)
        }),
        ("loss", "its start loses no packet to a queue", |starts| starts.lost()[0], packets, |own, _| own == 0.0),
    ];
    let mut all = Vec::new();
    for who in 0..START_UPS.len() {
        for (column, text, figure, unit, holds) in RESPECTS {
            let cell = |one: &Started| {
                let own = figure(&one.of[who]);
                let least = one.of.iter().map(figure).fold(f64::INFINITY, f64::min);
                let ours = format!("{}, the best {}", unit(own), unit(least));
                one.cell(who, ours, holds(own, least))
            };
            let cells: Vec<Cell> = started.iter().map(cell).collect();
            all.push(graded(column, text, contestant(started, who), cells));
        }
    }
    all
}

/// A claim of ours about each start-up, in the grid of all.
pub(super) fn graded(column: &str, text: &str, contestant: String, cells: Vec<Cell>) -> Claim {
    let held = cells.iter().filter(|cell| cell.holds).count();
    let grid = "In how many conditions each is as good as the best".to_owned();
    let figure = format!("{held}/{}", cells.len());
    let mut claim = Claim::new(format!("{text} (question of ours)"), contestant, "").got_worst(cells);
    claim.place = Some(Grid { grid, column: column.to_owned(), figure });
    claim
}

/// `in 3 of 30 conditions`.
pub(super) fn counts(cells: &[Cell]) -> String {
    let held = cells.iter().filter(|cell| cell.holds).count();
    let missed: Vec<&str> = cells.iter().filter(|cell| !cell.holds).map(|cell| cell.ours.as_str()).collect();
    let worst = missed.first().map(|first| format!("; first that misses: {first}")).unwrap_or_default();
    format!("in {held} of {} conditions{worst}", cells.len())
}

fn contestant(started: &[Started], who: usize) -> String {
    started.first().map(|one| one.name(who)).unwrap_or_default()
}

pub(super) fn millis(ms: f64) -> String {
    format!("{} ms", short(ms))
}

fn packets(count: f64) -> String {
    format!("{} packets", short(count))
}
