//! Figures 22 to 24: beside others in a tunnel of 40 Mbit/s.

use super::super::bench::File;
use super::fidelity::where_it_ran;
use super::run::{Run, STEP};
use super::{TUNNEL_TCP, TUNNEL_UDP};
use crate::reproduce::prelude::*;

const MBPS: f64 = 40.0;
/// Share of a time that is left out at its beginning: until the flows have found their rates.
const SETTLE: f64 = 0.2;

/// When a competitor is there, as shares of the run; with a fixed rate, Mbit/s.
struct Visit {
    from: f64,
    to: f64,
    mbps: f64,
}

/// Of the CUBIC competitor.
const CUBIC: [Visit; 2] = [Visit { from: 0.2, to: 0.4, mbps: 0.0 }, Visit { from: 0.6, to: 0.8, mbps: 0.0 }];
/// Of the UDP traffic.
const UDP: [Visit; 3] = [
    Visit { from: 1.0 / 7.0, to: 2.0 / 7.0, mbps: 10.0 },
    Visit { from: 3.0 / 7.0, to: 4.0 / 7.0, mbps: 20.0 },
    Visit { from: 5.0 / 7.0, to: 6.0 / 7.0, mbps: 30.0 },
];

/// The contestant in a tunnel for this many seconds; the visits keep their shares of the run, whatever its length.
fn setup(
    bench: &Bench<'_>,
    file: &'static File,
    name: &str,
    own: f64,
    visits: &[Visit],
    key: &str,
    first: usize,
) -> Setup {
    let seconds = bench.settings.seconds.unwrap_or(own);
    let set = |setup: Setup, (index, visit): (usize, &Visit)| {
        let at = |share: f64| format!("{}ms", (1e3 * share * seconds).round());
        let key = |what: &str| format!("{key}.{}.{what}", first + index);
        setup.set(&key("start"), &at(visit.from)).set(&key("stop"), &at(visit.to))
    };
    let setup = Setup::new(file, name).sampled(STEP);
    if seconds == own { setup } else { visits.iter().enumerate().fold(setup, set) }
}

/// Mean rate of a flow over runs while a visit has settled.
fn rate(runs: &[Run], flow: usize, visit: &Visit, seconds: f64) -> f64 {
    let (from, to) = (seconds * (visit.from + SETTLE * (visit.to - visit.from)), seconds * visit.to);
    mean(&runs.iter().map(|run| run.rate(flow, from, to)).collect::<Vec<_>>())
}

/// Figure 22.
pub(super) fn beside_tcp(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let seconds = bench.settings.seconds.unwrap_or(60.0);
    let names = ["copa@alcc", "copa@udp"];
    let setups: Vec<Setup> =
        names.iter().map(|name| setup(bench, &TUNNEL_TCP, name, 60.0, &CUBIC, "flows", 1)).collect();
    let results = bench.run(&setups, |_, run| Run::of(run))?;
    let shares = |runs: &[Run]| {
        let of =
            |(index, visit): (usize, &Visit)| (rate(runs, 0, visit, seconds), rate(runs, 1 + index, visit, seconds));
        let (own, tcp): (Vec<f64>, Vec<f64>) = CUBIC.iter().enumerate().map(of).unzip();
        (mean(&own), mean(&tcp))
    };
    let (above, native) = (shares(&results[0]), shares(&results[1]));
    let index = |(a, b): (f64, f64)| paceline_lab::measure::jain(&[a, b]);
    let stated = |(own, tcp): (f64, f64)| format!("{} Mbit/s beside {} of CUBIC", short(own), short(tcp));
    let claims = vec![
        setups[0].found(
            (
                "a CUBIC flow that comes gets at least 90 % of its fair share beside Copa above TCP (tolerance ours)",
                "ALCC-Copa is fair to the competing TCP flow",
            ),
            "CUBIC there",
            stated(above),
            above.1 >= 0.9 * MBPS / 2.0,
        ),
        setups[0].found(
            (
                "Copa above TCP shares at least as fairly as native Copa (Jain's index, tolerance ours: 0.02)",
                "native Copa over UDP is less fair",
            ),
            "CUBIC there",
            format!("{:.3} ({}), native {:.3} ({})", index(above), stated(above), index(native), stated(native)),
            index(above) >= index(native) - 0.02,
        ),
    ];
    let panel = |(name, runs): (&&str, &Vec<Run>)| {
        let classes = ["c-copa", "c-cubic", "c-cubic"];
        let lines = runs.first().map(|run| {
            let line = |(class, flow)| PlotLine::new(class, curves::rate(&run.series, flow, 0.5));
            classes.into_iter().zip(&run.series.flows).map(line).collect()
        });
        Panel::new(*name, "", lines.unwrap_or_default())
    };
    let panels = names.iter().zip(&results).map(panel).collect();
    Ok(Findings {
        setup: vec![said(bench, "CUBIC comes twice", results[0].len())],
        claims,
        drawings: vec![drawing(panels, [("c-copa", "Copa"), ("c-cubic", "CUBIC")], seconds)],
        scenarios: vec![&TUNNEL_TCP],
        ..Findings::default()
    })
}

