//! Whatever is written is read again, in whatever pieces it comes; whatever is read is written again as it was; a stranger's
//! bytes end the connection, always for the same reason.

use paceline_cc::{Arrival, MAX_FEEDBACK, Nanos, ReceiverHalf, Time};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Reads `bytes` in pieces that end at `cuts`: the items, payload joined, and how it ended.
fn decode(bytes: &[u8], cuts: &[usize]) -> (Vec<Item<'static>>, Vec<u8>, Result<(), Violation>) {
    let (mut items, mut payload, mut decoder) = (Vec::new(), Vec::new(), Decoder::new());
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    for pair in cuts.windows(2) {
        let mut input = &bytes[pair[0]..pair[1]];
        loop {
            match decoder.next(&mut input) {
                Ok(None) => break,
                Ok(Some(Item::Payload(piece))) => payload.extend_from_slice(piece),
                Ok(Some(Item::Data(data))) => items.push(Item::Data(data)),
                Ok(Some(Item::Ack(ack))) => items.push(Item::Ack(ack)),
                Err(violation) => return (items, payload, Err(violation)),
            }
        }
        assert!(input.is_empty(), "what is not read is kept");
    }
    (items, payload, decoder.end())
}

#[derive(Clone, Debug)]
enum Frame {
    Data { note: u64, payload: Vec<u8> },
    Ack(Ack),
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, 0..0x1_0000_u64, 0..LIMIT]
}

fn frame() -> impl Strategy<Value = Frame> {
    let payload = prop_oneof![vec(any::<u8>(), 0..4), vec(any::<u8>(), 0..2000)];
    let delay = prop_oneof![0..100_u64, 0..=MAX_DELAY.as_nanos() / 1000];
    let feedback = proptest::option::of(vec(any::<u8>(), 1..=MAX_FEEDBACK));
    prop_oneof![
        (prop_oneof![Just(0), any::<u64>()], payload).prop_map(|(note, payload)| Frame::Data { note, payload }),
        (number(), delay, feedback).prop_map(|(position, delay, feedback)| {
            Frame::Ack(Ack { position, delay: Nanos::from_micros(delay), feedback: feedback.map(Into::into) })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..Default::default() })]

    #[test]
    fn what_is_written_is_read_in_whatever_pieces(frames in vec(frame(), 0..12), cuts in vec(any::<usize>(), 0..40)) {
        let (mut bytes, mut items, mut all, mut position) = (vec![VERSION], Vec::new(), Vec::new(), 0);
        for frame in frames {
            match frame {
                Frame::Data { note, payload } => {
                    let data = Data { position, bytes: payload.len() as u32, note };
                    let before = bytes.len();
                    data.write(&mut bytes);
                    prop_assert!(bytes.len() - before <= MAX_HEADER);
                    bytes.extend_from_slice(&payload);
                    all.extend_from_slice(&payload);
                    position = data.end();
                    items.push(Item::Data(data));
                }
                Frame::Ack(ack) => {
                    ack.write(&mut bytes);
                    items.push(Item::Ack(ack));
                }
            }
        }
        prop_assert_eq!(decode(&bytes, &cuts), (items, all, Ok(())));
    }

    #[test]
    fn a_strangers_bytes_have_one_reading(
        version in prop_oneof![9 => Just(VERSION), 1 => any::<u8>()],
        rest in vec(prop_oneof![3 => 0..6_u8, 1 => any::<u8>()], 0..300),
        cuts in vec(any::<usize>(), 0..40),
    ) {
        let bytes = [vec![version], rest].concat();
        let (items, payload, ended) = decode(&bytes, &[]);
        let in_pieces = decode(&bytes, &cuts);
        prop_assert_eq!((&in_pieces.0, &in_pieces.2), (&items, &ended));
        // What was read before the reason may end within a payload.
        prop_assert_eq!(in_pieces.1, payload.clone());
        let (mut again, mut payload) = (vec![VERSION], payload.as_slice());
        for item in &items {
            match item {
                Item::Data(data) => {
                    data.write(&mut again);
                    let (own, more) = payload.split_at(data.bytes as usize);
                    again.extend_from_slice(own);
                    payload = more;
                }
                Item::Ack(ack) => ack.write(&mut again),
                Item::Payload(_) => unreachable!("joined"),
            }
        }
        if version == VERSION {
            prop_assert_eq!(&again[..], &bytes[..again.len()]);
        }
        match ended {
            Err(violation) => prop_assert!(!violation.to_string().contains('\n')),
            Ok(()) => prop_assert_eq!(again, bytes),
        }
    }
}

