//! quinn's calls in any order.

use paceline_cc::{Controller, Nanos, Time};
use paceline_quic::{Bridge, QUINN};
use proptest::prelude::*;

use crate::hostile::{Caller, MTU, config, survive};

#[derive(Clone, Debug)]
enum Call {
    Sent(u64),
    /// Of the `n`th batch before the last, or of one that never was.
    Ack(usize, u64, bool),
    EndAcks(u64, bool),
    Congestion(usize, bool, u64),
    Mtu(u16),
    Wait(u64),
    Back(u64),
}

/// What cannot be, up to 280 TB.
fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![bytes(), 0..1u64 << 48]
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..100u64, 1200..20_000u64, 0..1u64 << 20]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => bytes().prop_map(Call::Sent),
        6 => (0..40usize, bytes(), any::<bool>()).prop_map(|(batch, bytes, dry)| Call::Ack(batch, bytes, dry)),
        4 => (amount(), any::<bool>()).prop_map(|(flight, dry)| Call::EndAcks(flight, dry)),
        2 => (0..40usize, any::<bool>(), amount())
            .prop_map(|(batch, persistent, lost)| Call::Congestion(batch, persistent, lost)),
        1 => any::<u16>().prop_map(Call::Mtu),
        4 => prop_oneof![0..1_000_000u64, 0..1_000_000_000u64, 0..1u64 << 45].prop_map(Call::Wait),
        1 => (0..1_000_000_000u64).prop_map(Call::Back),
    ]
}

/// Quinn's side: a clock and the moments at which batches left.
struct Quinn {
    bridge: Bridge,
    now: Time,
    left: Vec<Time>,
    mtu: u16,
}

impl Quinn {
    fn batch(&self, back: usize) -> Time {
        self.left.iter().rev().nth(back).copied().unwrap_or(Time::from_nanos(back as u64))
    }
}

impl Caller for Quinn {
    type Call = Call;

    fn new(controller: Box<dyn Controller>) -> Self {
        Self { bridge: Bridge::new(controller, MTU), now: Time::ZERO, left: Vec::new(), mtu: MTU }
    }

    fn make(&mut self, call: &Call) -> bool {
        match *call {
            Call::Sent(bytes) => {
                self.left.push(self.now);
                self.bridge.on_sent(self.now, bytes);
            }
            Call::Ack(batch, bytes, dry) => self.bridge.on_ack(self.now, self.batch(batch), bytes, dry),
            Call::EndAcks(in_flight, dry) => drop(self.bridge.on_end_acks(self.now, in_flight, dry)),
            Call::Congestion(batch, persistent, lost) => {
                self.bridge.on_congestion_event(self.now, self.batch(batch), persistent, lost);
            }
            Call::Mtu(mtu) => {
                self.mtu = mtu;
                self.bridge.on_mtu_update(mtu);
            }
            Call::Wait(nanos) => self.now += Nanos::from_nanos(nanos),
            Call::Back(nanos) => self.now = self.now - Nanos::from_nanos(nanos),
        }
        self.bridge.window() > u64::from(self.mtu)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_order_of_calls_panics(calls in prop::collection::vec(call(), 1..200)) {
        survive::<Quinn>(&QUINN, &calls)?;
    }
}
