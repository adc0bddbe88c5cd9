//! A question of ours, which the paper leaves open: one object from several sources.

use crate::reproduce::prelude::*;
use paceline_cc::Time;
use paceline_experiment::Seed;
use paceline_experiment::icn::{BIN, SyntheticObject};

use super::OURS;
use super::network::{Links, Received};
use super::run::{self, claim, rates_over_time, seeds};

/// Bytes of the object.
const OBJECT: u64 = 30_000_000;
/// Of a byte on the wire, what is the object's: 1400 of 1458, and 58 of 59 units.
const PAYLOAD: f64 = 1400.0 / 1458.0 * 58.0 / 59.0;
/// A source dies after this many seconds.
const DIES: f64 = 2.0;

/// One condition: rates in Mbit/s and round trips in ms of its sources, and what else there is.
struct Case {
    name: &'static str,
    sources: &'static [(f64, f64)],
    /// Mbit/s of an access link that they share.
    access: Option<f64>,
    /// 1 % of the data is lost and 1 % comes late.
    rough: bool,
    /// The first source dies.
    dies: bool,
}

const CASES: [Case; 6] = [
    Case { name: "one", sources: &[(40.0, 20.0)], access: None, rough: false, dies: false },
    Case { name: "two", sources: &[(40.0, 20.0), (20.0, 60.0)], access: None, rough: false, dies: false },
    Case {
        name: "four",
        sources: &[(40.0, 20.0), (20.0, 60.0), (10.0, 100.0), (30.0, 40.0)],
        access: None,
        rough: false,
        dies: false,
    },
    Case {
        name: "two behind one access link",
        sources: &[(100.0, 20.0), (100.0, 60.0)],
        access: Some(50.0),
        rough: false,
        dies: false,
    },
    Case {
        name: "two, 1 % lost and 1 % late",
        sources: &[(40.0, 20.0), (20.0, 60.0)],
        access: None,
        rough: true,
        dies: false,
    },
    Case { name: "two, one dies", sources: &[(40.0, 20.0), (20.0, 60.0)], access: None, rough: false, dies: true },
];

impl Case {
    /// Mbit/s of the object that its links can carry.
    fn capacity(&self) -> f64 {
        let sum: f64 = self.sources.iter().map(|(rate, _)| rate).sum();
        self.access.map_or(sum, |access| access.min(sum)) * PAYLOAD
    }

    /// Seconds that the object takes if the links are never idle, as far as they are there.
    fn ideal(&self) -> f64 {
        let megabits = OBJECT as f64 * 8e-6;
        if !self.dies {
            return megabits / self.capacity();
        }
        let rest = self.sources[1..].iter().map(|(rate, _)| rate).sum::<f64>() * PAYLOAD;
        DIES + (megabits - DIES * self.capacity()) / rest
    }

