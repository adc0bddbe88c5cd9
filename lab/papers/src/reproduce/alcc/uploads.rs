//! Figure 4: an upload by the Java library of a phone, beside the same controllers in Rust and TCP alone.
//!
//! Each run is one `paceline emulate` with `paceline alcc serve` at the far end and one client at the near one: the JVM is a real
//! one, and so is everything between the two programs but the link.

mod client;

use crate::reproduce::prelude::*;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline_lab::runner::Batch;
use paceline_lab::scenario::ScenarioError;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tempfile::NamedTempFile;

use super::super::bench;
use super::run::apart;
use client::{CLIENTS, Programs, Upload};

/// [`CLIENTS`] by number: in Rust, in Java.
const COPA: [usize; 2] = [0, 1];
const MDI: [usize; 2] = [2, 3];
const VERUS: usize = 4;
const TCP: usize = 5;

/// What of an upload is compared, and its unit.
type Figure = (&'static str, fn(&Upload) -> f64);

const RATE: Figure = ("Mbit/s", |upload| upload.mbps);
const RTT: Figure = ("ms", |upload| upload.rtt);

/// A claim: what must hold of the ratio of one client's figure to another's.
struct Ratio {
    text: Cow<'static, str>,
    paper: &'static str,
    own: usize,
    other: usize,
    figure: Figure,
    holds: fn(f64) -> bool,
}

const MIMICS: &str = "MDI mimics the throughput and delay of what it was trained on";

/// Of MDI against others.
const RATIOS: [Ratio; 4] = [
    Ratio {
        text: Cow::Borrowed("MDI on the phone has at least 75 % of the throughput of TCP alone (our reading)"),
        paper: "the throughput of both is approximately alike",
        own: MDI[1],
        other: TCP,
        figure: RATE,
        holds: |ratio| ratio >= 0.75,
    },
    Ratio {
        text: Cow::Borrowed("MDI on the phone has at most half of the median round trip of TCP alone (our reading)"),
        paper: "delays are much lower",
        own: MDI[1],
        other: TCP,
        figure: RTT,
        holds: |ratio| ratio <= 0.5,
    },
    Ratio {
        text: Cow::Borrowed("MDI has the throughput of Verus, which it was trained on, within 10 % (goal of ours)"),
        paper: MIMICS,
        own: MDI[0],
        other: VERUS,
        figure: RATE,
        holds: |ratio| (ratio - 1.0).abs() <= 0.1,
    },
    Ratio {
        text: Cow::Borrowed("MDI has the median round trip of Verus, within 20 % (goal of ours)"),
        paper: MIMICS,
        own: MDI[0],
        other: VERUS,
        figure: RTT,
        holds: |ratio| (ratio - 1.0).abs() <= 0.2,
    },
];

/// And of a controller in Java against the same in Rust.
fn of_java(name: &str, [rust, java]: [usize; 2]) -> [Ratio; 2] {
    [("throughput", RATE), ("median round trip", RTT)].map(|(what, figure)| Ratio {
        text: format!("{name} in Java has the {what} of {name} in Rust, within 5 % (goal of ours)").into(),
        paper: "not in the paper",
        own: java,
        other: rust,
        figure,
        holds: |ratio| (ratio - 1.0).abs() <= 0.05,
    })
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if !bench.is_real() {
        return Ok(Findings::none("The simulator runs no Java: this figure needs the real world."));
    }
    let programs = match Programs::find() {
        Ok(programs) => programs,
        Err(missing) => return Ok(Findings::none(missing.to_string())),
    };
    let traces: Vec<PathBuf> = match &bench.settings.traces[..] {
        [] => SHIPPED_TRACES.iter().map(|(path, _)| PathBuf::from(path)).collect(),
        given => given.to_vec(),
    };
    let (runs, seconds) = (bench.settings.runs.unwrap_or(1), bench.settings.seconds.unwrap_or(10.0));
    let tasks = traces.len() * CLIENTS.len() * runs as usize;
    // A JVM takes about a second to begin.
    bench.progress.begin(&Batch { tasks, threads: 1, lasts: Duration::from_secs_f64(seconds + 1.0) * tasks as u32 });
    let uploads = Uploads { bench, programs, runs, seconds };
    let links = traces.iter().map(|trace| uploads.over(trace)).collect::<Result<Vec<_>, _>>()?;
    Ok(uploads.findings(&links))
}

/// What all of them have in common.
struct Uploads<'a> {
    bench: &'a Bench<'a>,
    programs: Programs,
    runs: u32,
    seconds: f64,
}

/// A link, and the uploads of each client over it.
struct Link {
    name: String,
    /// By client, then by run; nothing where one failed.
    uploads: Vec<Vec<Option<Upload>>>,
    /// What went wrong, of those that failed.
    failures: Vec<String>,
}

impl Link {
    fn median(&self, client: usize, figure: impl Fn(&Upload) -> f64) -> f64 {
        typical(&self.uploads[client].iter().flatten().collect::<Vec<_>>(), |upload| figure(upload))
    }

