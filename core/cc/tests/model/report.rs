//! Reports of hops, true and false, drawn at random.

use paceline_cc::controller::{Cause, Hop};
use paceline_cc::units::{Nanos, Rate};
use proptest::prelude::*;

use super::operations::span;

/// What the path reports.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) verdict: Cause,
    pub(crate) fresh_for: Nanos,
    /// The report came with a packet that is known.
    pub(crate) in_band: bool,
    pub(crate) hops: Vec<Hop>,
}

fn rate() -> impl Strategy<Value = Option<Rate>> {
    let bytes = prop_oneof![1 => Just(0), 4 => 1_000..200_000_000u64, 1 => 0..1u64 << 40];
    prop::option::weighted(0.8, bytes.prop_map(Rate::from_bytes_per_sec))
}

fn packets() -> impl Strategy<Value = Option<u32>> {
    prop::option::weighted(0.9, prop_oneof![2 => Just(0), 8 => 0..300u32, 1 => any::<u32>()])
}

fn hop() -> impl Strategy<Value = Hop> {
    let queue = prop::option::weighted(0.8, prop_oneof![1 => Just(0), 6 => 0..2_000_000u64, 1 => 0..1u64 << 40]);
    let flows = prop::option::weighted(0.8, prop_oneof![6 => 0..6u32, 1 => any::<u32>()]);
    (0..4u32, packets(), packets(), (rate(), rate()), flows, queue, prop::option::of(any::<u32>())).prop_map(
        |(id, room_packets, limit_packets, (capacity, arrival), flows, queue_bytes, drops)| {
            let mut hop = Hop::new(id);
            hop.queue_bytes = queue_bytes;
            hop.room_packets = room_packets;
            hop.limit_packets = limit_packets;
            hop.capacity = capacity;
            hop.arrival = arrival;
            hop.flows = flows;
            hop.drops = drops;
            hop
        },
    )
}

/// Any report: of no hop, of one, of several; fresh for long, for a moment, or not at all.
pub(crate) fn report() -> impl Strategy<Value = Report> {
    let verdict = prop::sample::select(vec![Cause::Unknown, Cause::Medium, Cause::Medium, Cause::Congestion]);
    let fresh = prop_oneof![4 => (50..500u64).prop_map(Nanos::from_millis), 1 => span()];
    (verdict, fresh, any::<bool>(), prop::collection::vec(hop(), 0..4))
        .prop_map(|(verdict, fresh_for, in_band, hops)| Report { verdict, fresh_for, in_band, hops })
}
