//! One flow on an idle path: how it starts, and how long downloads take.

use std::path::PathBuf;

use super::claims::{NEAR, counts, millis};
use super::measure::{Frame, STEP, Start, Starts};
use super::{ALONE, START_UPS, StartUp};
use crate::reproduce::bench::File;
use crate::reproduce::prelude::*;
use paceline_experiment::FlowOutcome;

/// A path, and how it is run.
#[derive(Clone)]
pub(super) struct Place {
    /// As tables name it.
    pub(super) name: String,
    pub(super) file: &'static File,
    /// Keys that differ from the file's.
    pub(super) set: Vec<(String, String)>,
    pub(super) trace: Option<PathBuf>,
    pub(super) frame: Frame,
    /// Bandwidth times round trip in packets of 1500 bytes.
    pub(super) bdp: f64,
    /// The queue in products, where losses tell what the path holds.
    pub(super) queue: Option<f64>,
}

impl Place {
    /// A link of a constant rate and a drop-tail queue in products.
    pub(super) fn constant(name: impl Into<String>, mbps: f64, rtt_ms: f64, queue: &str) -> Self {
        let delay = format!("{}us", rtt_ms * 500.0);
        let set = [
            ("down.rate", format!("{mbps} Mbit/s")),
            ("down.delay", delay.clone()),
            ("up.delay", delay),
            ("down.queue", format!("droptail:bdp={queue}")),
        ];
        Self {
            name: name.into(),
            file: &ALONE,
            set: set.map(|(key, value)| (key.to_owned(), value)).into(),
            trace: None,
            frame: Frame::constant(rtt_ms / 1e3, mbps),
            bdp: mbps * rtt_ms * 1e3 / (1500.0 * 8.0),
            queue: queue.parse().ok(),
        }
    }

    pub(super) fn set(mut self, key: &str, value: &str) -> Self {
        self.set.push((key.to_owned(), value.to_owned()));
        self
    }

    /// This start-up of CUBIC there, with what it remembers of the path.
    fn of(&self, who: &StartUp, via: &str) -> Setup {
        who.informed(self.setup(&who.contestant("cubic", via)), 0, self.bdp, self.frame.rtt)
    }

    /// This contestant there.
    pub(super) fn setup(&self, contestant: &str) -> Setup {
        let setup =
            self.set.iter().fold(Setup::new(self.file, contestant), |setup, (key, value)| setup.set(key, value));
        self.trace.iter().fold(setup, |setup, trace| setup.trace(trace))
    }
}

/// The starts of every start-up at one place, in the order of [`START_UPS`].
pub(super) struct Started {
    pub(super) place: Place,
    pub(super) setups: Vec<Setup>,
    pub(super) of: Vec<Starts>,
}

impl Started {
    /// What a start-up did there.
    pub(super) fn cell(&self, who: usize, mut ours: String, holds: bool) -> Cell {
        if self.of[who].runs.iter().any(|run| !run.trusted) {
            ours.push_str(" (the emulator was late: not to be trusted)");
        }
        self.setups[who].cell(&self.place.name, ours, holds)
    }

    /// A start-up as claims name it.
    pub(super) fn name(&self, who: usize) -> String {
        START_UPS[who].title(self.setups[who].contestant())
    }
}

