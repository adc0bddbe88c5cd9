//! Any order of calls against a model of what a controller may be told.

use std::collections::BTreeMap;

use paceline_cc::registry::CONTROLLERS;
use paceline_cc::{Ecn, Env, Nanos, Phase, Spec, Time};
use paceline_transport::{FlowLimit, Numbered, NumberedAck, NumberedNews, SenderConfig};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{MSS, Told, Watched};

/// A call of a datapath; packets are named by how many were sent after them.
#[derive(Clone, Debug)]
enum Call {
    Send(u32),
    /// A number that is not above all before.
    SendOld,
    Ack(Vec<(usize, bool)>, Vec<usize>, u32),
    /// So many in flight up to one.
    AckBytes(usize, usize, Vec<usize>),
    Lose(Vec<usize>, bool),
    LoseUnknown,
    Discard(usize),
    Spurious,
    Dry,
    Mss(u32),
    Wait(u64),
    Back(u64),
    Tick,
}

fn call() -> impl Strategy<Value = Call> {
    let recent = || prop_oneof![4 => 0..12usize, 1 => 0..80usize];
    let some = move |most| prop::collection::vec(recent(), 0..most);
    prop_oneof![
        20 => prop_oneof![Just(MSS), 0..3000_u32].prop_map(Call::Send),
        1 => Just(Call::SendOld),
        8 => (prop::collection::vec((recent(), any::<bool>()), 0..8), some(3), 0..3_u32)
            .prop_map(|(acked, lost, marks)| Call::Ack(acked, lost, marks)),
        3 => (recent(), 0..6usize, some(2)).prop_map(|(newest, count, lost)| Call::AckBytes(newest, count, lost)),
        3 => (some(5), prop::bool::weighted(0.1)).prop_map(|(lost, persistent)| Call::Lose(lost, persistent)),
        1 => Just(Call::LoseUnknown),
        1 => recent().prop_map(Call::Discard),
        1 => Just(Call::Spurious),
        1 => Just(Call::Dry),
        1 => (0..9000_u32).prop_map(Call::Mss),
        8 => prop_oneof![0..1_000_000_u64, 0..100_000_000_u64, 0..1_u64 << 45].prop_map(Call::Wait),
        1 => (0..1_000_000_000_u64).prop_map(Call::Back),
        2 => Just(Call::Tick),
    ]
}

/// The datapath's side: a clock, and the packets that it has sent, whose numbers are the odd ones.
#[derive(Default)]
struct Datapath {
    now: Time,
    sizes: Vec<u32>,
}

impl Datapath {
    fn number(&self, back: usize) -> u64 {
        (self.sizes.len().saturating_sub(1 + back) * 2 + 1) as u64
    }

    fn make(&mut self, flow: &mut Numbered, call: &Call) {
        let number = |back: &usize| self.number(*back);
        match call {
            Call::Send(bytes) => {
                self.sizes.push(*bytes);
                assert!(flow.sent(self.now, self.number(0), *bytes, u64::MAX, FlowLimit::Unknown).is_some());
            }
            Call::SendOld if self.sizes.is_empty() => {}
            Call::SendOld => assert_eq!(flow.sent(self.now, self.number(0), MSS, 0, FlowLimit::Unknown), None),
            Call::Ack(acked, lost, ce_packets) => {
                let lost: Vec<u64> = lost.iter().map(number).collect();
                let news = NumberedNews::default().with_lost(&lost).with_ce_packets(*ce_packets);
                let acks = acked.iter().map(|(back, ce)| NumberedAck::new(number(back), *ce, None));
                flow.acked(self.now, acks.collect::<Vec<_>>(), &news);
            }
            Call::AckBytes(newest, count, lost) => {
                let newest = number(newest);
                let lost: Vec<u64> = lost.iter().map(number).collect();
                let bytes = self
                    .sizes
                    .iter()
                    .take(newest as usize / 2 + 1)
                    .rev()
                    .take(*count)
                    .map(|size| u64::from(*size))
                    .sum::<u64>();
                flow.acked_bytes(self.now, bytes, newest, &NumberedNews::default().with_lost(&lost));
            }
            Call::Lose(lost, persistent) => {
                flow.lost(self.now, &lost.iter().map(number).collect::<Vec<_>>(), *persistent);
            }
            Call::LoseUnknown => flow.lost_unknown(self.now),
            Call::Discard(back) => flow.discarded(&[number(back)]),
            Call::Spurious => flow.spurious(self.now),
            Call::Dry => flow.run_dry(self.now),
            Call::Mss(mss) => flow.set_mss(self.now, *mss),
            Call::Wait(nanos) => self.now += Nanos::from_nanos(*nanos),
            Call::Back(nanos) => self.now = self.now - Nanos::from_nanos(*nanos),
            Call::Tick => flow.tick(self.now),
        }
    }
}

