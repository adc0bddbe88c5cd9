//! A question of ours, which the paper names as future work: the address of a receiver changes in the middle of a fetch.

use crate::reproduce::prelude::*;
use paceline_cc::Time;
use paceline_experiment::Seed;
use paceline_experiment::icn::{BIN, SyntheticObject};

use super::OURS;
use super::network::{Links, Received};
use super::run::{self, claim, seeds};
use super::sources::over_time;

/// When the first address goes, s.
const LEAVES: f64 = 3.0;
/// Seconds of the object that are left then, about.
const AFTER: f64 = 4.0;
/// When all ends that has not.
const ENDS: f64 = 20.0;

/// A way that a receiver may have.
#[derive(Clone, Copy)]
enum Access {
    /// 802.11ac alone on its channel, W1.
    Wifi,
    /// 40 Mbit/s and 50 ms.
    Cellular,
}

struct Case {
    name: &'static str,
    from: Access,
    to: Access,
    /// Seconds without any address.
    gap: f64,
    /// The second address is there before the first one goes, as a second source.
    both: bool,
}

const CASES: [Case; 5] = [
    Case { name: "Wi-Fi to Wi-Fi, at once", from: Access::Wifi, to: Access::Wifi, gap: 0.0, both: false },
    Case { name: "Wi-Fi to Wi-Fi, 300 ms without", from: Access::Wifi, to: Access::Wifi, gap: 0.3, both: false },
    Case { name: "Wi-Fi to cellular, at once", from: Access::Wifi, to: Access::Cellular, gap: 0.0, both: false },
    Case { name: "cellular to Wi-Fi, at once", from: Access::Cellular, to: Access::Wifi, gap: 0.0, both: false },
    Case { name: "Wi-Fi to Wi-Fi, both for a second", from: Access::Wifi, to: Access::Wifi, gap: 0.0, both: true },
];

impl Access {
    /// Links the server with a user of this name.
    fn link(self, links: &mut Links, user: &str) {
        match self {
            Self::Wifi => {
                let wire = "rate = \"1 Gbit/s\"\ndelay = \"0.5ms\"\nqueue = \"droptail:packets=1000\"";
                let radio = "wifi = { phy = \"vht80-2ss-mcs9\" }\nqueue = \"droptail:packets=1000\"";
                let point = format!("{user}-ap");
                links.link(["server", &point], wire, wire);
                links.link([&point, user], radio, radio);
            }
            Self::Cellular => {
                let down = "rate = \"40 Mbit/s\"\ndelay = \"25ms\"\nqueue = \"droptail:packets=350\"";
                links.link(["server", user], down, "delay = \"25ms\"");
            }
        }
    }

    /// Its idle round trip, s (W1 as measured in figure 3b).
    fn rtt(self) -> f64 {
        match self {
            Self::Wifi => 0.0014,
            Self::Cellular => 0.0503,
        }
    }

    /// Bytes of an object that it carries in this many seconds, about.
    fn bytes(self, seconds: f64) -> u64 {
        let mbps = match self {
            Self::Wifi => 570.0,
            Self::Cellular => 37.0,
        };
        (mbps * seconds * 125_000.0) as u64
    }
}

/// What one run found.
struct Handoff {
    received: Received,
    /// From when the new address is there until the first unit comes over it, s.
    first: f64,
    /// And until 90 % of its rate is used over a fifth of a second.
    settled: f64,
}

fn at(seconds: f64) -> Time {
    Time::ZERO + Nanos::from_nanos((seconds * 1e9) as u64)
}