    fn run(&self, seed: u64) -> Received {
        let mut links = Links::new(seed);
        let rough = if self.rough { "loss = 0.01\nreorder = { share = 0.01, delay = \"3ms\" }\n" } else { "" };
        if let Some(rate) = self.access {
            links.link(["gate", "user"], &format!("rate = \"{rate} Mbit/s\"\nqueue = \"droptail:packets=500\""), "");
        }
        let gate = if self.access.is_some() { "gate" } else { "user" };
        let names: Vec<String> = (1..=self.sources.len()).map(|number| format!("source{number}")).collect();
        for (name, (rate, rtt)) in names.iter().zip(self.sources) {
            let delay = format!("delay = \"{}ms\"\n", rtt / 2.0);
            let queue = (rate * rtt * 1000.0 / 8.0 / 1458.0 * 2.0).ceil().max(64.0);
            let down = format!("rate = \"{rate} Mbit/s\"\nqueue = \"droptail:packets={queue}\"\n{delay}{rough}");
            links.link([name, gate], &down, &delay);
        }
        let mut network = links.world(300);
        let object = SyntheticObject::new(OBJECT, Seed(seed));
        let routers: Vec<_> = names.iter().map(|name| network.router(name, std::slice::from_ref(&object))).collect();
        let fetch = network.receiver("user", &object, &routers);
        if self.dies {
            network.world.run_until(Time::from_millis((DIES * 1000.0) as u64));
            network.world.cut_source(fetch, 0);
        }
        network.world.run_until(Time::NEVER);
        network.received(fetch)
    }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if let Some(refused) = bench.virtual_only() {
        return Ok(refused);
    }
    let runs: Vec<Vec<Received>> =
        CASES.iter().map(|case| seeds(bench, 3).map(|seed| case.run(seed)).collect()).collect();
    let mbps = |received: &Received| OBJECT as f64 * 8e-6 / received.seconds();
    let cell = |at: usize, ours: String, holds: bool| run::cell("sources", CASES[at].name, ours, holds);
    let all = || 0..CASES.len();
    let used = |at: usize| {
        let (got, most) = (typical(&runs[at], mbps), OBJECT as f64 * 8e-6 / CASES[at].ideal());
        cell(at, format!("{} of {} Mbit/s", short(got), short(most)), got >= 0.9 * most)
    };
    let more = |at: usize| {
        let (ours, holds) = Received::little_more(&runs[at]);
        cell(at, ours, holds)
    };
    let whole = |at: usize| {
        let (ours, holds) = Received::all_whole(&runs[at]);
        cell(at, ours, holds)
    };
    let claims = vec![
        claim(
            "an object comes at 90 % or more of what the links together can carry, the start and the end included (target of ours)",
            OURS,
            "",
            all().map(used).collect(),
        ),
        claim("at most 2 % more bytes than the object's come (target of ours)", OURS, "", all().map(more).collect()),
        claim("every byte comes out once, in order and right (target of ours)", OURS, "", all().map(whole).collect()),
    ];
    let row = |at: usize| {
        let figures: [&dyn Fn(&Received) -> f64; 5] = [
            &mbps,
            &|_| OBJECT as f64 * 8e-6 / CASES[at].ideal(),
            &|received| received.more,
            &|received| received.stats.duplicates as f64,
            &|received| received.stats.reassigned as f64,
        ];
        plain(CASES[at].name, figures.map(|figure| short(typical(&runs[at], figure))))
    };
    let last = &runs[CASES.len() - 1][0];
    Ok(Findings {
        setup: vec![format!(
            "An object of {} MB. Rates and round trips: 40 Mbit/s and 20 ms; 20 and 60; 10 and 100; 30 and 40; queues of 2 BDP. Behind \
             one access link of 50 Mbit/s: two of 100 Mbit/s, 20 and 60 ms. What dies, after {DIES} s, is the faster one, without a word.",
            OBJECT / 1_000_000,
        )],
        claims,
        tables: vec![Table::new(
            "By sources",
            "Medians over runs. Possible: what the links carry while they are there. More: bytes beyond the object's stored form. Given \
             back: units that another source was asked for after all.",
            ["Mbit/s", "possible", "more, %", "came twice", "given back"],
            all().map(row),
        )],
        drawings: vec![over_time("Two sources, of which one dies", last, 60.0)],
        ..Findings::default()
    })
}

/// What came from each source over time.
pub(super) fn over_time(title: &str, received: &Received, mbps: f64) -> Drawing {
    let width = BIN.as_secs_f64();
    let classes = palette::classes([OURS]).into_iter().chain(palette::others());
    let lines = received.bins.iter().zip(classes).map(|(bins, class)| {
        // Means over a fifth of a second.
        let points = bins.chunks(4).enumerate().map(|(at, bins)| {
            let rate = bins.iter().sum::<u64>() as f64 * 8e-6 / (4.0 * width);
            ((at as f64 + 0.5) * 4.0 * width, Some(rate))
        });
        PlotLine::new(class, points)
    });
    rates_over_time(
        title,
        received.seconds().min(600.0),
        mbps,
        lines.collect(),
        format!("{OURS}, first run: one line a source."),
    )
}
