//! Figures 1, 2 and 18: whose window counts, and what bounds TCP's own.

use super::CONSTANT;
use super::fidelity::where_it_ran;
use super::run::{Run, STEP, apart};
use crate::reproduce::prelude::*;

/// Windows of the application's, packets: from well below what the path holds to a little above.
const WINDOWS: [u32; 3] = [10, 24, 40];
/// TCPs whose throughput and delay are compared with and without a window above.
const LOWERS: [&str; 2] = ["cubic", "reno"];
/// The one of [`WINDOWS`] that just fills the path: 20 packets in flight, and what leaves and enters it.
const FULL: u32 = 24;

/// Figures 1 and 2.
pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let setup = |name: String| Setup::new(&CONSTANT, &name).sampled(STEP);
    let windows = WINDOWS.iter().map(|window| setup(format!("fixed:window={window}@alcc")));
    let lowers = LOWERS
        .iter()
        .flat_map(|lower| [setup(format!("fixed:window={FULL}@alcc/{lower}")), setup(format!("{lower}@tcp"))]);
    let setups: Vec<Setup> = windows.chain(lowers).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let (of_windows, of_lowers) = results.split_at(WINDOWS.len());
    let cells = WINDOWS.iter().zip(of_windows).zip(&setups).map(|((window, runs), setup)| {
        let limited = typical(runs, |run| run.limited);
        let lowest = lowest(runs);
        let tcp = lowest.map_or("TCP is".to_owned(), |low| format!("TCP's window is {} packets or more,", short(low)));
        let ours = format!("{tcp} the limit for {:.1} % of chunks", 100.0 * limited);
        let holds = lowest.is_none_or(|lowest| lowest >= f64::from(*window)) && limited <= 0.01;
        setup.cell(format!("window of {window} packets"), ours, holds)
    });
    let cells = cells.collect();
    let claim =
        "TCP's window stays above the application's: TCP is the limit for at most 1 % of chunks (tolerance ours)";
    let mut claims =
        vec![Claim::new(claim, "fixed@alcc", "TCP's window stays above the application's").of("Fig 1").got_each(cells)];
    for (index, lower) in LOWERS.iter().enumerate() {
        let (own, plain) = (&of_lowers[2 * index], &of_lowers[2 * index + 1]);
        let setup = &setups[WINDOWS.len() + 2 * index];
        let paper = "the same throughput as the TCP alone, and a much lower delay";
        let mut claim = |text: &str, ours: String, holds: bool| {
            claims.push(setup.found((text, paper), format!("above {lower}"), ours, holds).of("Fig 2"));
        };
        let (a, b) = (over(own, |run| run.mbps), over(plain, |run| run.mbps));
        let ours = format!("{} Mbit/s, {lower} {}, {}", stated(&a), stated(&b), apart(a.median, b.median));
        claim(
            "a window that fills the path gives at least 95 % of TCP's throughput",
            ours,
            a.median >= 0.95 * b.median,
        );
        let (a, b) = (over(own, |run| run.delay(50)), over(plain, |run| run.delay(50)));
        let ours = format!("{} ms, {lower} {} ms", stated(&a), stated(&b));
        claim("its median delay is at most a tenth of TCP's (tolerance ours)", ours, a.median <= 0.1 * b.median);
    }
    let shown = [
        ("c-fixed d5", format!("window of {FULL} above cubic"), &of_lowers[0]),
        ("c-cubic d0", "cubic alone".to_owned(), &of_lowers[1]),
    ];
    let runs = of_windows[0].len();
    Ok(Findings {
        setup: vec![format!(
            "A fixed window above TCP, and TCP alone: 12 Mbit/s, 20 ms, a buffer of 2 MB; {} of each, {}. The paper also \
             changes the window each second at random; here each window has runs of its own.",
            counted(runs, "run"),
            where_it_ran(bench),
        )],
        claims,
        drawings: vec![over_time(&shown)],
        scenarios: vec![&CONSTANT],
        ..Findings::default()
    })
}

/// TCP's window in packets at its lowest from the second second on, in any run; nothing where it is not reported.
fn lowest(runs: &[Run]) -> Option<f64> {
    let second = (1.0 / STEP.as_secs_f64()) as usize;
    let points = runs.iter().filter_map(|run| run.flow().variables.get("tcp_window")?.get(second..));
    points.flatten().flatten().copied().reduce(f64::min)
}

