//! The path alone: queueing theory, conservation, Little's law.

use paceline_cc::{Codepoint, Nanos, Rate, Time};
use paceline_experiment::Seed;
use paceline_path::{Direction, Packet, Path};
use rand::RngExt;

use super::Group;
use super::bench::{BenchError, Dumbbell};
use crate::claim::{Claim, ClaimError, Expected};
use paceline_lab::contestant::Contestant;

const SECTION: &str = "The path itself";

const CONSERVED: [&str; 3] = ["cubic@tcp", "bbr@tcp", "copa@udp"];

pub(super) fn groups() -> Result<Vec<Group>, ClaimError> {
    Ok(vec![
        Group::new("M/M/1 and M/D/1", &[], |_| poisson_queues())?,
        Group::new("conservation", &CONSERVED, conservation)?,
    ])
}

/// Mean wait in units of the mean service time, for Poisson arrivals at load `rho` over `count` packets.
fn mean_wait(rho: f64, exponential_service: bool, count: u64) -> Result<f64, BenchError> {
    // 8 Mbit/s: one byte takes a microsecond; a mean packet of 10 kB takes 10 ms.
    let link = Direction {
        rate: Some(Rate::from_mbps(8.0)),
        queue: Some("infinite".parse().expect("a queue's name")),
        ..Direction::default()
    };
    let mut path: Path<()> = link.build(1, Nanos::ZERO, &|_: &str| Err("no trace"))?;
    let mut arrivals = Seed(1).stream("arrivals");
    let mut sizes = Seed(1).stream("sizes");
    let draw = |rng: &mut rand_pcg::Pcg64, mean: f64| -mean * (1.0 - rng.random::<f64>()).ln();
    let (mut now, mut sum, mut left) = (0.0, 0.0, 0);
    let mut sent = 0;
    while left < count {
        let at = if sent < count { Time::from_secs_f64(now) } else { Time::NEVER };
        if path.next() <= at {
            let due = path.next();
            while let Some(packet) = path.pop(due) {
                sum += packet.delay.queue.as_secs_f64();
                left += 1;
            }
            continue;
        }
        let size = if exponential_service { draw(&mut sizes, 10_000.0).max(1.0) } else { 10_000.0 };
        path.push(at, Packet::new(0, size as u32, Codepoint::NotEct, ()));
        sent += 1;
        now += draw(&mut arrivals, 0.010 / rho);
    }
    Ok(sum / count as f64 / 0.010)
}

fn poisson_queues() -> Result<Vec<Claim>, BenchError> {
    let claim = |(name, exponential, rho): (&str, bool, f64)| {
        let theory = rho / (1.0 - rho) / if exponential { 1.0 } else { 2.0 };
        let ours = mean_wait(rho, exponential, 400_000)?;
        let setup = format!("{name} queue, load {rho}, 400 000 packets");
        let claim = Claim::on(SECTION, setup, format!("mean wait {theory:.3} service times"));
        let claim = claim.after("Pollaczek-Khinchine").within(theory, 0.05);
        Ok(claim.measured(format!("{ours:.3}"), &[ours]))
    };
    let queues = [("M/M/1", true, 0.5), ("M/D/1", false, 0.5), ("M/M/1", true, 0.8), ("M/D/1", false, 0.8)];
    queues.into_iter().map(claim).collect()
}

fn conservation(contestants: &[Contestant]) -> Result<Vec<Claim>, BenchError> {
    let mut claims = Vec::new();
    for flow in contestants {
        let run = Dumbbell::new(50.0, 40.0, "droptail:bdp=1").flow(flow, 0.0).flow(flow, 5.0).run()?;
        let setup = format!("two {flow}, 50 Mbit/s, 40 ms, 1 BDP, 60 s");
        let entered: u64 = run.outcome.flows.iter().map(|flow| flow.packets_entered).sum();
        let arrived: u64 = run.outcome.flows.iter().map(|flow| flow.packets_arrived).sum();
        let claim = |text: &str| Claim { contestant: flow.to_string(), ..Claim::on(SECTION, &setup, text) };
        claims.push(
            claim("nothing is delivered that was not sent")
                .expect(Expected::AtMost(entered as f64))
                .expect(Expected::Above(0.0))
                .measured(format!("{entered} in, {arrived} out"), &[arrived as f64, arrived as f64]),
        );
        let utilization = run.utilization();
        claims.push(
            claim("utilisation of the link at most 1")
                .expect(Expected::AtMost(1.0))
                .measured(format!("{utilization:.4}"), &[utilization]),
        );
        // L = lambda W: packets waiting on average against arrivals that were taken in times their mean wait.
        let waiting = run.outcome.hops[0].stats.queued_packet_ns as f64 / 1e9 / run.seconds;
        let waited: f64 = run.outcome.flows.iter().map(|flow| flow.data_split.queue as f64 / 1e9).sum();
        let little = waited / run.seconds;
        claims.push(
            claim("Little's law at the bottleneck: L = lambda W within 1 %")
                .by("Little's law")
                .near(waiting, 0.01)
                .measured(format!("L = {waiting:.2}, lambda W = {little:.2} packets"), &[little]),
        );
    }
    Ok(claims)
}
