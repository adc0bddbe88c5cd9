//! From the flows and the cross traffic of a scenario to those of a world.

use paceline_cc::{Nanos, Time};
use paceline_experiment::config;

use super::{Cross, Cut, Flow, Timers, Way, Who, Workload};
use crate::contestant::Contestant;

impl From<Timers> for config::Timing {
    fn from(timers: Timers) -> Self {
        match timers {
            Timers::Exact => Self::Exact,
            Timers::Overhead => Self::Overhead,
            Timers::Host => Self::Host,
        }
    }
}

impl From<Way> for config::Direction {
    fn from(way: Way) -> Self {
        match way {
            Way::Down => Self::Down,
            Way::Up => Self::Up,
        }
    }
}

impl Flow {
    /// The flows of this kind in the contestant's world.
    pub(super) fn of<'a>(&'a self, each: &'a Contestant, way: config::Way) -> impl Iterator<Item = config::Flow> + 'a {
        let contestant = match &self.contestant {
            Who::Each => each,
            Who::Fixed(contestant) => contestant,
        };
        (0..self.count).map(move |index| {
            let later = Nanos::from_nanos(self.stagger.as_nanos().saturating_mul(u64::from(index)));
            config::Flow {
                controller: contestant.controller.clone(),
                via: contestant.via.clone(),
                way,
                start: Time::ZERO + self.start + later,
                stop: self.stop.map(|stop| Time::ZERO + stop),
                workload: self.workload.of(),
                extra_delay: self.extra_delay,
                mss: self.mss,
                ack_every: self.ack_every,
                ack_delay: self.ack_delay,
                paced: self.paced,
                handshake: self.handshake,
                arrivals: self.arrivals,
                timers: self.timers.into(),
            }
        })
    }
}

impl Workload {
    fn of(&self) -> config::Workload {
        match self {
            Self::Bulk => config::Workload::Bulk,
            Self::Bytes(bytes) => config::Workload::Bytes(bytes.0),
            Self::Poisson(poisson) => config::Workload::Poisson {
                mean_gap: poisson.mean_gap,
                size: config::Pareto {
                    alpha: poisson.alpha,
                    min: poisson.min.0,
                    max: poisson.max.0,
                    scale: poisson.scale.map(|scale| scale.0),
                    cut: match poisson.cut {
                        Cut::Truncate => config::Cut::Truncate,
                        Cut::Clamp => config::Cut::Clamp,
                    },
                },
                count: poisson.count.unwrap_or(u64::MAX),
            },
            Self::OnOff(times) => config::Workload::OnOff { on: times.on, off: times.off, random: times.random },
            Self::Rate(rate) => config::Workload::Rate(*rate),
        }
    }
}

impl Cross {
    pub(super) fn of(&self, way: config::Way) -> config::Cross {
        config::Cross {
            way,
            rate: self.rate,
            packet: u32::try_from(self.packet.0).unwrap_or(u32::MAX),
            poisson: self.poisson,
            start: Time::ZERO + self.start,
            stop: self.stop.map(|stop| Time::ZERO + stop),
        }
    }
}
