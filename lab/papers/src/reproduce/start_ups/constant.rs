//! Alone on links of constant rates, from 1 Mbit/s to 10 Gbit/s.

use super::alone::{Place, Started, agreement, simulated, starts, via};
use super::{ALONE, claims, summary};
use crate::reproduce::prelude::*;

/// Rates in Mbit/s, round trips in ms, queues in products.
const RATES: [f64; 5] = [1.0, 10.0, 100.0, 1000.0, 10_000.0];
const RTTS_MS: [f64; 3] = [10.0, 50.0, 200.0];
const QUEUES: [&str; 4] = ["0.5", "1", "4", "8"];
/// From here on one queue, of 1 BDP, is enough: more take minutes (our choice).
const FAST: f64 = 10_000.0;
/// What is smaller is full with the initial window.
const LEAST_BDP: f64 = 10.0;
/// The place that is drawn.
const SHOWN: &str = "100 Mbit/s, 50 ms, 1 BDP";
/// Those of real time, where a run takes as long as it says.
const REAL: [&str; 2] = ["10 Mbit/s, 50 ms, 1 BDP", SHOWN];

fn places() -> Vec<Place> {
    let mut places = Vec::new();
    for mbps in RATES {
        for rtt_ms in RTTS_MS {
            for queue in QUEUES.into_iter().filter(|queue| mbps < FAST || *queue == "1") {
                let rate = if mbps < 1000.0 { format!("{mbps} Mbit/s") } else { format!("{} Gbit/s", mbps / 1000.0) };
                let place = Place::constant(format!("{rate}, {rtt_ms} ms, {queue} BDP"), mbps, rtt_ms, queue);
                // Long enough for forty round trips.
                let place = place.set("seconds", &(rtt_ms * 0.04).max(4.0).to_string());
                if queue == "1" && mbps < FAST {
                    let name = format!("{}, paced", place.name);
                    places.push(Place { name, ..place.clone() }.set("flows.0.paced", "true"));
                }
                places.push(place);
            }
        }
    }
    places.retain(|place| place.bdp >= LEAST_BDP);
    places
}

pub(super) fn conduct(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let mut places = places();
    places.retain(|place| !bench.is_real() || REAL.contains(&place.name.as_str()));
    let via = via(bench);
    let started = starts(bench, &places, via)?;
    let shown = |one: &&Started| one.place.name == SHOWN;
    let mut all = vec![claims::exit_two_rounds_late(&started)];
    all.extend(claims::rapid(&started));
    all.extend(claims::best(&started));
    if bench.is_real() {
        all.push(agreement(&started, &simulated(bench, &places, via)?));
    }
    Ok(Findings {
        setup: vec![if bench.is_real() {
            format!("Over UDP: {}.", REAL.join("; "))
        } else {
            format!(
                "{} links: 1 Mbit/s to 10 Gbit/s, 10, 50 and 200 ms, drop-tail of 0.5, 1, 4 and 8 BDP (10 Gbit/s: 1; 1 BDP also with a paced sender), but none whose BDP is below \
                 ten packets, which the initial window fills. One run of each: nothing there is random but hosts' delays.",
                started.len()
            )
        }],
        claims: all,
        tables: vec![summary::table("Alone on links of constant rates", &started, &[]), summary::each(&started)],
        drawings: started.iter().filter(shown).map(|one| summary::drawing(SHOWN, one)).collect(),
        whole: true,
        scenarios: vec![&ALONE],
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_forty_eight_links() {
        let places = places();
        assert_eq!(places.len(), 48);
        assert!(places.iter().any(|place| place.name == SHOWN));
        assert!(places.iter().all(|place| place.bdp > 16.0));
    }
}
