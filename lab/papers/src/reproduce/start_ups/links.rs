//! Alone on links that are hard for a start-up: a geostationary satellite, cellular links, Wi-Fi.

use std::path::PathBuf;

use super::alone::{Downloads, Place, Started, agreement, downloads, percentile, simulated, size, starts, time, via};
use super::measure::{Frame, PACKET};
use super::{ALONE, START_UPS, WIFI, claims, summary};
use crate::reproduce::bench::{SHIPPED_TRACES, mean_rate};
use crate::reproduce::prelude::*;

/// A satellite's rate in Mbit/s and round trip in ms.
const SATELLITE: (f64, f64) = (250.0, 600.0);
/// Its queues in products. Downloads meet 1 BDP, steady and with jitter.
const QUEUES: [&str; 6] = ["0.25", "0.5", "1", "2", "4", "8"];
const LOSS: &str = "0.0001";
/// By so much a packet may be later than the one before it, as over links that are shared in turns (our choice: above the 16 ms that HyStart
/// takes for a queue at most).
const JITTER: &str = "40ms";
/// Runs where something is random.
const RUNS: &str = "10";

fn over_satellite(queue: &str) -> Place {
    let (mbps, rtt_ms) = SATELLITE;
    Place::constant(format!("{queue} BDP"), mbps, rtt_ms, queue).set("seconds", "24")
}

pub(super) fn satellite(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if let Some(refused) = bench.virtual_only() {
        return Ok(refused);
    }
    let mut places: Vec<Place> = QUEUES.into_iter().map(over_satellite).collect();
    let paced = over_satellite("1").set("flows.0.paced", "true");
    places.push(Place { name: "1 BDP, paced".to_owned(), ..paced });
    let lossy = over_satellite("1").set("down.loss", LOSS).set("runs", RUNS);
    places.push(Place { name: format!("1 BDP, loss {LOSS}"), ..lossy });
    let swinging = over_satellite("1").set("down.jitter.max", JITTER).set("runs", RUNS);
    places.push(Place { name: format!("1 BDP, jitter {JITTER}"), ..swinging });
    let started = starts(bench, &places, "tcp")?;
    let places =
        [over_satellite("1"), started[started.len() - 1].place.clone()].map(|place| place.set("seconds", "60"));
    let loaded = downloads(bench, &places, &[100_000, 1_000_000, 5_300_000, 10_000_000, 100_000_000])?;
    let clean = &started[..QUEUES.len()];
    let mut all = vec![claims::exit_between(clean), claims::geo_sooner(&places, &loaded)];
    all.extend(claims::too_early(&started[started.len() - 1..]));
    all.extend(claims::rapid(clean));
    all.push(claims::resumes_sooner(&loaded));
    all.push(claims::resumes_safely(clean, None));
    all.extend(claims::best(&started));
    let shown = |one: &&Started| one.place.name == "1 BDP";
    Ok(Findings {
        setup: vec![format!(
            "250 Mbit/s, 300 ms each way, drop-tail of 0.25 to 8 BDP; with 1 BDP also a paced sender, and, {RUNS} runs, a random loss of {LOSS} and a jitter of {JITTER}."
        )],
        claims: all,
        tables: vec![
            summary::table("Alone over a geostationary satellite", &started, &[]),
            summary::each(&started),
            sizes("Completion over a satellite, by queue and size", &places, &loaded),
        ],
        drawings: started.iter().filter(shown).map(|one| summary::drawing("Satellite, 1 BDP", one)).collect(),
        scenarios: vec![&ALONE],
        ..Findings::default()
    })
}

/// Completion times, median and 95th percentile.
fn sizes(title: &str, places: &[Place], loaded: &[Downloads]) -> Table {
    let row = |one: &Downloads| {
        let cell = |who: usize| {
            let (middle, late) = (time(one.median(who)), time(percentile(&one.times[who], 0.95)));
            (if middle == late { middle } else { format!("{middle}, {late}") }, String::new())
        };
        (format!("{}: {}", places[one.place].name, size(one.bytes)), (0..START_UPS.len()).map(cell).collect())
    };
    Table::new(
        title,
        "Median and 95th percentile over runs.",
        START_UPS.iter().map(|who| who.name),
        loaded.iter().map(row),
    )
}