    /// One client's figure over another's: the median over runs, in each of which both met the same piece of the trace.
    fn ratio(&self, own: usize, other: usize, figure: fn(&Upload) -> f64) -> f64 {
        let pairs = self.uploads[own].iter().zip(&self.uploads[other]);
        let ratios = pairs.filter_map(|(own, other)| Some(figure(own.as_ref()?) / figure(other.as_ref()?)));
        typical(&ratios.collect::<Vec<_>>(), |ratio| *ratio)
    }
}

impl Uploads<'_> {
    fn over(&self, trace: &Path) -> Result<Link, ReproduceError> {
        let whole = bench::read(trace)?;
        let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy().into_owned();
        let mut rng = Pcg64::seed_from_u64(self.bench.settings.seed.unwrap_or(1));
        let mut link = Link { name, uploads: vec![Vec::new(); CLIENTS.len()], failures: Vec::new() };
        for number in 1..=self.runs {
            // All clients meet the link at the same place, each run at another.
            let start = Nanos::from_nanos(rng.random_range(0..whole.lap().as_nanos().max(1)));
            let file = NamedTempFile::with_suffix(".mahi").and_then(|file| {
                whole.starting(start).write(&file)?;
                Ok(file)
            });
            let file = file.map_err(|error| ScenarioError::Option {
                option: "--figure".to_owned(),
                problem: format!("no place for a temporary file ({error}); make room in TMPDIR"),
            })?;
            for (client, uploads) in CLIENTS.iter().zip(&mut link.uploads) {
                let upload = client.upload(&self.programs, file.path(), number, self.seconds);
                uploads.push(
                    upload
                        .map_err(|problem| link.failures.push(format!("{}, run {number}: {problem}", client.name)))
                        .ok(),
                );
                self.bench.progress.ended();
            }
        }
        Ok(link)
    }

    fn findings(&self, links: &[Link]) -> Findings {
        let all: Vec<&Upload> = links.iter().flat_map(|link| link.uploads.iter().flatten().flatten()).collect();
        let mut setup = vec![format!(
            "Uploads of {} s from behind an emulated cellular link, 20 ms each way, a buffer of 2 MB; {} of each client and link, \
             all clients of a run at the same place of the trace: what is compared is the median over runs of the ratio of two. \
             Java is a real JVM. The round trip is that of acknowledgements, without how long they waited at the receiver. The emulator kept time in {} of {} uploads.",
            self.seconds,
            self.runs,
            all.iter().filter(|upload| upload.trusted).count(),
            all.len(),
        )];
        let failures: Vec<String> = links
            .iter()
            .flat_map(|link| link.failures.iter().map(|failure| format!("{}, {failure}", link.name)))
            .collect();
        if let [first, more @ ..] = &failures[..] {
            setup.push(format!(
                "Failed: {first}{}.",
                if more.is_empty() { String::new() } else { format!("; and {} more", more.len()) }
            ));
        }
        let row = |(index, client): (usize, &client::Client)| {
            let cell = |link: &Link| {
                let (rtt, tail) = (link.median(index, RTT.1), link.median(index, |upload| upload.tail));
                (short(link.median(index, RATE.1)), format!("{} ms, p95 {} ms", short(rtt), short(tail)))
            };
            (client.name.to_owned(), links.iter().map(cell).collect())
        };
        let ratios = RATIOS.into_iter().chain(of_java("Copa", COPA)).chain(of_java("MDI", MDI));
        Findings {
            setup,
            claims: ratios.map(|ratio| self.claim(ratio, links)).collect(),
            tables: vec![Table::new(
                "Throughput and round trip",
                "Mbit/s, below it the median round trip and its 95th percentile; medians over runs.",
                links.iter().map(|link| &link.name),
                CLIENTS.iter().enumerate().map(row),
            )],
            ..Findings::default()
        }
    }

    fn claim(&self, ratio: Ratio, links: &[Link]) -> Claim {
        let (own, other) = (&CLIENTS[ratio.own], &CLIENTS[ratio.other]);
        let cell = |link: &Link| {
            let (a, b) = (link.median(ratio.own, ratio.figure.1), link.median(ratio.other, ratio.figure.1));
            let paired = link.ratio(ratio.own, ratio.other, ratio.figure.1);
            let ours = format!("{} {}, {} {}, {}", short(a), ratio.figure.0, other.name, short(b), apart(paired, 1.0));
            let trace = self.trace(&link.name).unwrap_or_else(|| link.name.clone());
            let command = format!("paceline reproduce alcc --figure fig4 --trace {trace}");
            Cell::new(&link.name, ours, (ratio.holds)(paired), command)
        };
        Claim::new(ratio.text, own.controller, ratio.paper).got_each(links.iter().map(cell).collect())
    }

    /// The file of a link, as it was given.
    fn trace(&self, name: &str) -> Option<String> {
        let given = self.bench.settings.traces.iter().map(|path| path.display().to_string());
        let shipped = SHIPPED_TRACES.iter().map(|(path, _)| (*path).to_owned());
        given.chain(shipped).find(|path| path.ends_with(name))
    }
}
