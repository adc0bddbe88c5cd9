//! From the flows and the cross traffic of a scenario to those of a world.

use paceline_cc::{Nanos, Remembered, Time};
use paceline_experiment::config;

use super::{Cross, Earlier, Flow, Telemetry, Who};
use crate::contestant::Contestant;

impl Flow {
    /// The flows of this kind in the contestant's world; the header of telemetry takes its bytes from the payload.
    pub(super) fn of<'a>(
        &'a self,
        each: &'a Contestant,
        way: config::Way,
        telemetry: Option<&Telemetry>,
        content: config::Content,
    ) -> impl Iterator<Item = config::Flow> + use<'a> {
        let contestant = match &self.contestant {
            Who::Each => each,
            Who::Fixed(contestant) => contestant,
        };
        let telemetry = self.telemetry(telemetry, &contestant.via);
        let header = telemetry.as_ref().map_or(0, |telemetry| telemetry.trace.header_bytes());
        (0..self.count).map(move |index| {
            let later = Nanos::from_nanos(self.stagger.as_nanos().saturating_mul(u64::from(index)));
            config::Flow {
                controller: contestant.controller.clone(),
                via: contestant.via.clone(),
                way,
                start: Time::ZERO + self.start + later,
                stop: self.stop.map(|stop| Time::ZERO + stop),
                workload: self.workload.clone(),
                extra_delay: self.extra_delay,
                mss: contestant.via.payload(self.mss - header),
                ack_every: self.ack_every,
                ack_delay: self.ack_delay,
                paced: self.paced,
                handshake: self.handshake,
                remembered: self.remembered.as_ref().map(Earlier::remembered),
                remember: self.remember,
                arrivals: self.arrivals,
                receiver: self.receiver,
                timers: self.timers,
                telemetry: telemetry.clone(),
                content: content.clone(),
                when: Vec::new(),
            }
        })
    }
}

impl Earlier {
    fn remembered(&self) -> Remembered {
        Remembered::new(self.window.0, self.rtt, self.age)
    }
}

impl Cross {
    pub(super) fn of(&self, way: config::Way) -> config::Cross {
        config::Cross {
            way,
            rate: self.rate,
            packet: u32::try_from(self.packet.0).unwrap_or(u32::MAX),
            burst: self.burst,
            poisson: self.poisson,
            start: Time::ZERO + self.start,
            stop: self.stop.map(|stop| Time::ZERO + stop),
        }
    }
}