/// The datapath of flows: in real time UDP, since start-ups there are ours and not the kernel's.
pub(super) fn via(bench: &Bench<'_>) -> &'static str {
    if bench.is_real() { "udp" } else { "tcp" }
}

/// The same starts in virtual time, between hosts that keep time as those of real time do.
pub(super) fn simulated(bench: &Bench<'_>, places: &[Place], via: &str) -> Result<Vec<Started>, ReproduceError> {
    let places: Vec<Place> = places.iter().map(|place| place.clone().set("flows.0.timers", "host")).collect();
    bench.simulated(|bench| starts(bench, &places, via))
}

/// How far real starts are from the same ones simulated.
pub(super) fn agreement(real: &[Started], simulated: &[Started]) -> Claim {
    let cell = |(real, simulated): (&Started, &Started), who: usize| {
        let (own, other) = (&real.of[who], &simulated.of[who]);
        let near = |own: f64, other: f64| own == other || (own / other - 1.0).abs() <= NEAR;
        let ours = format!(
            "t80 {}, simulated {}; queue {}, {}",
            time(own.t80()),
            time(other.t80()),
            millis(own.peak_ms()),
            millis(other.peak_ms())
        );
        Cell {
            setup: format!("{}: {}", real.place.name, START_UPS[who].name),
            ..real.cell(who, ours, near(own.t80(), other.t80()))
        }
    };
    let pairs = || real.iter().zip(simulated);
    let cells: Vec<Cell> = pairs().flat_map(|pair| (0..START_UPS.len()).map(move |who| cell(pair, who))).collect();
    let text = "t80 in real time is that of the simulator, within 25 % (goal of ours)";
    Claim::new(text, "", "").got(counts(&cells), cells)
}

/// Every start-up at every place.
pub(super) fn starts(bench: &Bench<'_>, places: &[Place], via: &str) -> Result<Vec<Started>, ReproduceError> {
    let setup = |place: &Place, who: &StartUp| place.of(who, via).sampled(STEP).watched().whole();
    let setups: Vec<Setup> =
        places.iter().flat_map(|place| START_UPS.iter().map(move |who| setup(place, who))).collect();
    let runs = bench.run(&setups, |_, run| Start::of(run, 0, &places[run.setup / START_UPS.len()].frame))?;
    let mut all = setups.into_iter().zip(runs);
    let started = |place: &Place| {
        let (setups, runs): (Vec<Setup>, Vec<Vec<Start>>) = all.by_ref().take(START_UPS.len()).unzip();
        let of = runs.into_iter().map(|runs| Starts { runs, rtt: place.frame.rtt, bdp: place.bdp });
        Started { place: place.clone(), setups, of: of.collect() }
    };
    Ok(places.iter().map(started).collect())
}

/// Completion times of downloads of one size at one place, for each start-up, seconds; infinite where a run ended before.
pub(super) struct Downloads {
    pub(super) place: usize,
    pub(super) bytes: u64,
    pub(super) setups: Vec<Setup>,
    pub(super) times: Vec<Vec<f64>>,
}

impl Downloads {
    /// The median of a start-up.
    pub(super) fn median(&self, who: usize) -> f64 {
        percentile(&self.times[who], 0.5)
    }
}

/// A share of the times is not above this; of times that are infinite too.
pub(super) fn percentile(times: &[f64], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Every start-up loads each size at each place.
pub(super) fn downloads(bench: &Bench<'_>, places: &[Place], sizes: &[u64]) -> Result<Vec<Downloads>, ReproduceError> {
    let all = places.iter().enumerate().flat_map(|(at, place)| sizes.iter().map(move |bytes| (at, place, *bytes)));
    let all: Vec<(usize, &Place, u64)> = all.collect();
    let setup = |place: &Place, bytes: u64, who: &StartUp| {
        place.of(who, "tcp").set("flows.0.workload.bytes", &format!("{}kB", bytes / 1000))
    };
    let setups: Vec<Setup> =
        all.iter().flat_map(|(_, place, bytes)| START_UPS.iter().map(move |who| setup(place, *bytes, who))).collect();
    let took = |flow: &FlowOutcome| flow.completions.first().map_or(f64::INFINITY, |(_, took)| took.as_secs_f64());
    let times = bench.run(&setups, |_, run| took(run.flow(0)))?;
    let mut both = setups.into_iter().zip(times);
    let taken = |(place, _, bytes): &(usize, &Place, u64)| {
        let (setups, times) = both.by_ref().take(START_UPS.len()).unzip();
        Downloads { place: *place, bytes: *bytes, setups, times }
    };
    Ok(all.iter().map(taken).collect())
}

/// `100 kB`, `1 MB`.
pub(super) fn size(bytes: u64) -> String {
    if bytes >= 1_000_000 { format!("{} MB", short(bytes as f64 / 1e6)) } else { format!("{} kB", bytes / 1000) }
}

/// A time in seconds that may never have come.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        never if never.is_infinite() => "never".to_owned(),
        short_one if short_one < 1.0 => format!("{} ms", short(short_one * 1e3)),
        long => format!("{} s", short(long)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_know_their_products() {
        let place = Place::constant("a", 100.0, 50.0, "1");
        assert!((place.bdp - 416.7).abs() < 0.1 && place.frame.window == 0.05);
        assert_eq!(Place::constant("a", 1.0, 50.0, "1").frame.window, 0.24, "20 packets");
        let command = place.set("flows.0.paced", "true").setup("cubic:start=slow@tcp").command();
        assert!(
            command.contains("--set down.delay=25000us") && command.ends_with("--set flows.0.paced=true"),
            "{command}"
        );
    }

    #[test]
    fn percentiles_of_times_that_never_come() {
        assert_eq!(percentile(&[3.0, 1.0, f64::INFINITY, 2.0], 0.5), 2.0);
        assert_eq!(percentile(&[3.0, 1.0, f64::INFINITY, 2.0], 0.95), f64::INFINITY);
        assert!(percentile(&[], 0.5).is_nan());
        assert_eq!(
            (size(30_000), size(1_000_000), time(0.25), time(f64::INFINITY)),
            ("30 kB".to_owned(), "1 MB".to_owned(), "250 ms".to_owned(), "never".to_owned())
        );
    }
}