fn said(bench: &Bench<'_>, what: &str, runs: usize) -> String {
    let tunnel = if bench.is_real() {
        "a TCP connection (CUBIC) between two TUN devices over a link with a queue of 200 kB"
    } else {
        "as flows see it, a rate and a queue of 200 kB at its entry"
    };
    format!(
        "A tunnel of {MBPS} Mbit/s, {tunnel}, with 20 ms of RTT; {what}. {} of each, {}. Rates are means of a visit \
         without its first fifth.",
        counted(runs, "run"),
        where_it_ran(bench)
    )
}

fn drawing(panels: Vec<Panel>, legend: [(impl Into<Class>, &str); 2], seconds: f64) -> Drawing {
    let row = ChartRow { y_title: "Mbit/s", y: PlotAxis::linear(1.1 * MBPS), height: 150.0, panels };
    let sheet = Sheet::new("Throughput in the tunnel over time", ("s", PlotAxis::linear(seconds)), vec![row]);
    Drawing::new("Over time", &sheet.legend(legend), "First run, means over 500 ms.")
}

/// Figures 23 and 24.
pub(super) fn beside_udp(bench: &Bench<'_>, name: &str) -> Result<Findings, ReproduceError> {
    let seconds = bench.settings.seconds.unwrap_or(70.0);
    let setup = setup(bench, &TUNNEL_UDP, name, 70.0, &UDP, "cross", 0);
    let runs = bench.run(std::slice::from_ref(&setup), |_, run| Run::of(run))?.remove(0);
    let cell = |visit: &Visit| {
        let (own, left) = (rate(&runs, 0, visit, seconds), MBPS - visit.mbps);
        let ours = format!("{} of {} Mbit/s", short(own), short(left));
        let holds = own <= 1.05 * left && own >= 0.7 * left;
        setup.cell(format!("beside {} Mbit/s", visit.mbps), ours, holds)
    };
    let cells: Vec<Cell> = UDP.iter().map(cell).collect();
    let claim = "it yields to UDP and takes what is left: between 70 and 105 % of it (tolerance ours)";
    let own = Class::from(palette::class(name.split('@').next().unwrap_or(name)));
    let lines = runs.first().map(|run| {
        let udp = |visit: &Visit| {
            let points = [(visit.from, 0.0), (visit.from, visit.mbps), (visit.to, visit.mbps), (visit.to, 0.0)];
            PlotLine::new("ink", points.map(|(x, y)| (x * seconds, Some(y))))
        };
        let own = PlotLine::new(own.clone(), curves::rate(&run.series, run.flow(), 0.5));
        std::iter::once(own).chain(UDP.iter().map(udp)).collect()
    });
    let panel = Panel::new(name, "", lines.unwrap_or_default());
    let legend = [(own.clone(), name), ("ink".into(), "UDP, as it is sent")];
    Ok(Findings {
        setup: vec![said(bench, "UDP comes with 10, 20 and 30 Mbit/s", runs.len())],
        claims: vec![setup.claim(claim, "UDP flows take their rate; ALCC yields").got_each(cells)],
        drawings: vec![drawing(vec![panel], legend, seconds)],
        scenarios: vec![&TUNNEL_UDP],
        ..Findings::default()
    })
}
