//! Reno, CUBIC and DCTCP against their laws.

use paceline_path::PathError;

use super::bench::Dumbbell;
use super::{Check, Group, near};

const SECTION: &str = "Controllers that answer losses and marks";

pub(super) fn groups() -> Vec<Group> {
    vec![Box::new(reno_square_root), Box::new(cubic_law), Box::new(cubic_sawtooth), Box::new(dctcp_threshold)]
}

/// Mean window in packets over the run, by what arrived in a round trip.
fn lossy(controller: &str, loss: f64, rtt_ms: f64, seconds: u64) -> Result<f64, PathError> {
    // Fast enough that losses alone hold the window down.
    let bench = Dumbbell::new(10_000.0, rtt_ms, "infinite").loss(loss).flow(controller, 0.0).seconds(seconds);
    let run = bench.run()?;
    Ok(run.outcome.flows[0].packets_arrived as f64 / run.seconds * rtt_ms / 1e3)
}

fn reno_square_root() -> Result<Vec<Check>, PathError> {
    let mut checks = Vec::new();
    for loss in [0.0003_f64, 0.001, 0.003, 0.01] {
        let theory = 1.31 / loss.sqrt();
        let ours = lossy("reno@tcp", loss, 50.0, 600)?;
        checks.push(
            Check::new(
                SECTION,
                format!("reno, loss {} %, 50 ms, 600 s", loss * 100.0),
                format!(
                    "mean window 1.31/sqrt(p) = {theory:.1} packets (Mathis et al. 1997, random losses), within 6 %"
                ),
            )
            .got(format!("{ours:.1}"), near(ours, theory, 0.06)),
        );
    }
    Ok(checks)
}

fn cubic_law() -> Result<Vec<Check>, PathError> {
    let mut checks = Vec::new();
    // RFC 9438 section 5.1 has 1.054 for periodic losses; random ones, as here, leave longer gaps in which the cubic
    // grows.
    for (loss, rtt) in [(0.0003_f64, 0.1_f64), (0.0001, 0.1)] {
        let theory = 1.3004 * (rtt / loss).powf(0.75);
        let ours = lossy("cubic@tcp", loss, rtt * 1e3, 600)?;
        checks.push(
            Check::new(
                SECTION,
                format!("cubic, loss {} %, {:.0} ms, 600 s", loss * 100.0, rtt * 1e3),
                format!("mean window 1.30 (RTT/p)^0.75 = {theory:.0} packets (Poojary and Sharma 2015, random loss), within 15 %"),
            )
            .got(format!("{ours:.0}"), near(ours, theory, 0.15)),
        );
    }
    let (loss, rtt) = (0.01_f64, 0.01_f64);
    let theory = (1.5 / loss).sqrt();
    let ours = lossy("cubic@tcp", loss, rtt * 1e3, 300)?;
    checks.push(
        Check::new(
            SECTION,
            "cubic in its Reno-friendly region: loss 1 %, 10 ms, 300 s",
            format!("Reno's window, {theory:.1} packets (RFC 9438 section 4.3), within 20 %"),
        )
        .got(format!("{ours:.1}"), near(ours, theory, 0.20)),
    );
    Ok(checks)
}

fn cubic_sawtooth() -> Result<Vec<Check>, PathError> {
    let run = Dumbbell::new(100.0, 50.0, "droptail:bdp=1").flow("cubic@tcp", 0.0).seconds(120).run()?;
    let setup = "cubic, 100 Mbit/s, 50 ms, 1 BDP, 120 s";
    let used = run.utilization() * 100.0;
    let ratio = sawtooth(run.late_window());
    Ok(vec![
        Check::new(SECTION, setup, "utilisation above 95 % (the chirping paper's reference)")
            .got(format!("{used:.1} %"), used > 95.0),
        Check::new(SECTION, setup, "after a loss the window is 0.7 of what it was (RFC 9438), within 5 %").got(
            ratio.map_or("no reduction".to_owned(), |ratio| format!("{ratio:.3}")),
            ratio.is_some_and(|ratio| near(ratio, 0.7, 0.05)),
        ),
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

fn dctcp_threshold() -> Result<Vec<Check>, PathError> {
    let run = Dumbbell::new(100.0, 15.0, "step:threshold=1ms,limit=2MB").flow("dctcp@tcp", 0.0).run()?;
    let setup = "dctcp, 100 Mbit/s, 15 ms, step marking at 1 ms, 60 s";
    let (used, max) = (run.utilization() * 100.0, run.late_queue_max_ms());
    let mean = run.late_queue_packets() * 0.12;
    Ok(vec![
        Check::new(SECTION, setup, "utilisation above 95 %").got(format!("{used:.1} %"), used > 95.0),
        Check::new(SECTION, setup, "queue settles about the threshold: mean 0.5 to 1.2 ms")
            .got(format!("{mean:.2} ms"), (0.5..=1.2).contains(&mean)),
        Check::new(SECTION, setup, "largest queue in steady state below 2 ms (RFC 8257: K + N packets)")
            .got(format!("{max:.2} ms"), max > 0.0 && max < 2.0),
    ])
}