/// Round trip of the cellular links in ms.
const CELLULAR_MS: f64 = 50.0;

pub(super) fn cellular(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    let traces: Vec<PathBuf> = match &bench.settings.traces[..] {
        [] => SHIPPED_TRACES.iter().map(|(path, _)| PathBuf::from(path)).collect(),
        given => given.to_vec(),
    };
    let place = |trace: &PathBuf| -> Result<Place, ReproduceError> {
        let mbps = mean_rate(trace)?.as_mbps();
        let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy().into_owned();
        let set =
            [("down.queue", "droptail:bytes=2MB".to_owned()), ("seconds", "10".to_owned()), ("runs", RUNS.to_owned())];
        let rtt = CELLULAR_MS / 1e3;
        Ok(Place {
            name,
            file: &ALONE,
            set: set.map(|(key, value)| (key.to_owned(), value)).into(),
            trace: Some(trace.clone()),
            // Over 100 ms a cellular link has a rate.
            frame: Frame { rtt, window: 0.1, share: 1.0, mbps: None },
            bdp: mbps * 1e6 / 8.0 * rtt / PACKET,
            queue: None,
        })
    };
    let mut places: Vec<Place> = traces.iter().map(place).collect::<Result<_, _>>()?;
    // In real time one link is enough: a run takes as long as it says.
    places.truncate(if bench.is_real() { 1 } else { places.len() });
    let via = via(bench);
    let started = starts(bench, &places, via)?;
    let long: Vec<Place> = places.iter().map(|place| place.clone().set("seconds", "60")).collect();
    let sized: &[u64] = if bench.is_real() { &[] } else { &[100_000, 1_000_000, 10_000_000] };
    let loaded = downloads(bench, &long, sized)?;
    let mut all = vec![claims::exit_between(&started)];
    all.extend(claims::too_early(&started));
    all.extend(claims::best(&started));
    if bench.is_real() {
        all.push(agreement(&started, &simulated(bench, &places, via)?));
    }
    Ok(Findings {
        setup: vec![format!(
            "{} over each trace, which begin elsewhere in it; 25 ms each way, drop-tail of 2 MB. A BDP is that of the mean rate.",
            counted(started[0].of[0].runs.len(), "run")
        )],
        claims: all,
        tables: vec![
            summary::table("Alone over cellular links", &started, &[]),
            summary::each(&started),
            sizes("Completion over cellular links, by trace and size", &places, &loaded),
        ],
        drawings: started.iter().take(1).map(|one| summary::drawing(&one.place.name, one)).collect(),
        whole: true,
        scenarios: vec![&ALONE],
        ..Findings::default()
    })
}

/// Round trip over Wi-Fi without a queue in seconds: the wire's, and time on the air.
const WIFI_RTT: f64 = 0.021;