#[test]
fn each_rule_has_its_reason() {
    let mut large = vec![VERSION, kind::DATA, 0];
    varint::write(&mut large, u64::from(MAX_PAYLOAD) + 1);
    let mut long = vec![VERSION, kind::ACK, 0];
    varint::write(&mut long, MAX_DELAY.as_nanos() / 1000 + 1);
    let cases: [(&[u8], Violation); 10] = [
        (b"GET / HTTP/1.1\r\n", Violation::Version(b'G')),
        (&[VERSION, 9], Violation::Kind(9)),
        (&[VERSION, kind::DATA, 5], Violation::Position { found: 5, expected: 0 }),
        (&[VERSION, kind::DATA, 0x40, 0], Violation::Long("a position")),
        (&[VERSION, kind::DATA_WITH_NOTE, 0, 0, 0, 0, 0, 0, 0, 0, 0], Violation::Note),
        (&[VERSION, kind::ACK_WITH_FEEDBACK, 0, 0, 0], Violation::Feedback(0)),
        (&[VERSION, kind::ACK_WITH_FEEDBACK, 0, 0, 0x40, 0x41], Violation::Feedback(65)),
        (&[VERSION, kind::DATA, 0, 3, 1, 2], Violation::Short),
        (&large, Violation::Payload(u64::from(MAX_PAYLOAD) + 1)),
        (&long, Violation::Delay(MAX_DELAY.as_nanos() / 1000 + 1)),
    ];
    for (bytes, violation) in cases {
        assert_eq!(decode(bytes, &[]).2, Err(violation), "{bytes:?}");
        assert_eq!(decode(bytes, &(0..bytes.len()).collect::<Vec<_>>()).2, Err(violation), "{bytes:?} byte by byte");
    }
}

#[test]
fn a_violation_stays() {
    let mut decoder = Decoder::new();
    assert!(decoder.next(&mut &[7_u8][..]).is_err());
    assert_eq!(decoder.next(&mut &[VERSION, kind::ACK, 0, 0][..]), Err(Violation::Version(7)));
    assert_eq!(decoder.end(), Err(Violation::Version(7)));
}

/// Everything that `to` makes of `bytes`.
fn hear(to: &mut Connection, now: Time, mut bytes: &[u8]) -> Result<(Vec<u8>, Vec<Ack>), Violation> {
    let (mut payload, mut acks) = (Vec::new(), Vec::new());
    while let Some(news) = to.read(now, &mut bytes)? {
        match news {
            News::Payload(piece) => payload.extend_from_slice(piece),
            News::Acked(ack) => acks.push(ack),
        }
    }
    Ok((payload, acks))
}

fn chunk(from: &mut Connection, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    from.data(payload.len() as u32, 0, &mut out).unwrap();
    out.extend_from_slice(payload);
    out
}

#[test]
fn acknowledgements_are_coalesced_and_tell_how_long_they_waited() {
    let (mut server, mut client) = (Connection::new(None), Connection::new(None));
    let mut out = Vec::new();
    assert_eq!(client.next_timeout(), Time::NEVER);
    // Two chunks in one read: one acknowledgement.
    let both = [chunk(&mut server, b"one"), chunk(&mut server, b"four")].concat();
    assert_eq!(hear(&mut client, at(10), &both).unwrap().0, b"onefour");
    assert!(client.ack(at(10), &mut out) && !client.ack(at(10), &mut out));
    // The next has to wait for its turn.
    hear(&mut client, at(12), &chunk(&mut server, b"late")).unwrap();
    assert!(!client.ack(at(12), &mut out));
    assert_eq!(client.next_timeout(), at(15));
    assert!(client.ack(at(15), &mut out));
    assert_eq!(client.next_timeout(), Time::NEVER);
    let acks = hear(&mut server, at(20), &out).unwrap().1;
    let told: Vec<_> = acks.iter().map(|ack| (ack.position, ack.delay.as_nanos() / 1_000_000)).collect();
    assert_eq!(told, [(7, 0), (11, 3)]);
    assert_eq!((server.sent(), server.acked()), (11, 11));
}