impl Case {
    fn run(&self, seed: u64) -> Handoff {
        let mut links = Links::new(seed);
        self.from.link(&mut links, "one");
        self.to.link(&mut links, "two");
        let mut network = links.world(ENDS as u64);
        let bytes = self.from.bytes(LEAVES) + self.to.bytes(AFTER);
        let object = SyntheticObject::new(bytes, Seed(seed));
        let router = network.router("server", std::slice::from_ref(&object));
        let fetch = network.receiver("one", &object, &[router]);
        let two = network.at("two");
        if self.both {
            network.world.run_until(at(LEAVES - 1.0));
            network.source(fetch, "two", router);
            network.world.run_until(at(LEAVES));
            network.world.drop_source(fetch, 0);
        } else {
            network.world.run_until(at(LEAVES));
            network.world.cut_source(fetch, 0);
            network.world.run_until(at(LEAVES + self.gap));
            network.world.move_source(fetch, 0, two);
        }
        let there = LEAVES + self.gap;
        let before = network.world.node(fetch).last_data();
        let mut first = f64::INFINITY;
        for step in 1..20_000 {
            network.world.run_until(at(there + f64::from(step) * 1e-4));
            let last = network.world.node(fetch).last_data();
            if last > before {
                first = last.as_secs_f64() - there;
                break;
            }
        }
        network.world.run_until(at(ENDS));
        let received = network.received(fetch);
        let end = received.ended.map_or(ENDS, Time::as_secs_f64);
        let rate = received.rate(end - 2.0, end - 0.2);
        let bin = BIN.as_secs_f64();
        let ready = |after: &f64| {
            let from = ((there + after) / bin).round() * bin;
            received.rate(from, from + 0.2) >= 0.9 * rate
        };
        let settled = (0..100).map(|step| f64::from(step) * bin).find(ready).unwrap_or(f64::INFINITY);
        Handoff { received, first, settled }
    }
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if let Some(refused) = bench.virtual_only() {
        return Ok(refused);
    }
    let runs: Vec<Vec<Handoff>> =
        CASES.iter().map(|case| seeds(bench, 3).map(|seed| case.run(seed)).collect()).collect();
    let cell = |at: usize, ours: String, holds: bool| run::cell("handoff", CASES[at].name, ours, holds);
    let ms = |seconds: f64| format!("{} ms", short((seconds * 1e4).round() / 10.0));
    let all = || 0..CASES.len();
    let first = |at: usize| {
        let (got, rtt) = (typical(&runs[at], |run| run.first), CASES[at].to.rtt());
        cell(at, format!("{}, the round trip is {}", ms(got), ms(rtt)), got <= 2.5 * rtt)
    };
    let settled = |at: usize| {
        let got = typical(&runs[at], |run| run.settled);
        cell(at, ms(got), got <= 1.0)
    };
    let more = |at: usize| {
        let (ours, holds) = Received::little_more(runs[at].iter().map(|run| &run.received));
        cell(at, ours, holds)
    };
    let whole = |at: usize| {
        let (ours, holds) = Received::all_whole(runs[at].iter().map(|run| &run.received));
        cell(at, ours, holds)
    };
    let paper =
        "we expect that our mechanism can fast recover the data transmission when the path switches (future work)";
    let claims = vec![
        claim(
            "the first unit comes over the new address within 2.5 of its round trips (target of ours)",
            OURS,
            paper,
            all().map(first).collect(),
        ),
        claim(
            "a second after the new address is there 90 % of its rate is used (target of ours)",
            OURS,
            paper,
            all().map(settled).collect(),
        ),
        claim("at most 2 % more bytes than the object's come (target of ours)", OURS, "", all().map(more).collect()),
        claim("every byte comes out once, in order and right (target of ours)", OURS, "", all().map(whole).collect()),
    ];
    let row = |at: usize| {
        let figures: [fn(&Handoff) -> f64; 4] = [
            |run| run.first * 1e3,
            |run| run.settled * 1e3,
            |run| run.received.more,
            |run| run.received.stats.duplicates as f64,
        ];
        plain(CASES[at].name, figures.map(|figure| short(typical(&runs[at], figure))))
    };
    let drawn = |at: usize| over_time(CASES[at].name, &runs[at][0].received, 700.0);
    Ok(Findings {
        setup: vec![format!(
            "Wi-Fi: W1, each access point on a channel of its own. Cellular: 40 Mbit/s, 50 ms. The first address goes after {LEAVES} s with \
             whatever is on its way to it; the router gives the new one a new token. Both: it is asked as a second source for a second \
             before."
        )],
        claims,
        tables: vec![Table::new(
            "By hand-off",
            "Medians over runs. First: until the first unit over the new address. More: bytes beyond the object's stored form.",
            ["first, ms", "90 %, ms", "more, %", "came twice"],
            all().map(row),
        )],
        drawings: [1, 2, 4].map(drawn).into(),
        ..Findings::default()
    })
}
