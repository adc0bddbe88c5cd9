//! Workloads in time: when flows of a family arrive, and what an application writes when. In every world the same draws.

use paceline_cc::{Nanos, Rate, Time};
use paceline_transport::Steering;
use rand_pcg::Pcg64;

use crate::config::{Cross, OnOff, Poisson, Workload};
use crate::draw;
use crate::media::Frames;
use crate::seed::Seed;

/// The flows of a family: the first arrives when the family starts, each following one after the gap of the one before.
#[derive(Clone, Debug)]
pub struct Arrivals {
    family: Poisson,
    left: u64,
    gaps: Pcg64,
    sizes: Pcg64,
}

/// A flow of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFlow {
    /// What it transfers.
    pub bytes: u64,
    /// Time until the next one arrives.
    pub gap: Nanos,
}

impl Arrivals {
    /// Of the configured flow at `index`; `None` when it is not a family.
    pub fn new(workload: &Workload, seed: Seed, index: usize) -> Option<Self> {
        let Workload::Poisson(family) = workload else { return None };
        let stream = |what| seed.stream(&format!("flow {index} {what}"));
        Some(Self {
            family: family.clone(),
            left: family.count.unwrap_or(u64::MAX),
            gaps: stream("arrivals"),
            sizes: stream("sizes"),
        })
    }
}

impl Iterator for Arrivals {
    type Item = NewFlow;

    fn next(&mut self) -> Option<NewFlow> {
        self.left = self.left.checked_sub(1)?;
        let bytes = draw::size(&mut self.sizes, &self.family);
        Some(NewFlow { bytes, gap: draw::exponential(&mut self.gaps, self.family.mean_gap) })
    }
}

/// What an application does in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppTurn {
    /// It writes this many bytes; [`u64::MAX`]: it begins to write without end.
    Write(u64),
    /// It takes back what has not been sent.
    Cut,
    /// It takes back this many bytes of what has not been sent.
    TakeBack(u64),
}

impl AppTurn {
    /// Does it.
    pub fn act(self, steering: &mut dyn Steering) {
        match self {
            Self::Write(bytes) => steering.write(bytes),
            Self::Cut => _ = steering.cut(),
            Self::TakeBack(bytes) => {
                let unsent = steering.cut();
                steering.write(unsent.saturating_sub(bytes));
            }
        }
    }
}

/// An application that writes in turns. Without end: the driver says when it stops.
#[derive(Clone, Debug)]
pub struct Application {
    kind: Kind,
    rng: Pcg64,
}

#[derive(Clone, Debug)]
enum Kind {
    Rate { rate: Rate, mss: u32 },
    OnOff { times: OnOff, busy: bool },
    Frames(Frames),
}

impl Application {
    /// Of the configured flow at `index`; `None` when it writes all at once.
    pub fn new(workload: &Workload, mss: u32, seed: Seed, index: usize) -> Option<Self> {
        let kind = match workload {
            Workload::Rate(rate) => Kind::Rate { rate: *rate, mss },
            Workload::OnOff(times) => Kind::OnOff { times: times.clone(), busy: false },
            Workload::Media(_) | Workload::MediaRate(_) => Kind::Frames(Frames::new(workload)?),
            Workload::Bulk | Workload::Bytes(_) | Workload::Poisson(_) => return None,
        };
        Some(Self { kind, rng: seed.stream(&format!("flow {index} application")) })
    }

    /// Its frames, where it has such.
    pub fn frames(&self) -> Option<Frames> {
        if let Kind::Frames(frames) = &self.kind { Some(frames.clone()) } else { None }
    }

    /// Its turn that is due at `at`, and the time until the one after that; `permitted` answers what the controller permits
    /// ([`crate::media::permitted`]).
    pub fn turn(&mut self, at: Time, permitted: impl FnOnce() -> Option<Rate>) -> (AppTurn, Nanos) {
        match &mut self.kind {
            Kind::Frames(frames) => frames.turn(at, permitted()),
            Kind::Rate { rate, mss } => {
                let bytes = u64::from(*mss);
                (AppTurn::Write(bytes), rate.time_for(bytes))
            }
            Kind::OnOff { times: OnOff { on, off, random }, busy } => {
                *busy = !*busy;
                let (turn, mean) = if *busy { (AppTurn::Write(u64::MAX), *on) } else { (AppTurn::Cut, *off) };
                (turn, if *random { draw::exponential(&mut self.rng, mean) } else { mean })
            }
        }
    }
}

/// The times between bursts of a source of cross traffic.
#[derive(Clone, Debug)]
pub struct Gaps {
    mean: Nanos,
    /// For gaps that are exponentially distributed.
    rng: Option<Pcg64>,
}

impl Gaps {
    /// Of the configured source at `index`.
    pub fn new(cross: &Cross, seed: Seed, index: usize) -> Self {
        let rng = cross.poisson.then(|| seed.stream(&format!("cross {index}")));
        Self { mean: cross.rate.time_for(u64::from(cross.packet) * u64::from(cross.burst)), rng }
    }

    /// The next one.
    pub fn draw(&mut self) -> Nanos {
        let gap = self.rng.as_mut().map_or(self.mean, |rng| draw::exponential(rng, self.mean));
        gap.max(Nanos::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_cc::Bytes;

    #[test]
    fn an_application_takes_turns_and_a_family_comes_to_its_end() {
        let (on, off) = (Nanos::from_millis(3), Nanos::from_millis(7));
        let workload = Workload::OnOff(OnOff { on, off, random: false });
        let mut application = Application::new(&workload, 1000, Seed(1), 0).unwrap();
        let turns: Vec<_> = (0..3).map(|_| application.turn(Time::ZERO, || None)).collect();
        assert_eq!(turns, [(AppTurn::Write(u64::MAX), on), (AppTurn::Cut, off), (AppTurn::Write(u64::MAX), on)]);

        // 1000 bytes at 8 Mbit/s.
        let mut steady = Application::new(&Workload::Rate(Rate::from_mbps(8.0)), 1000, Seed(1), 0).unwrap();
        assert_eq!(steady.turn(Time::ZERO, || None), (AppTurn::Write(1000), Nanos::from_millis(1)));
        assert!(Application::new(&Workload::Bulk, 1000, Seed(1), 0).is_none());

        let (min, max) = (Bytes(1_000), Bytes(2_000));
        let count = Some(5);
        let family = Poisson { mean_gap: on, alpha: 1.2, min, max, scale: None, cut: crate::Cut::Truncate, count };
        let family = Workload::Poisson(family);
        let flows: Vec<_> = Arrivals::new(&family, Seed(1), 0).unwrap().collect();
        assert_eq!(flows.len(), 5);
        assert!(flows.iter().all(|flow| (1_000..=2_000).contains(&flow.bytes)));
        assert_ne!(flows, Arrivals::new(&family, Seed(1), 1).unwrap().collect::<Vec<_>>());
    }
}
