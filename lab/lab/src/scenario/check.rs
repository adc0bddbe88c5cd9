//! Whether a scenario can run: the first thing that is wrong, its key and what to write instead.

use paceline_cc::datapath::{ICN, UDP};
use paceline_cc::{Bytes, Nanos, Rate, resume};

use paceline_experiment::{Cut, Misbehaviour, Poisson};

use super::{Cross, Flow, KeyError, Scenario, Who, Workload, media};
use crate::contestant::Contestant;

impl Scenario {
    /// Whether all of it can run.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(super) fn check(&self) -> Result<(), KeyError> {
        let wrong = |key: &str, problem: &str| Err(KeyError::new(key, problem));
        if self.name.trim().is_empty() {
            return wrong("name", "it is empty; give the scenario a name, such as \"cellular\"");
        }
        if !(self.seconds > 0.0 && self.seconds <= MAX_SECONDS) {
            let problem =
                format!("{} is not above 0 and at most {MAX_SECONDS}; give seconds, such as 60", self.seconds);
            return Err(KeyError::new("seconds", problem));
        }
        if self.runs == 0 {
            return wrong("runs", "0 runs show nothing; give 1 or more");
        }
        if self.seed > MAX_SEED {
            return wrong("seed", "it is above 2^63 - 1, the largest number of TOML; give a smaller one");
        }
        if self.contestants.is_empty() {
            return wrong("contestants", "there is no contestant; give at least one, such as [\"cubic@tcp\"]");
        }
        self.check_topology()?;
        let mut total: u64 = 0;
        for (index, flow) in self.flows.iter().enumerate() {
            flow.check().map_err(|(key, problem)| KeyError::new(format!("flows[{index}].{key}"), problem))?;
            media::check(&flow.workload, flow.contestants(&self.contestants))
                .map_err(|(key, problem)| KeyError::new(format!("flows[{index}].workload{key}"), problem))?;
            total += u64::from(flow.count);
            if total > MAX_FLOWS {
                let problem = format!("more than {MAX_FLOWS} flows in one world; take fewer");
                return Err(KeyError::new(format!("flows[{index}].count"), problem));
            }
        }
        self.check_memory()?;
        self.check_receivers()?;
        self.check_programs()?;
        self.check_telemetry()?;
        self.check_when()?;
        for (index, cross) in self.cross.iter().enumerate() {
            cross.check().map_err(|(key, problem)| KeyError::new(format!("cross[{index}].{key}"), problem))?;
        }
        Ok(())
    }

    /// Whether receivers that are to misbehave acknowledge anything.
    fn check_receivers(&self) -> Result<(), KeyError> {
        for (index, flow) in self.flows.iter().enumerate() {
            let Some(receiver) = flow.receiver else { continue };
            let wrong = |problem: String| Err(KeyError::new(format!("flows[{index}].receiver"), problem));
            for contestant in flow.contestants(&self.contestants) {
                let name = contestant.via.row().datapath.name;
                if name == ICN.name {
                    return wrong(format!(
                        "the receiver of {contestant} asks for data and acknowledges none; leave it out, or race over @tcp or @udp"
                    ));
                }
                if name == UDP.name && receiver == Misbehaviour::Divides {
                    return wrong(format!(
                        "the receiver of {contestant} acknowledges whole packets, which cannot be divided; leave it out, or race over @tcp"
                    ));
                }
            }
            let endless = matches!(flow.workload, Workload::Bulk | Workload::OnOff(_));
            if receiver == Misbehaviour::Optimistic && endless {
                let problem = "without losses nothing would hold back what has no end; add workload = { rate = \"50 Mbit/s\" } or { bytes = \"10MB\" }";
                return wrong(problem.to_owned());
            }
        }
        Ok(())
    }

    /// Whether flows that are to remember can.
    fn check_memory(&self) -> Result<(), KeyError> {
        for (index, flow) in self.flows.iter().enumerate() {
            let wrong = |(key, problem): Wrong| Err(KeyError::new(format!("flows[{index}].{key}"), problem));
            let Some(key) = flow.memory() else { continue };
            let whose = flow.contestants(&self.contestants);
            let resumes =
                |one: &Contestant| one.controller.start_up().is_some_and(|start| start.name == resume::ENTRY.name);
            if !whose.iter().any(resumes) {
                let problem = "no contestant of this flow makes use of it; leave it out, or let one start so, such as \"cubic:start=resume@tcp\"";
                return wrong((key, problem));
            }
            if flow.remember && !matches!(flow.workload, Workload::Poisson(_)) {
                return wrong((
                    "remember",
                    "it is for flows that come one after the other; add workload = { poisson = ... }, or say what is \"remembered\"",
                ));
            }
        }
        Ok(())
    }
}

