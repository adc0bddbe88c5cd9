//! s2n-quic alone.

mod calls;
mod end;
mod example;
mod hostile;
mod marks;
mod refusals;

use paceline_cc::{Controller, Time};
use paceline_quic::s2n::Bridge;

pub(crate) use end::ends;

use crate::rate_limited::{Flying, Inside, MTU};

pub(crate) fn inside(controller: Box<dyn Controller>) -> Box<dyn Inside> {
    Box::new(Bridge::new(controller, MTU, false))
}

/// s2n-quic's name for a packet is the bridge's, which counts from 1.
fn number(packet: &Flying) -> u64 {
    packet.number + 1
}

impl Inside for Bridge {
    fn may_send(&mut self, _in_flight: u64) -> bool {
        !self.is_full()
    }

    fn sent(&mut self, now: Time, _packet: Flying, last: bool) {
        let room = self.in_flight() + 2 * u64::from(MTU) <= self.window();
        self.on_packet_sent(now, u32::from(MTU), Some(last && room));
    }

    fn acked(&mut self, now: Time, packets: &[Flying], _in_flight: u64, _app_limited: bool) {
        let Some(newest) = packets.iter().map(number).max() else { return };
        self.on_ack(now, packets.len() as u64 * u64::from(MTU), newest);
    }

    fn lost(&mut self, now: Time, packets: &[Flying]) {
        for packet in packets {
            self.on_packet_lost(now, u32::from(MTU), number(packet), false);
        }
    }

    fn next_tick(&mut self) -> Option<Time> {
        Some(Self::next_tick(self))
    }

    fn tick(&mut self, now: Time) {
        Self::tick(self, now);
    }
}
