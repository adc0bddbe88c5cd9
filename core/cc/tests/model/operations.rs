//! What happens to a flow, drawn at random: the operations of a [`Datapath`], the world in which it begins, and the
//! controller with its parameters. `core/cc/examples/random_events.rs` writes event logs of them.

use paceline_cc::controller::{Cause, Controller, Env, Lost, Pacing, Remembered};
use paceline_cc::entry::{Entry, Kind};
use paceline_cc::mdi::models::SHIPPED;
use paceline_cc::units::{Nanos, Time};
use paceline_cc::{Spec, SpecError};
use proptest::prelude::*;

use super::datapath::{Datapath, World};
use super::report::{Report, report};

/// What happens to a flow.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// The application has this many packets to send; they may be small.
    Send { packets: u64, small: bool },
    /// Time passes.
    Wait(Nanos),
    /// Packets are acknowledged in order, some of them marked.
    Ack { packets: usize, ce: usize },
    /// Packets are acknowledged over a hole.
    AckOutOfOrder { hole: usize, packets: usize },
    /// Packets are found lost by the acknowledgement of later ones.
    Lose { skip: usize, packets: usize, acked: usize },
    /// A window is sent and acknowledged two by two, one RTT later.
    Rounds { rtt: Nanos, rounds: u32, ce: usize },
    /// The retransmission timer fires.
    Timeout,
    /// The last loss is found never to have been one.
    Spurious,
    /// Everything is acknowledged, then the application is silent.
    Idle(Nanos),
    /// The path reports its hops.
    Telemetry(Report),
    /// Full packets have another size.
    Mss(u32),
    /// The cause of a loss becomes known after it.
    Cause(Cause),
    /// Another flow over the path measured an RTT.
    SharedRtt(Nanos),
    /// The application has nothing to send although the window is open.
    AppLimited,
    /// A blob of random bytes comes for a receiver's feedback.
    Blob(Vec<u8>),
}

/// Any span of time.
pub(crate) fn span() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        1 => Just(Nanos::ZERO),
        1 => Just(Nanos::from_secs(1_000)),
        2 => (0..1_000_000u64).prop_map(Nanos::from_nanos),
        6 => (1..300u64).prop_map(Nanos::from_millis),
        1 => (1..100u64).prop_map(Nanos::from_secs),
    ]
}

/// Any operation.
pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (1..40u64, any::<bool>()).prop_map(|(packets, small)| Operation::Send { packets, small }),
        4 => span().prop_map(Operation::Wait),
        6 => (1..30usize, prop_oneof![3 => Just(0), 1 => 1..5usize])
            .prop_map(|(packets, ce)| Operation::Ack { packets, ce }),
        2 => (1..10usize, 1..10usize).prop_map(|(hole, packets)| Operation::AckOutOfOrder { hole, packets }),
        2 => (0..10usize, 1..40usize, 0..5usize)
            .prop_map(|(skip, packets, acked)| Operation::Lose { skip, packets, acked }),
        3 => (span(), 1..12u32, 0..2usize).prop_map(|(rtt, rounds, ce)| Operation::Rounds { rtt, rounds, ce }),
        1 => Just(Operation::Timeout),
        1 => Just(Operation::Spurious),
        1 => span().prop_map(Operation::Idle),
        2 => report().prop_map(Operation::Telemetry),
        1 => prop::sample::select(vec![88u32, 1200, 1448, 8948]).prop_map(Operation::Mss),
        1 => prop::sample::select(vec![Cause::Congestion, Cause::Medium, Cause::Handover]).prop_map(Operation::Cause),
        1 => span().prop_map(Operation::SharedRtt),
        1 => Just(Operation::AppLimited),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Operation::Blob),
    ]
}

/// Half of all flows have been to the place before.
pub(crate) fn remembered(seed: u64) -> Option<Remembered> {
    let min_rtt = Nanos::from_nanos(1 + (seed >> 8) % 200_000_000);
    (seed % 2 == 1).then_some(Remembered::new(seed % (1 << 32), min_rtt, Nanos::ZERO))
}

/// Any world.
pub(crate) fn world() -> impl Strategy<Value = World> {
    let late = 1u64 << 62;
    (
        prop::sample::select(vec![88u32, 1448, 8948]),
        (any::<u64>(), any::<bool>()),
        prop_oneof![2 => Just(0), 1 => 0..1u64 << 50, 1 => Just(late)],
        prop_oneof![2 => Just(0), 1 => 0..1u64 << 50, 1 => Just(late)],
        any::<bool>(),
        prop::option::of(span()),
    )
        .prop_map(|(mss, (seed, paced), start, origin, reliable, handshake)| World {
            env: Env::new(mss).with_seed(seed).with_paced(paced).with_remembered(remembered(seed)),
            start: Time::from_nanos(start),
            origin,
            reliable,
            handshake,
        })
}