/// Longest run, seconds: 115 days (our choice, far below what nanoseconds can hold).
pub(super) const MAX_SECONDS: f64 = 1e7;
/// Largest seed: TOML has no larger numbers.
pub(super) const MAX_SEED: u64 = i64::MAX as u64;
/// Most flows of a world (our choice: memory).
const MAX_FLOWS: u64 = 100_000;

/// A key of a part, and the problem with how to fix it.
pub(super) type Wrong = (&'static str, &'static str);

impl Flow {
    /// The first of the two keys about what earlier flows learnt.
    fn memory(&self) -> Option<&'static str> {
        self.remembered.map(|_| "remembered").or_else(|| self.remember.then_some("remember"))
    }

    /// Whose flow it is in one run or another, where these race.
    fn contestants<'a>(&'a self, racing: &'a [Contestant]) -> &'a [Contestant] {
        match &self.contestant {
            Who::Each => racing,
            Who::Fixed(contestant) => std::slice::from_ref(&**contestant),
        }
    }

    pub(super) fn check(&self) -> Result<(), Wrong> {
        if self.count == 0 {
            return Err(("count", "0 flows send nothing; give 1 or more, or leave the flow out"));
        }
        if self.stop.is_some_and(|stop| stop <= self.start) {
            return Err(("stop", "it is not after start; give a later time"));
        }
        if !(100..=9000).contains(&self.mss) {
            return Err(("mss", "it is not between 100 and 9000 bytes; 1448 fills an Ethernet packet"));
        }
        if !(1..=1000).contains(&self.ack_every) {
            return Err(("ack_every", "it is not between 1 and 1000 packets; TCP's is 2"));
        }
        if self.remembered.is_some_and(|earlier| earlier.window == Bytes(0) || earlier.rtt == Nanos::ZERO) {
            return Err((
                "remembered",
                "a window or an RTT of 0 was never measured; give both, such as { window = \"1MB\", rtt = \"50ms\" }",
            ));
        }
        match &self.workload {
            Workload::Bytes(Bytes(0)) => Err(("workload", "0 bytes are not a flow; give a size such as \"1MB\"")),
            Workload::Rate(Rate::ZERO) => {
                Err(("workload", "a rate of 0 writes nothing; give one such as \"2 Mbit/s\""))
            }
            Workload::Poisson(poisson) => check_family(poisson),
            Workload::OnOff(times) if times.on == Nanos::ZERO => {
                Err(("workload.on_off.on", "a busy time of 0 writes nothing; give one such as \"1s\""))
            }
            _ => Ok(()),
        }
    }
}

fn check_family(family: &Poisson) -> Result<(), Wrong> {
    if family.mean_gap == Nanos::ZERO {
        return Err(("workload.poisson.mean_gap", "0 is not a time between arrivals; give one such as \"100ms\""));
    }
    if !(family.alpha > 0.0 && family.alpha <= 100.0) {
        return Err(("workload.poisson.alpha", "it is not above 0 and at most 100; 1.2 is common for flow sizes"));
    }
    if family.min == Bytes(0) {
        return Err(("workload.poisson.min", "0 bytes are not a flow; give a size such as \"4kB\""));
    }
    if family.max < family.min {
        return Err(("workload.poisson.max", "it is below min; give a larger size"));
    }
    if family.scale.is_some() && family.cut == Cut::Truncate {
        return Err(("workload.poisson.scale", "it says nothing to a truncated distribution; add cut = \"clamp\""));
    }
    if family.scale.is_some_and(|scale| scale == Bytes(0) || scale > family.max) {
        return Err(("workload.poisson.scale", "it is not between 1 byte and max; min is common"));
    }
    Ok(())
}

impl Cross {
    fn check(&self) -> Result<(), Wrong> {
        if self.rate == Rate::ZERO {
            return Err(("rate", "a rate of 0 sends nothing; give one such as \"2 Mbit/s\", or leave it out"));
        }
        if !(20..=65_535).contains(&self.packet.0) {
            return Err(("packet", "it is not between 20 and 65535 bytes; 1500 fills an Ethernet packet"));
        }
        if !(1..=1000).contains(&self.burst) {
            return Err(("burst", "it is not between 1 and 1000 packets; a frame of 10 kB has 7"));
        }
        if self.stop.is_some_and(|stop| stop <= self.start) {
            return Err(("stop", "it is not after start; give a later time"));
        }
        Ok(())
    }
}
