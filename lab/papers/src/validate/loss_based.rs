//! Reno, CUBIC and DCTCP against their laws.

use super::Group;
use super::bench::{BenchError, Dumbbell};
use crate::claim::{Claim, ClaimError, Expected};
use paceline_lab::contestant::Contestant;

const SECTION: &str = "Controllers that answer losses and marks";

pub(super) fn groups() -> Result<Vec<Group>, ClaimError> {
    Ok(vec![
        Group::new("Reno's square-root law", &["reno@tcp"], |flows| reno_square_root(&flows[0]))?,
        Group::new("CUBIC's law", &["cubic@tcp"], |flows| cubic_law(&flows[0]))?,
        Group::new("CUBIC's sawtooth", &["cubic@tcp"], |flows| cubic_sawtooth(&flows[0]))?,
        Group::new("DCTCP's threshold", &["dctcp@tcp"], |flows| dctcp_threshold(&flows[0]))?,
    ])
}

/// Mean window in packets over the run, by what arrived in a round trip.
fn lossy(flow: &Contestant, loss: f64, rtt_ms: f64, seconds: u64) -> Result<f64, BenchError> {
    // Fast enough that losses alone hold the window down.
    let bench = Dumbbell::new(10_000.0, rtt_ms, "infinite").loss(loss).flow(flow, 0.0).seconds(seconds);
    let run = bench.run()?;
    Ok(run.outcome.flows[0].packets_arrived as f64 / run.seconds * rtt_ms / 1e3)
}

fn reno_square_root(reno: &Contestant) -> Result<Vec<Claim>, BenchError> {
    let claim = |loss: f64| {
        let theory = 1.31 / loss.sqrt();
        let ours = lossy(reno, loss, 50.0, 600)?;
        let setup = format!("reno, loss {} %, 50 ms, 600 s", loss * 100.0);
        let claim = Claim::on(SECTION, setup, format!("mean window 1.31/sqrt(p) = {theory:.1} packets"));
        let claim = claim.after("Mathis et al. 1997, random losses").within(theory, 0.06);
        Ok(claim.measured(format!("{ours:.1}"), &[ours]))
    };
    [0.0003, 0.001, 0.003, 0.01].into_iter().map(claim).collect()
}

fn cubic_law(cubic: &Contestant) -> Result<Vec<Claim>, BenchError> {
    let mut claims = Vec::new();
    // RFC 9438 section 5.1 has 1.054 for periodic losses; random ones, as here, leave longer gaps in which the cubic
    // grows.
    for (loss, rtt) in [(0.0003_f64, 0.1_f64), (0.0001, 0.1)] {
        let theory = 1.3004 * (rtt / loss).powf(0.75);
        let ours = lossy(cubic, loss, rtt * 1e3, 600)?;
        let setup = format!("cubic, loss {} %, {:.0} ms, 600 s", loss * 100.0, rtt * 1e3);
        let claim = Claim::on(SECTION, setup, format!("mean window 1.30 (RTT/p)^0.75 = {theory:.0} packets"));
        let claim = claim.after("Poojary and Sharma 2015, random loss").within(theory, 0.15);
        claims.push(claim.measured(format!("{ours:.0}"), &[ours]));
    }
    let (loss, rtt) = (0.01_f64, 0.01_f64);
    let theory = (1.5 / loss).sqrt();
    let ours = lossy(cubic, loss, rtt * 1e3, 300)?;
    let setup = "cubic in its Reno-friendly region: loss 1 %, 10 ms, 300 s";
    let claim = Claim::on(SECTION, setup, format!("Reno's window, {theory:.1} packets"));
    let claim = claim.after("RFC 9438 section 4.3").within(theory, 0.20);
    claims.push(claim.measured(format!("{ours:.1}"), &[ours]));
    Ok(claims)
}

fn cubic_sawtooth(cubic: &Contestant) -> Result<Vec<Claim>, BenchError> {
    let run = Dumbbell::new(100.0, 50.0, "droptail:bdp=1").flow(cubic, 0.0).seconds(120).run()?;
    let setup = "cubic, 100 Mbit/s, 50 ms, 1 BDP, 120 s";
    let used = run.utilization() * 100.0;
    let ratio = sawtooth(run.late_window());
    Ok(vec![
        Claim::on(SECTION, setup, "utilisation above 95 %")
            .after("the chirping paper's reference")
            .expect(Expected::Above(95.0))
            .measured(format!("{used:.1} %"), &[used]),
        Claim::on(SECTION, setup, "after a loss the window is 0.7 of what it was")
            .after("RFC 9438")
            .within(0.7, 0.05)
            .measured(ratio.map_or("no reduction".to_owned(), |ratio| format!("{ratio:.3}")), ratio.as_slice()),
    ])
}

/// Mean ratio of a local bottom of the window to the peak before it, over clear drops.
fn sawtooth(windows: &[f64]) -> Option<f64> {
    let (mut ratios, mut peak, mut bottom) = (Vec::new(), f64::MIN, f64::MAX);
    for window in windows {
        if *window < 0.85 * peak {
            bottom = bottom.min(*window);
        }
        if *window > bottom * 1.05 {
            ratios.push(bottom / peak);
            (peak, bottom) = (*window, f64::MAX);
        }
        peak = peak.max(*window);
    }
    (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
}

fn dctcp_threshold(dctcp: &Contestant) -> Result<Vec<Claim>, BenchError> {
    let run = Dumbbell::new(100.0, 15.0, "step:threshold=1ms,limit=2MB").flow(dctcp, 0.0).run()?;
    let setup = "dctcp, 100 Mbit/s, 15 ms, step marking at 1 ms, 60 s";
    let (used, max) = (run.utilization() * 100.0, run.late_queue_max_ms());
    let mean = run.late_queue_packets() * 0.12;
    Ok(vec![
        Claim::on(SECTION, setup, "utilisation above 95 %")
            .expect(Expected::Above(95.0))
            .measured(format!("{used:.1} %"), &[used]),
        Claim::on(SECTION, setup, "queue settles about the threshold: mean 0.5 to 1.2 ms")
            .expect(Expected::Between(0.5, 1.2))
            .measured(format!("{mean:.2} ms"), &[mean]),
        Claim::on(SECTION, setup, "largest queue in steady state below 2 ms")
            .after("RFC 8257: K + N packets")
            .expect(Expected::Below(2.0))
            .expect(Expected::Above(0.0))
            .measured(format!("{max:.2} ms"), &[max, max]),
    ])
}
