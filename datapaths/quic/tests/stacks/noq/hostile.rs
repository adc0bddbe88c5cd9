//! noq's calls in any order.

use paceline_cc::{Controller, Nanos, Time};
use paceline_quic::noq::{Bridge, NOQ, Report};
use proptest::prelude::*;

use crate::hostile::{Caller, MTU, config, survive};

#[derive(Clone, Debug)]
enum Call {
    Sent(u16, u64),
    /// Of the `n`th packet before the last, or of one that never was.
    Ack(usize, bool),
    EndAcks(u64, bool),
    Lost(usize, u16),
    Congestion(bool, bool),
    Spurious,
    Limited,
    Mtu(u16),
    Ask,
    Wait(u64),
    Back(u64),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => (any::<u16>(), prop_oneof![0..8_u64, any::<u64>()]).prop_map(|(bytes, pn)| Call::Sent(bytes, pn)),
        8 => (0..40_usize, any::<bool>()).prop_map(|(packet, dry)| Call::Ack(packet, dry)),
        4 => (prop_oneof![0..100_000_u64, any::<u64>()], any::<bool>()).prop_map(|(flight, dry)| Call::EndAcks(flight, dry)),
        3 => (0..40_usize, any::<u16>()).prop_map(|(packet, bytes)| Call::Lost(packet, bytes)),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(persistent, ecn)| Call::Congestion(persistent, ecn)),
        1 => Just(Call::Spurious),
        1 => Just(Call::Limited),
        1 => any::<u16>().prop_map(Call::Mtu),
        4 => Just(Call::Ask),
        4 => prop_oneof![0..1_000_000_u64, 0..1_000_000_000_u64, 0..1_u64 << 45].prop_map(Call::Wait),
        1 => (0..1_000_000_000_u64).prop_map(Call::Back),
    ]
}

/// noq's side: a clock, and what left when.
struct Noq {
    bridge: Bridge,
    now: Time,
    left: Vec<(Time, u64, u16)>,
    mtu: u16,
}

impl Noq {
    fn packet(&self, back: usize) -> (Time, u64, u16) {
        self.left.iter().rev().nth(back).copied().unwrap_or((Time::from_nanos(back as u64), back as u64, 1))
    }
}

impl Caller for Noq {
    type Call = Call;

    fn new(controller: Box<dyn Controller>) -> Self {
        Self { bridge: Bridge::new(controller, MTU), now: Time::ZERO, left: Vec::new(), mtu: MTU }
    }

    fn make(&mut self, call: &Call) -> bool {
        let report = Report { at: self.now, heard: self.now + Nanos::from_nanos(7) };
        match *call {
            Call::Sent(bytes, pn) => {
                self.left.push((self.now, pn, bytes));
                self.bridge.on_packet_sent(self.now, bytes, pn);
            }
            Call::Ack(back, dry) => {
                let (sent_at, pn, _) = self.packet(back);
                self.bridge.on_ack(report, sent_at, pn, dry);
            }
            Call::EndAcks(in_flight, dry) => self.bridge.on_end_acks(report, in_flight, dry),
            Call::Lost(back, odd) => {
                let (_, pn, bytes) = self.packet(back);
                self.bridge.on_packet_lost(report, if odd % 4 == 0 { odd } else { bytes }, pn);
            }
            Call::Congestion(persistent, ecn) => self.bridge.on_congestion_event(report, persistent, ecn),
            Call::Spurious => self.bridge.on_spurious_congestion_event(),
            Call::Limited => self.bridge.on_cwnd_limited(),
            Call::Mtu(mtu) => {
                self.mtu = mtu.max(1);
                self.bridge.on_mtu_update(mtu);
            }
            Call::Ask => drop((self.bridge.rate(), self.bridge.next_tick(), self.bridge.samples().count())),
            Call::Wait(nanos) => self.now += Nanos::from_nanos(nanos),
            Call::Back(nanos) => self.now = self.now - Nanos::from_nanos(nanos),
        }
        // To ask is a call, too.
        !matches!(call, Call::Ask | Call::Sent(..)) || self.bridge.window() >= u64::from(self.mtu)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_order_of_calls_panics(calls in prop::collection::vec(call(), 1..200)) {
        survive::<Noq>(&NOQ, &calls)?;
    }
}
