//! noq alone.

mod calls;
mod end;
mod example;
mod hostile;
mod pace;

use paceline_cc::{Controller, Time};
use paceline_quic::noq::{Bridge, Report};

pub(crate) use end::ticked as ends;

use crate::rate_limited::{Flying, Inside, MTU};

pub(crate) fn inside(controller: Box<dyn Controller>) -> Box<dyn Inside> {
    Box::new(Bridge::new(controller, MTU))
}

fn report(now: Time) -> Report {
    Report { at: now, heard: now }
}

impl Inside for Bridge {
    fn may_send(&mut self, in_flight: u64) -> bool {
        let fits = in_flight + u64::from(MTU) <= self.window();
        if !fits {
            self.on_cwnd_limited();
        }
        fits
    }

    fn sent(&mut self, now: Time, packet: Flying, _last: bool) {
        self.on_packet_sent(now, MTU, packet.number);
    }

    fn acked(&mut self, now: Time, packets: &[Flying], in_flight: u64, app_limited: bool) {
        for packet in packets {
            self.on_ack(report(now), packet.sent_at, packet.number, app_limited);
        }
        self.on_end_acks(report(now), in_flight, app_limited);
    }

    fn lost(&mut self, now: Time, packets: &[Flying]) {
        for packet in packets {
            self.on_packet_lost(report(now), MTU, packet.number);
        }
        self.on_congestion_event(report(now), false, false);
    }

    fn next_tick(&mut self) -> Option<Time> {
        Some(Self::next_tick(self))
    }

    fn tick(&mut self, now: Time) {
        Self::tick(self, now);
    }
}