/// What a controller may be told: which packets are on their way, and which episode runs.
#[derive(Default)]
struct Model {
    /// By tag: position and bytes.
    flight: BTreeMap<u64, (u64, u64)>,
    next: u64,
    una: u64,
    /// Where the last one began: losses of what left before are of it.
    episode: Option<u64>,
}

impl Model {
    fn in_flight(&self) -> u64 {
        self.flight.values().map(|(_, bytes)| bytes).sum()
    }

    /// Packets leave the flight, each once; answers the highest position.
    fn end(&mut self, tags: &[u64]) -> u64 {
        let ended = tags.iter().map(|tag| self.flight.remove(tag).unwrap_or_else(|| panic!("{tag} ended twice")).0);
        ended.max().unwrap_or(0)
    }

    /// Takes in what was told of a call.
    fn check(&mut self, told: &[Told], call: &Call) {
        let delivered: Vec<u64> = told
            .iter()
            .flat_map(|told| if let Told::Acked { tags, .. } = told { tags.clone() } else { vec![] })
            .collect();
        for told in told {
            match told {
                Told::Sent { tag, seq, bytes, in_flight } => {
                    assert_eq!(*seq, self.next);
                    self.flight.insert(*tag, (*seq, u64::from(*bytes)));
                    self.next += u64::from(*bytes);
                    assert_eq!(*in_flight, self.in_flight());
                }
                Told::Acked { tags, flight, una, next, phase, .. } => {
                    assert!(tags.is_sorted());
                    self.end(tags);
                    assert!(*una >= self.una && una <= next && *next == self.next, "{call:?}: {told:?}");
                    self.una = *una;
                    assert_eq!(flight.1, self.in_flight(), "{call:?}");
                    assert!(flight.0 >= flight.1, "{call:?}: {told:?}");
                    assert!(self.episode.is_some() || *phase == Phase::Open, "{call:?}: {told:?}");
                }
                Told::Lost { tags, bytes, new, .. } => {
                    // A notional loss names a packet that was delivered, perhaps now.
                    let lost = |tag: &u64| self.flight.contains_key(tag) && !delivered.contains(tag);
                    if tags.iter().all(lost) {
                        assert_eq!(*bytes, tags.iter().map(|tag| self.flight[tag].1).sum::<u64>());
                        let newest = self.end(tags);
                        if *new {
                            assert!(self.episode.is_none_or(|start| newest >= start), "{call:?}: {told:?}");
                        }
                    }
                    if *new {
                        self.episode = Some(self.next);
                    }
                }
                Told::Timeout { tags, .. } => {
                    self.end(tags);
                    self.episode = Some(self.next);
                }
                Told::Spurious => {
                    assert!(self.episode.is_some());
                    self.episode = None;
                }
                Told::Marked { .. } | Told::Restart | Told::Dry(_) | Told::Limited | Told::Mss(_) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn in_any_order_of_calls_each_packet_ends_once_and_the_flight_is_what_is_left(
        calls in prop::collection::vec(call(), 1..300),
    ) {
        let (mut watched, mut datapath, mut model) = (Watched::new(Ecn::Off), Datapath::default(), Model::default());
        for call in &calls {
            let before = watched.flow.in_flight();
            datapath.make(&mut watched.flow, call);
            model.check(&watched.told(), call);
            if let Call::Discard(back) = call {
                let tag = datapath.sizes.len().saturating_sub(1 + back) as u64;
                let (_, bytes) = model.flight.remove(&tag).unwrap_or_default();
                prop_assert_eq!(watched.flow.in_flight(), before - bytes);
            }
            prop_assert_eq!(watched.flow.in_flight(), model.in_flight(), "{:?}", call);
        }
        // The oldest that is left, and all the rest.
        prop_assert_eq!(watched.flow.oldest(), model.flight.keys().next().map(|tag| tag * 2 + 1));
        let all: Vec<u64> = (0..datapath.sizes.len() as u64).map(|tag| tag * 2 + 1).collect();
        watched.flow.acked(datapath.now, all, &NumberedNews::default());
        prop_assert_eq!(watched.flow.in_flight(), 0);
    }

    #[test]
    fn no_order_of_calls_makes_a_controller_panic(calls in prop::collection::vec(call(), 1..150)) {
        for entry in CONTROLLERS {
            let controller = entry.name.parse::<Spec>().unwrap().build(&Env::new(MSS));
            let mut flow = Numbered::new(&SenderConfig::new(MSS), controller);
            let mut datapath = Datapath::default();
            for call in &calls {
                datapath.make(&mut flow, call);
                prop_assert!(flow.window() > 0, "{}: after {call:?}", entry.name);
            }
        }
    }
}
