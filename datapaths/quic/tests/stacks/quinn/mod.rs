//! quinn alone.

mod calls;
mod end;
mod hostile;

use paceline_cc::{Controller, Time};
use paceline_quic::Bridge;

pub(crate) use end::ends;

use crate::rate_limited::{Flying, Inside, MTU};

pub(crate) fn inside(controller: Box<dyn Controller>) -> Box<dyn Inside> {
    Box::new(Bridge::new(controller, MTU))
}

impl Inside for Bridge {
    fn may_send(&mut self, in_flight: u64) -> bool {
        in_flight + u64::from(MTU) < self.window()
    }

    fn sent(&mut self, now: Time, _packet: Flying, _last: bool) {
        self.on_sent(now, u64::from(MTU));
    }

    fn acked(&mut self, now: Time, packets: &[Flying], in_flight: u64, app_limited: bool) {
        for packet in packets {
            self.on_ack(now, packet.sent_at, u64::from(MTU), app_limited);
        }
        self.on_end_acks(now, in_flight, app_limited);
    }

    fn lost(&mut self, now: Time, packets: &[Flying]) {
        let last = packets.last().expect("something was lost");
        self.on_congestion_event(now, last.sent_at, false, packets.len() as u64 * u64::from(MTU));
    }
}