pub(super) fn wifi(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if let Some(refused) = bench.virtual_only() {
        return Ok(refused);
    }
    let beside = |competitors: u32| -> Result<Place, ReproduceError> {
        let name = match competitors {
            0 => "alone".to_owned(),
            some => format!("beside {some} stations"),
        };
        let set = vec![("links.radio.wifi.competitors".to_owned(), competitors.to_string())];
        let frame = Frame { rtt: WIFI_RTT, window: 0.05, share: 1.0, mbps: None };
        let place = Place { name, file: &WIFI, set, trace: None, frame, bdp: 0.0, queue: None };
        // What the channel carries when a queue is never empty.
        let setup = place.clone().set("seconds", "10").set("runs", "1").setup("cubic:start=slow@tcp");
        let mbps = bench.run(&[setup], |_, run| run.mbps(|flow| flow.wire_bytes_arrived)[0])?[0][0];
        let frame = Frame { mbps: Some(mbps), ..place.frame };
        Ok(Place { frame, bdp: mbps * 1e6 / 8.0 * WIFI_RTT / PACKET, ..place })
    };
    let places = [beside(0)?, beside(2)?, bad_wifi()];
    let started = starts(bench, &places, "tcp")?;
    let long = places.clone().map(|place| place.set("seconds", "60"));
    let loaded = downloads(bench, &long, &[100_000, 1_000_000, 10_000_000])?;
    let mut all: Vec<Claim> = claims::too_early(&started).into();
    all.extend(claims::best(&started));
    Ok(Findings {
        setup: vec![format!(
            "866.7 Mbit/s on the air, 20 ms of wire, {RUNS} runs. What is free is what CUBIC has in 10 s: {} Mbit/s alone, {} beside two stations \
             that always send. Bad Wi-Fi is that of C4: 10 Mbit/s, 2 ms, a queue of 250 ms, packets held back in both directions.",
            short(places[0].frame.mbps.unwrap_or(0.0)),
            short(places[1].frame.mbps.unwrap_or(0.0))
        )],
        claims: all,
        tables: vec![
            summary::table("Alone over Wi-Fi", &started, &[]),
            summary::each(&started),
            sizes("Completion over Wi-Fi, by competitors and size", &places, &loaded),
        ],
        drawings: started.iter().take(1).map(|one| summary::drawing("Wi-Fi, alone", one)).collect(),
        scenarios: vec![&WIFI],
        ..Findings::default()
    })
}

/// C4's bad Wi-Fi (draft-huitema-ccwg-c4-test): 10 Mbit/s, 1 ms each way, a queue of 250 ms, packets that are held back, in the mean by 14 ms.
fn bad_wifi() -> Place {
    let place = Place::constant("bad Wi-Fi", 10.0, 2.0, "1").set("down.queue", "droptail:packets=208");
    let place =
        place.set("down.jitter.wifi", "7ms").set("up.jitter.wifi", "7ms").set("runs", RUNS).set("seconds", "10");
    let rtt = 0.03;
    // A rate is one over times that are longer than what holds packets back.
    let frame = Frame { rtt, window: 0.2, share: 1.0, mbps: None };
    Place { frame, bdp: 10e6 / 8.0 * rtt / PACKET, queue: None, ..place }
}

/// What a policer passes in Mbit/s, the link before which it stands, the round trip in ms, and the bytes it has saved up.
const POLICED: (f64, f64, f64) = (20.0, 1000.0, 50.0);
const BURSTS: [&str; 2] = ["30kB", "500kB"];

fn behind_policer(burst: &str) -> Place {
    let (mbps, link, rtt_ms) = POLICED;
    let place = Place::constant(format!("burst of {burst}"), link, rtt_ms, "1").set("runs", RUNS).set("seconds", "10");
    let place = place.set("flows.0.start", "0ms..50ms").set("down.policer.burst", burst);
    let frame = Frame { mbps: Some(mbps), ..Frame::constant(rtt_ms / 1e3, mbps) };
    let bdp = mbps * 1e6 / 8.0 * frame.rtt / PACKET;
    Place { frame, bdp, queue: Some(0.0), ..place.set("down.policer.rate", &format!("{mbps} Mbit/s")) }
}

pub(super) fn policer(bench: &Bench<'_>) -> Result<Findings, ReproduceError> {
    if let Some(refused) = bench.virtual_only() {
        return Ok(refused);
    }
    let started = starts(bench, &BURSTS.map(behind_policer), "tcp")?;
    let mut all: Vec<Claim> = claims::rapid(&started).into();
    all.extend(claims::best(&started));
    Ok(Findings {
        setup: vec![format!(
            "A token bucket of 20 Mbit/s without a queue before a link of 1 Gbit/s, 50 ms, bursts of {}; {RUNS} runs. A BDP is that of the 20 Mbit/s.",
            BURSTS.join(" and ")
        )],
        claims: all,
        tables: vec![summary::table("Alone behind a policer", &started, &[]), summary::each(&started)],
        scenarios: vec![&ALONE],
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_satellite_holds_twelve_and_a_half_thousand_packets() {
        assert!((over_satellite("1").bdp - 12_500.0).abs() < 1e-6);
        assert!(SHIPPED_TRACES.iter().all(|(path, _)| mean_rate(Path::new(path)).is_ok()));
    }
}