/// `entry` with each parameter at its default, at or next to a bound, in between, or at any of its words. What has no
/// part beside the start-up drawn is left out.
pub(crate) fn any_spec(entry: &'static Entry) -> impl Strategy<Value = Spec> {
    prop::collection::vec((0..6u8, 0.0..=1.0f64), entry.params().count()).prop_map(move |draws| {
        let values = entry.params().zip(draws).filter_map(|(param, (draw, at))| {
            let value = match (draw, param.kind) {
                (0 | 1, _) => return None,
                (2, Kind::Number { min, max }) => {
                    if at < 0.5 {
                        min
                    } else {
                        min.next_up().min(max)
                    }
                }
                (3, Kind::Number { max, .. }) => max,
                (4, Kind::Number { min, max }) => (min + at * at * at * (max - min)).clamp(min, max),
                (_, Kind::Number { min, max }) => (min + at * (max - min)).clamp(min, max),
                (_, Kind::Model) => {
                    let index = ((at * SHIPPED.len() as f64) as usize).min(SHIPPED.len() - 1);
                    return Some(format!("{}={}", param.name, SHIPPED[index].0));
                }
                (_, Kind::Choice(words)) => {
                    let word = words[((at * words.len() as f64) as usize).min(words.len() - 1)];
                    return Some(format!("{}={word}", param.name));
                }
            };
            Some(format!("{}={value}", param.name))
        });
        let mut values: Vec<String> = values.collect();
        loop {
            let text = format!("{}:{}", entry.name, values.join(","));
            match text.parse() {
                Ok(spec) => return spec,
                Err(SpecError::OtherStartUp { param, .. }) => values.retain(|value| !value.starts_with(param)),
                Err(error) => panic!("{text}: {error}"),
            }
        }
    })
}

/// Does `operation` to `flow`, whose application writes packets of `packet` bytes.
pub(crate) fn run(flow: &mut Datapath, packet: &mut u32, operation: &Operation) {
    let mss = *packet;
    match operation {
        Operation::Mss(mss) => {
            *packet = *mss;
            flow.set_mss(*mss);
        }
        Operation::Cause(cause) => {
            let lost = Lost::new(0, mss, flow.now).with_cause(*cause);
            flow.controller.on_cause(flow.now, &[lost]);
        }
        Operation::Send { packets, small } => {
            flow.send(*packets, if *small { mss / 3 } else { mss }, Nanos::from_millis(100));
        }
        Operation::Wait(span) => flow.advance_to(flow.now + *span),
        Operation::Ack { packets, ce } => flow.deliver(&flow.flying(0, *packets), 0, *ce),
        Operation::AckOutOfOrder { hole, packets } => flow.deliver(&flow.flying(*hole, *packets), 0, 0),
        Operation::Lose { skip, packets, acked } => {
            let before = flow.in_flight;
            flow.lose(&flow.flying(*skip, *packets));
            let lost = before - flow.in_flight;
            flow.deliver(&flow.flying(*skip, *acked), lost, 0);
        }
        Operation::Rounds { rtt, rounds, ce } => {
            for _ in 0..*rounds {
                flow.send(64, mss, *rtt);
                flow.advance_to(flow.now + *rtt);
                for pair in flow.flying(0, usize::MAX).chunks(2) {
                    flow.deliver(pair, 0, *ce);
                }
            }
        }
        Operation::Timeout => flow.time_out(),
        Operation::Spurious => flow.controller.on_spurious(flow.now),
        Operation::Idle(span) => {
            flow.deliver(&flow.flying(0, usize::MAX), 0, 0);
            flow.advance_to(flow.now + *span);
        }
        Operation::Telemetry(report) => flow.report(report),
        Operation::SharedRtt(rtt) => flow.controller.on_shared_rtt(flow.now, *rtt),
        Operation::AppLimited => flow.controller.on_app_limited(flow.now, flow.in_flight),
        Operation::Blob(blob) => {
            let before = described(flow.controller.as_ref());
            if flow.controller.on_feedback(flow.now, blob).is_err() {
                assert_eq!(described(flow.controller.as_ref()), before, "a bad blob changes nothing");
            }
        }
    }
}

/// All that a controller says: its window, its pacing, its variables.
pub(crate) fn described(controller: &dyn Controller) -> (u64, Pacing, Vec<(&'static str, f64)>) {
    let mut variables = Vec::new();
    controller.describe(&mut |name, value| variables.push((name, value)));
    (controller.window(), controller.pacing(), variables)
}
