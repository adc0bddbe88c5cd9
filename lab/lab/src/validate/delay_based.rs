//! BBR, Copa, Verus and Sprout against what their papers and specifications say.

use paceline_path::PathError;

use super::bench::Dumbbell;
use super::{Check, Group, near};

const SECTION: &str = "Controllers that watch rate and delay";

pub(super) fn groups() -> Vec<Group> {
    vec![Box::new(bbr), Box::new(copa), Box::new(verus), Box::new(sprout)]
}

fn bbr() -> Result<Vec<Check>, PathError> {
    let run = Dumbbell::new(100.0, 20.0, "infinite").flow("bbr@tcp", 0.0).run()?;
    let setup = "bbr, 100 Mbit/s, 20 ms, infinite buffer, 60 s";
    let used = run.utilization() * 100.0;
    let start = run.outcome.queue.max_ms().unwrap_or(f64::NAN);
    let late = run.late_queue_max_ms();
    Ok(vec![
        Check::new(SECTION, setup, "at least 97 % of the link (2 % ProbeRTT, 1 % margin)")
            .got(format!("{used:.1} %"), used >= 97.0),
        Check::new(SECTION, setup, "start-up queues at most 1.89 BDP and 3 bursts (Linux `tcp_bbr.c`): 49 ms")
            .got(format!("{start:.1} ms"), start <= 49.0),
        Check::new(SECTION, setup, "afterwards at most 1 BDP of queue, 20 ms (Cardwell et al. 2016)")
            .got(format!("{late:.1} ms"), late > 0.0 && late <= 20.0),
    ])
}

fn copa() -> Result<Vec<Check>, PathError> {
    let mut checks = Vec::new();
    for (mbps, rtt) in [(12.0, 20.0), (12.0, 40.0), (12.0, 100.0), (100.0, 20.0)] {
        let run = Dumbbell::new(mbps, rtt, "infinite").flow("copa:mode=default@udp", 0.0).run()?;
        let (used, packets) = (run.late_utilization(), run.late_queue_packets());
        let setup = format!("copa, delta 0.5, {mbps} Mbit/s, {rtt} ms, steady state");
        checks.push(
            Check::new(SECTION, setup.clone(), "utilisation at least 0.99 (Arun and Balakrishnan 2018)")
                .got(format!("{used:.3}"), used >= 0.99),
        );
        checks.push(
            Check::new(SECTION, setup, "1.25/delta = 2.5 packets wait on average, within 30 %")
                .got(format!("{packets:.2}"), near(packets, 2.5, 0.3)),
        );
    }
    Ok(checks)
}

fn verus() -> Result<Vec<Check>, PathError> {
    let mut checks = Vec::new();
    for (ratio, p50, p95) in [(2, 34.0, 42.0), (4, 72.0, 86.0), (6, 108.0, 130.0)] {
        let contestant = format!("verus:r={ratio}@udp");
        let run = Dumbbell::new(12.0, 20.0, "infinite").flow(&contestant, 0.0).seconds(120).run()?;
        let setup = format!("verus, R = {ratio}, 12 Mbit/s, 20 ms, 120 s");
        let used = run.utilization();
        checks.push(
            Check::new(SECTION, setup.clone(), "utilisation at least 0.97").got(format!("{used:.3}"), used >= 0.97),
        );
        let quantile = |q| run.outcome.rtt.quantile_ms(q).unwrap_or(f64::NAN);
        let (ours50, ours95) = (quantile(0.5), quantile(0.95));
        checks.push(
            Check::new(
                SECTION,
                setup,
                format!("RTT settles near its ratio: median {p50} ms, 95th percentile {p95} ms, within 20 %"),
            )
            .got(format!("{ours50:.0} and {ours95:.0} ms"), near(ours50, p50, 0.2) && near(ours95, p95, 0.2)),
        );
    }
    Ok(checks)
}

fn sprout() -> Result<Vec<Check>, PathError> {
    let mut checks = Vec::new();
    // At most 1000 packets/s are believed, so that at most C[5] - C[0] = 87 packets leave in a loop of feedback: a round
    // trip and the 20 ms between two forecasts.
    for (rtt, wanted) in [(40.0, 17.0), (80.0, 10.5)] {
        let run = Dumbbell::new(48.0, rtt, "infinite").flow("sprout@udp", 0.0).run()?;
        let mbps = run.mbps();
        checks.push(
            Check::new(
                SECTION,
                format!("sprout, 48 Mbit/s, {rtt} ms, 60 s"),
                format!("its ceiling of 87 packets a loop: about {wanted} Mbit/s, within 15 %"),
            )
            .got(format!("{mbps:.2} Mbit/s"), near(mbps, wanted, 0.15))
            .note("the release's 11.5 Mbit/s is the ceiling of the rate it believes in, reached at 75 ms"),
        );
    }
    for (rate, p95) in [(300.0, 44.0), (500.0, 54.0), (800.0, 62.0)] {
        let run = Dumbbell::new(rate * 0.012, 20.0, "infinite").flow("sprout@udp", 0.0).run()?;
        let ours = run.outcome.queue.quantile_ms(0.95).unwrap_or(f64::NAN);
        checks.push(
            Check::new(
                SECTION,
                format!("sprout, {rate} packets/s, 20 ms, 60 s"),
                format!("95th percentile of queueing delay about {p95} ms, within 25 %"),
            )
            .got(format!("{ours:.0} ms"), near(ours, p95, 0.25)),
        );
    }
    Ok(checks)
}
