//! s2n-quic's calls in any order.

use paceline_cc::{Controller, Nanos, Time};
use paceline_quic::s2n::{Bridge, S2N};
use proptest::prelude::*;

use crate::hostile::{Caller, MTU, config, survive};

#[derive(Clone, Debug)]
enum Call {
    Sent(u32, Option<bool>),
    /// The newest is the `n`th packet before the last, or one that never was.
    Ack(u64, u64),
    Lost(u64, u32, bool),
    Marks(u64),
    Rtt(u64),
    Discarded(u64),
    Mtu(u16),
    Ask,
    Tick,
    Wait(u64),
    Back(u64),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => (prop_oneof![0..2000_u32, any::<u32>()], any::<Option<bool>>()).prop_map(|(bytes, dry)| Call::Sent(bytes, dry)),
        8 => (prop_oneof![0..5000_u64, any::<u64>()], 0..40_u64).prop_map(|(bytes, back)| Call::Ack(bytes, back)),
        4 => (0..40_u64, any::<u32>(), any::<bool>()).prop_map(|(back, bytes, all)| Call::Lost(back, bytes, all)),
        2 => prop_oneof![0..4_u64, any::<u64>()].prop_map(Call::Marks),
        1 => any::<u64>().prop_map(Call::Rtt),
        1 => any::<u64>().prop_map(Call::Discarded),
        1 => any::<u16>().prop_map(Call::Mtu),
        4 => Just(Call::Ask),
        2 => Just(Call::Tick),
        4 => prop_oneof![0..1_000_000_u64, 0..1_000_000_000_u64, 0..1_u64 << 45].prop_map(Call::Wait),
        1 => (0..1_000_000_000_u64).prop_map(Call::Back),
    ]
}

/// s2n-quic's side: a clock, and what left last.
struct S2n<const PACED: bool> {
    bridge: Bridge,
    now: Time,
    last: u64,
    mtu: u16,
}

impl<const PACED: bool> Caller for S2n<PACED> {
    type Call = Call;

    fn new(controller: Box<dyn Controller>) -> Self {
        Self { bridge: Bridge::new(controller, MTU, PACED), now: Time::ZERO, last: 0, mtu: MTU }
    }

    fn make(&mut self, call: &Call) -> bool {
        let (bridge, now, packet) = (&mut self.bridge, self.now, |back| self.last.saturating_sub(back));
        match *call {
            Call::Sent(bytes, dry) => self.last = bridge.on_packet_sent(now, bytes, dry),
            Call::Ack(bytes, back) => drop(bridge.on_ack(now, bytes, packet(back))),
            Call::Lost(back, bytes, persistent) => bridge.on_packet_lost(now, bytes, packet(back), persistent),
            Call::Marks(count) => bridge.on_explicit_congestion(count),
            Call::Rtt(nanos) => bridge.on_rtt_update(now, Nanos::from_nanos(nanos)),
            Call::Discarded(bytes) => bridge.on_packet_discarded(bytes),
            Call::Mtu(mtu) => {
                self.mtu = mtu.max(1);
                bridge.on_mtu_update(mtu);
            }
            Call::Ask => drop((bridge.due(), bridge.quantum(), bridge.next_tick(), bridge.in_flight())),
            Call::Tick => bridge.tick(now),
            Call::Wait(nanos) => self.now = now + Nanos::from_nanos(nanos),
            Call::Back(nanos) => self.now = now - Nanos::from_nanos(nanos),
        }
        // To ask is a call, too.
        !matches!(call, Call::Ask | Call::Sent(..)) || self.bridge.window() >= u64::from(self.mtu)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_order_of_calls_panics(calls in prop::collection::vec(call(), 1..200)) {
        survive::<S2n<false>>(&S2N, &calls)?;
        survive::<S2n<true>>(&S2N, &calls)?;
    }
}
