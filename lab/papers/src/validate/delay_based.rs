//! BBR, Copa, Verus and Sprout against what their papers and specifications say.

use super::Group;
use super::bench::{BenchError, Dumbbell};
use crate::claim::{Claim, ClaimError, Expected};
use paceline_lab::contestant::Contestant;

const SECTION: &str = "Controllers that watch rate and delay";

/// Ratios of Verus, each with the median and the 95th percentile of the RTT that it settles near, ms.
const VERUS: [(&str, u32, f64, f64); 3] =
    [("verus:r=2@udp", 2, 34.0, 42.0), ("verus:r=4@udp", 4, 72.0, 86.0), ("verus:r=6@udp", 6, 108.0, 130.0)];

pub(super) fn groups() -> Result<Vec<Group>, ClaimError> {
    Ok(vec![
        Group::new("BBR", &["bbr@tcp"], |flows| bbr(&flows[0]))?,
        Group::new("Copa", &["copa:mode=default@udp"], |flows| copa(&flows[0]))?,
        Group::new("Verus", &VERUS.map(|(name, ..)| name), verus)?,
        Group::new("Sprout", &["sprout@udp"], |flows| sprout(&flows[0]))?,
    ])
}

fn bbr(flow: &Contestant) -> Result<Vec<Claim>, BenchError> {
    let run = Dumbbell::new(100.0, 20.0, "infinite").flow(flow, 0.0).run()?;
    let setup = "bbr, 100 Mbit/s, 20 ms, infinite buffer, 60 s";
    let used = run.utilization() * 100.0;
    let start = run.outcome.queue.max_ms().unwrap_or(f64::NAN);
    let late = run.late_queue_max_ms();
    Ok(vec![
        Claim::on(SECTION, setup, "at least 97 % of the link (2 % ProbeRTT, 1 % margin)")
            .expect(Expected::AtLeast(97.0))
            .measured(format!("{used:.1} %"), &[used]),
        Claim::on(SECTION, setup, "start-up queues at most 1.89 BDP and 3 bursts (Linux `tcp_bbr.c`): 49 ms")
            .expect(Expected::AtMost(49.0))
            .measured(format!("{start:.1} ms"), &[start]),
        Claim::on(SECTION, setup, "afterwards at most 1 BDP of queue, 20 ms")
            .after("Cardwell et al. 2016")
            .expect(Expected::AtMost(20.0))
            .expect(Expected::Above(0.0))
            .measured(format!("{late:.1} ms"), &[late, late]),
    ])
}

fn copa(flow: &Contestant) -> Result<Vec<Claim>, BenchError> {
    let mut claims = Vec::new();
    for (mbps, rtt) in [(12.0, 20.0), (12.0, 40.0), (12.0, 100.0), (100.0, 20.0)] {
        let run = Dumbbell::new(mbps, rtt, "infinite").flow(flow, 0.0).run()?;
        let (used, packets) = (run.late_utilization(), run.late_queue_packets());
        let setup = format!("copa, delta 0.5, {mbps} Mbit/s, {rtt} ms, steady state");
        let claim = Claim::on(SECTION, &setup, "utilisation at least 0.99").after("Arun and Balakrishnan 2018");
        claims.push(claim.expect(Expected::AtLeast(0.99)).measured(format!("{used:.3}"), &[used]));
        let claim = Claim::on(SECTION, setup, "1.25/delta = 2.5 packets wait on average");
        let claim = claim.by("Copa's queue of 1.25/delta").within(2.5, 0.3);
        claims.push(claim.measured(format!("{packets:.2}"), &[packets]));
    }
    Ok(claims)
}

fn verus(flows: &[Contestant]) -> Result<Vec<Claim>, BenchError> {
    let mut claims = Vec::new();
    for (flow, (name, ratio, p50, p95)) in flows.iter().zip(VERUS) {
        let run = Dumbbell::new(12.0, 20.0, "infinite").flow(flow, 0.0).seconds(120).run()?;
        let setup = format!("verus, R = {ratio}, 12 Mbit/s, 20 ms, 120 s");
        let used = run.utilization();
        let claim = |text: String| Claim { contestant: name.to_owned(), ..Claim::on(SECTION, &setup, text) };
        let utilisation = claim("utilisation at least 0.97".to_owned()).expect(Expected::AtLeast(0.97));
        claims.push(utilisation.measured(format!("{used:.3}"), &[used]));
        let quantile = |q| run.outcome.rtt.quantile_ms(q).unwrap_or(f64::NAN);
        let (ours50, ours95) = (quantile(0.5), quantile(0.95));
        let settles = claim(format!("RTT settles near its ratio: median {p50} ms, 95th percentile {p95} ms"));
        let ours = format!("{ours50:.0} and {ours95:.0} ms");
        claims.push(settles.by("Verus's ratios").near(p50, 0.2).within(p95, 0.2).measured(ours, &[ours50, ours95]));
    }
    Ok(claims)
}

fn sprout(flow: &Contestant) -> Result<Vec<Claim>, BenchError> {
    let mut claims = Vec::new();
    // At most 1000 packets/s are believed, so that at most C[5] - C[0] = 87 packets leave in a loop of feedback: a round
    // trip and the 20 ms between two forecasts.
    for (rtt, wanted) in [(40.0, 17.0), (80.0, 10.5)] {
        let run = Dumbbell::new(48.0, rtt, "infinite").flow(flow, 0.0).run()?;
        let mbps = run.mbps();
        let setup = format!("sprout, 48 Mbit/s, {rtt} ms, 60 s");
        let claim = Claim::on(SECTION, setup, format!("its ceiling of 87 packets a loop: about {wanted} Mbit/s"));
        let claim = claim.by("Sprout's ceiling").within(wanted, 0.15).measured(format!("{mbps:.2} Mbit/s"), &[mbps]);
        claims.push(claim.note("the release: at most 11.5 Mbit/s, reached at 75 ms"));
    }
    for (rate, p95) in [(300.0, 44.0), (500.0, 54.0), (800.0, 62.0)] {
        let run = Dumbbell::new(rate * 0.012, 20.0, "infinite").flow(flow, 0.0).run()?;
        let ours = run.outcome.queue.quantile_ms(0.95).unwrap_or(f64::NAN);
        let setup = format!("sprout, {rate} packets/s, 20 ms, 60 s");
        let claim = Claim::on(SECTION, setup, format!("95th percentile of queueing delay about {p95} ms"));
        claims.push(claim.by("Sprout's delay").within(p95, 0.25).measured(format!("{ours:.0} ms"), &[ours]));
    }
    Ok(claims)
}