fn over_time(shown: &[(&'static str, String, &Vec<Run>)]) -> Drawing {
    let lines = |points: &dyn Fn(&Run) -> curves::Points| -> Vec<PlotLine> {
        let line = |(class, _, runs): &(&'static str, String, &Vec<Run>)| {
            runs.first().map(|run| PlotLine::new(*class, points(run)))
        };
        shown.iter().filter_map(line).collect()
    };
    let rates = lines(&|run| curves::rate(&run.series, run.flow(), 0.5));
    let queues = lines(&|run| curves::queue(&run.series, 0.5));
    let x = ("s", PlotAxis::linear(end(&rates, 1.0)));
    let row = |title, lines| ChartRow::single(title, PlotAxis::linear(highest(&lines, 1.0) * 1.1), 120.0, lines);
    let label = "Throughput and queueing delay of a window above TCP and of TCP alone";
    let sheet = Sheet::new(label, x, vec![row("Mbit/s", rates), row("queue, ms", queues)]);
    let sheet = sheet.legend(shown.iter().map(|(class, name, _)| (*class, name)));
    let note = "First run. Throughput: means over 500 ms. Queue: largest delay of a packet in each 500 ms.";
    Drawing::new("Over time", &sheet, note)
}

/// Send buffers. The paper's go up to 5 MB; these are what CUBIC's window comes to within seconds here.
const BUFFERS: [&str; 3] = ["50kB", "100kB", "200kB"];

/// Figure 18.
pub(super) fn buffers(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if !bench.is_real() {
        return Ok(Findings::none("The simulator's sockets have no send buffer: this figure needs the real world."));
    }
    // A window that is never the limit, so that what bounds the flow is TCP's.
    let setup = |buffer: &&str| {
        Setup::new(&CONSTANT, &format!("fixed:window=5000@alcc:mode=queue,buffer={buffer}")).sampled(STEP)
    };
    let setups: Vec<Setup> = BUFFERS.iter().map(setup).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let levels: Vec<(f64, f64, f64)> = results.iter().map(|runs| level(runs)).collect();
    let cell = |(at, (buffer, setup)): (usize, (&&str, &Setup))| {
        let (window, change, limited) = levels[at];
        let more = at == 0 || window >= levels[at - 1].0;
        let ours = format!(
            "{} packets, {:.0} % change over the second half, TCP the limit for {:.0} % of chunks",
            short(window),
            100.0 * change,
            100.0 * limited
        );
        setup.cell(format!("buffer of {buffer}"), ours, more && change <= 0.1 && limited > 0.0)
    };
    let cells = BUFFERS.iter().zip(&setups).enumerate().map(cell).collect();
    let claim = "TCP's window is flat (changes by at most 10 % in the second half of the run), higher with a larger send buffer, and \
                 the record says that TCP is the limit";
    Ok(Findings {
        setup: vec![format!(
            "A window above TCP that is never the limit, and send buffers of {}; 12 Mbit/s, 20 ms, a buffer of 2 MB in the \
             network. {} of each, {}.",
            BUFFERS.join(", "),
            counted(results[0].len(), "run"),
            where_it_ran(bench),
        )],
        claims: vec![Claim::new(claim, "fixed@alcc", "the flat TCP window follows the send buffer").got_each(cells)],
        scenarios: vec![&CONSTANT],
        ..Findings::default()
    })
}

/// TCP's window in the second half of the run in packets, by how much it changes there, and how often TCP was the limit.
fn level(runs: &[Run]) -> (f64, f64, f64) {
    let halves: Vec<(f64, f64)> = runs
        .iter()
        .filter_map(|run| {
            let all: Vec<f64> = run.flow().variables.get("tcp_window")?.iter().flatten().copied().collect();
            let half = &all[all.len() / 2..];
            let (low, high) = half.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
            (high > 0.0).then(|| (mean(half), (high - low) / high))
        })
        .collect();
    let of = |value: fn(&(f64, f64)) -> f64| mean(&halves.iter().map(value).collect::<Vec<_>>());
    (of(|half| half.0), of(|half| half.1), typical(runs, |run| run.limited))
}