#[test]
fn a_heartbeat_is_answered() {
    let (mut server, mut client) = (Connection::new(None), Connection::new(None));
    assert_eq!(hear(&mut client, at(1), &chunk(&mut server, b"")).unwrap().0, b"");
    let mut out = Vec::new();
    assert!(client.ack(at(1), &mut out));
    assert_eq!(hear(&mut server, at(2), &out).unwrap().1[0].position, 0);
}

#[test]
fn acknowledgements_of_what_was_not_sent_are_violations() {
    let mut server = Connection::new(None);
    chunk(&mut server, b"four");
    let tell = |position: u64| {
        let mut out = Vec::new();
        Ack { position, delay: Nanos::ZERO, feedback: None }.write(&mut out);
        out
    };
    hear(&mut server, at(1), &[VERSION]).unwrap();
    hear(&mut server, at(1), &tell(3)).unwrap();
    assert_eq!(hear(&mut server, at(1), &tell(2)), Err(Violation::Backwards { found: 2, before: 3 }));
    assert_eq!(hear(&mut server, at(1), &tell(5)), Err(Violation::Unsent { found: 5, sent: 4 }));
}

#[test]
fn what_this_end_may_not_send_is_refused() {
    let (mut server, mut out) = (Connection::new(None), Vec::new());
    assert!(server.data(MAX_PAYLOAD + 1, 0, &mut out).is_err() && out.is_empty() && server.sent() == 0);
}

/// Speaks every 20 ms, and says what arrived.
struct Echo {
    heard: Vec<u8>,
    tick: Time,
}

impl ReceiverHalf for Echo {
    fn on_arrival(&mut self, arrival: &Arrival) {
        self.heard.push(arrival.note as u8);
        self.tick = self.tick.min(arrival.now + Nanos::from_millis(20));
    }

    fn feedback(&mut self, now: Time, blob: &mut Vec<u8>) -> bool {
        if now < self.tick {
            return false;
        }
        blob.append(&mut self.heard);
        self.tick = now + Nanos::from_millis(20);
        true
    }

    fn next_tick(&self) -> Time {
        self.tick
    }

    fn describe(&self, _: &mut dyn FnMut(&'static str, f64)) {}
}

#[test]
fn a_receiver_half_hears_notes_and_is_heard() {
    let mut server = Connection::new(None);
    let mut client = Connection::new(Some(Box::new(Echo { heard: Vec::new(), tick: Time::NEVER })));
    let (mut wire, mut out) = (Vec::new(), Vec::new());
    for note in [7, 9] {
        server.data(0, note, &mut wire).unwrap();
    }
    hear(&mut client, at(1), &wire).unwrap();
    assert!(client.ack(at(1), &mut out));
    // It speaks although nothing has come.
    assert_eq!(client.next_timeout(), at(21));
    assert!(client.ack(at(21), &mut out));
    let acks = hear(&mut server, at(30), &out).unwrap().1;
    assert_eq!(acks[0].feedback, None);
    assert_eq!(acks[1].feedback.as_deref(), Some(&[7, 9][..]));
    assert_eq!(acks[1].delay, Nanos::from_millis(20));
}

#[test]
fn a_receiver_half_that_comes_later_hears_of_what_came_before() {
    let mut server = Connection::new(None);
    let mut client = Connection::new(None);
    let mut wire = Vec::new();
    server.data(4, 7, &mut wire).unwrap();
    wire.extend_from_slice(b"abcd");
    let mut input = wire.as_slice();
    while client.read(at(1), &mut input).unwrap().is_some() {}
    client.set_half(Box::new(Echo { heard: Vec::new(), tick: Time::NEVER }));
    let mut out = Vec::new();
    assert!(client.ack(at(21), &mut out));
    let mut input = out.as_slice();
    let heard = server.read(at(22), &mut input).unwrap();
    let ack = Ack { position: 4, delay: Nanos::from_millis(20), feedback: Some([7].into()) };
    assert_eq!(heard, Some(News::Acked(ack)));
}
