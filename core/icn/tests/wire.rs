//! Messages: what is written is read again, and what is not a message is refused with a reason.

use paceline_cc::Nanos;
use paceline_icn::name::{Name, NameKind, NoName};
use paceline_icn::ranges::{MAX_RANGES, MAX_UNITS};
use paceline_icn::wire::{
    AddressToken, BadMessage, BadRanges, DATA_HEAD, Grant, MAX_MESSAGE, MissingReason, Nack, PADDED, TOKEN_BYTES,
    UnitAnswer, UnitHead, UnitRequest,
};
use paceline_icn::{Ranges, UNIT, Units};
use proptest::prelude::*;

fn bytes_of(request: &UnitRequest) -> Vec<u8> {
    let mut message = Vec::new();
    request.encode(&mut message);
    message
}

fn request(ranges: Ranges) -> UnitRequest {
    UnitRequest {
        nonce: 0x0102_0304_0506_0708,
        name: Name::new(NameKind::Object, [9; 32]),
        ranges,
        token: None,
        hops: 0,
        padded: 0,
    }
}

fn ranges(first: u64, steps: &[(u32, u32)]) -> Ranges {
    let mut all = Ranges::one(first);
    let mut end = first + 1;
    for (gap, count) in steps {
        for unit in 0..*count {
            end += u64::from(if unit == 0 { *gap } else { 0 });
            all.push(end);
            end += 1;
        }
    }
    all
}

fn any_request() -> impl Strategy<Value = UnitRequest> {
    let steps = prop::collection::vec((any::<u32>(), 1..8_u32), 0..20);
    let token = prop::option::of(any::<[u8; TOKEN_BYTES]>());
    (any::<u64>(), any::<[u8; 32]>(), any::<bool>(), 0..u64::MAX / 2, steps, token, any::<u8>()).prop_map(
        |(nonce, hash, signed, first, steps, token, hops)| UnitRequest {
            nonce,
            name: Name::new(if signed { NameKind::Signed } else { NameKind::Object }, hash),
            ranges: ranges(first, &steps),
            token: token.map(AddressToken),
            hops,
            padded: 0,
        },
    )
}

#[test]
fn a_request_byte_by_byte() {
    let token = AddressToken([5; TOKEN_BYTES]);
    let message = bytes_of(&UnitRequest { token: Some(token), hops: 2, ..request(ranges(258, &[(0, 1), (3, 2)])) });
    let mut wanted = vec![0x11, 2, 1, 2, 3, 4, 5, 6, 7, 8, 1];
    wanted.extend([9; 32]);
    wanted.extend([2, 0, 0, 0, 0, 0, 0, 1, 2, 0, 2, 0, 0, 0, 3, 0, 2]);
    wanted.extend([1, 0, 24]);
    wanted.extend([5; TOKEN_BYTES]);
    assert_eq!(message, wanted);
}

#[test]
fn padding_has_the_length_asked_for() {
    let one = request(Ranges::one(0));
    let bare = bytes_of(&one).len();
    assert_eq!(bare, 54);
    for padded in [PADDED, bare + 3, bare + 100, MAX_MESSAGE] {
        let message = bytes_of(&UnitRequest { padded, ..one });
        assert_eq!(message.len(), padded);
        assert_eq!(UnitRequest::decode(&message), Ok(UnitRequest { padded, ..one }));
    }
    assert_eq!(bytes_of(&UnitRequest { padded: bare + 1, ..one }).len(), bare + 3);
    assert_eq!(bytes_of(&UnitRequest { padded: 10, ..one }).len(), bare);
    assert_eq!(bytes_of(&UnitRequest { padded: 100_000, ..one }).len(), MAX_MESSAGE);
}

#[test]
fn refusals_and_grants_are_shorter_than_any_request() {
    let nonce = 7;
    let units = Units { first: 3, count: 64 };
    let (mut nack, mut grant) = (Vec::new(), Vec::new());
    Nack { nonce, units, reason: MissingReason::Busy, retry_after: Nanos::from_millis(5) }.encode(&mut nack);
    Grant { nonce, token: AddressToken([1; TOKEN_BYTES]) }.encode(&mut grant);
    let shortest = bytes_of(&request(Ranges::one(0))).len();
    assert!(nack.len() < shortest && grant.len() < shortest, "{} {} {shortest}", nack.len(), grant.len());
}

#[test]
fn options_are_skipped_or_refused_by_their_type() {
    let with = |options: &[&[u8]]| {
        let mut message = bytes_of(&request(Ranges::one(0)));
        options.iter().for_each(|option| message.extend_from_slice(option));
        UnitRequest::decode(&message)
    };
    assert_eq!(with(&[&[128, 0, 2, 9, 9], &[255, 0, 0]]), Ok(request(Ranges::one(0))));
    assert_eq!(with(&[&[127, 0, 0]]), Err(BadMessage::Option(127)));
    assert_eq!(with(&[&[1, 0, 3, 1, 2, 3]]), Err(BadMessage::OptionLength { kind: 1, length: 3 }));
    let token = [&[1, 0, 24][..], &[0; 24]].concat();
    assert_eq!(with(&[&token, &token]), Err(BadMessage::Twice(1)));
    assert_eq!(with(&[&[0, 0, 0], &[0, 0, 1, 0]]), Err(BadMessage::Twice(0)));
    assert_eq!(with(&[&[0, 0, 2, 0, 1]]), Err(BadMessage::Padding));
    assert_eq!(with(&[&[200, 1, 0, 1]]), Err(BadMessage::Short { what: "option", wanted: 256, left: 1 }));
    assert_eq!(with(&[&[1]]), Err(BadMessage::Short { what: "option", wanted: 3, left: 1 }));
}

#[test]
fn ranges_that_are_none_are_refused() {
    let with = |used: u8, tail: &[u8]| {
        let mut message = bytes_of(&request(Ranges::one(0)));
        message.truncate(43);
        message.push(used);
        message.extend_from_slice(tail);
        UnitRequest::decode(&message).expect_err("no ranges")
    };
    let bad = |index, why| BadMessage::Ranges { index, why };
    let first = [0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
    let then = |gap: u32, count: u16| [&first[..], &gap.to_be_bytes(), &count.to_be_bytes()].concat();
    assert_eq!(with(0, &[]), bad(0, BadRanges::Number));
    assert_eq!(with(17, &[0; 200]), bad(17, BadRanges::Number));
    assert_eq!(with(1, &[0; 10]), bad(0, BadRanges::Units));
    assert_eq!(with(1, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 65]), bad(0, BadRanges::Units));
    assert_eq!(with(1, &[255, 255, 255, 255, 255, 255, 255, 255, 0, 1]), bad(0, BadRanges::End));
    assert_eq!(with(2, &then(0, 1)), bad(1, BadRanges::Touches));
    assert_eq!(with(2, &then(9, 0)), bad(1, BadRanges::Units));
    assert_eq!(with(2, &then(9, 64)), bad(1, BadRanges::Units));
    let last = [&[255; 8][..7], &[254, 0, 1]].concat();
    assert_eq!(with(2, &[&last[..], &[255; 4], &[0, 1]].concat()), bad(1, BadRanges::End));
    assert_eq!(with(2, &first), BadMessage::Short { what: "range", wanted: 4, left: 0 });
}

#[test]
fn what_comes_from_the_wrong_side_or_another_version_is_refused() {
    let mut message = bytes_of(&request(Ranges::one(0)));
    assert_eq!(UnitAnswer::decode(&message), Err(BadMessage::Kind(1)));
    message[0] = 0x12;
    assert_eq!(UnitRequest::decode(&message), Err(BadMessage::Kind(2)));
    message[0] = 0x21;
    assert_eq!(UnitRequest::decode(&message), Err(BadMessage::Version(2)));
    message[0] = 0x1f;
    assert_eq!(UnitAnswer::decode(&message), Err(BadMessage::Kind(15)));
    message[0] = 0x11;
    message[10] = 3;
    assert_eq!(UnitRequest::decode(&message), Err(BadMessage::Name(NoName::Kind(3))));
    assert_eq!(UnitRequest::decode(&vec![0x11; MAX_MESSAGE + 1]), Err(BadMessage::Long(1)));
}

#[test]
fn answers_that_are_none_are_refused() {
    let data = UnitHead { nonce: 1, unit: 2, stored_units: None, waited: Nanos::ZERO, app_limited: false };
    let with = |flags: u8, payload: usize| {
        let mut message = data.encode_head().to_vec();
        message[1] = flags;
        message.resize(DATA_HEAD + payload, 0);
        UnitAnswer::decode(&message).err()
    };
    assert_eq!(with(0, UNIT), None);
    assert_eq!(with(0, 0), Some(BadMessage::Empty));
    assert_eq!(with(0, UNIT + 1), Some(BadMessage::Long(1)));
    assert_eq!(with(2, 1), Some(BadMessage::Flags(2)));
    let mut nack = Vec::new();
    Nack { nonce: 1, units: Units { first: 1, count: 1 }, reason: MissingReason::End, retry_after: Nanos::ZERO }
        .encode(&mut nack);
    let changed = |at: usize, value: u8| {
        let mut nack = nack.clone();
        nack[at] = value;
        UnitAnswer::decode(&nack).err()
    };
    assert_eq!(changed(1, 7), Some(BadMessage::Reason(7)));
    assert_eq!(changed(21, 0), Some(BadMessage::Empty));
    nack.push(0);
    assert_eq!(UnitAnswer::decode(&nack), Err(BadMessage::Long(1)));
}

proptest! {
    #[test]
    fn requests_come_back_as_they_were(request in any_request()) {
        prop_assert!(request.ranges.as_slice().len() <= MAX_RANGES && request.ranges.units() <= MAX_UNITS);
        prop_assert_eq!(UnitRequest::decode(&bytes_of(&request)), Ok(request));
    }

    #[test]
    fn a_cut_request_is_refused(request in any_request(), share in 0.0..1.0_f64) {
        let message = bytes_of(&request);
        let cut = (message.len() as f64 * share) as usize;
        // The token is an option: without it a request stands by itself.
        let bare = bytes_of(&UnitRequest { token: None, ..request }).len();
        prop_assert_eq!(UnitRequest::decode(&message[..cut]).is_ok(), cut == bare);
    }

    #[test]
    fn answers_come_back_as_they_were(
        nonce: u64, unit: u64, stored in 0..u64::MAX, waited: u32, app_limited: bool,
        payload in prop::collection::vec(any::<u8>(), 1..=UNIT),
        count in 1..u32::MAX, reason in 0..6_usize, token: [u8; TOKEN_BYTES],
    ) {
        let waited = Nanos::from_micros(u64::from(waited));
        let data = UnitHead { nonce, unit, stored_units: (stored > 0).then_some(stored), waited, app_limited };
        let message = [&data.encode_head()[..], &payload].concat();
        prop_assert_eq!(UnitAnswer::decode(&message), Ok(UnitAnswer::Data(data, &payload)));
        let reasons =
            [MissingReason::NotFound, MissingReason::End, MissingReason::Busy, MissingReason::NoToken, MissingReason::Changed, MissingReason::Loop];
        let nack = Nack { nonce, units: Units { first: unit, count }, reason: reasons[reason], retry_after: waited };
        let mut message = Vec::new();
        nack.encode(&mut message);
        prop_assert_eq!(UnitAnswer::decode(&message), Ok(UnitAnswer::Nack(nack)));
        let grant = Grant { nonce, token: AddressToken(token) };
        message.clear();
        grant.encode(&mut message);
        prop_assert_eq!(UnitAnswer::decode(&message), Ok(UnitAnswer::Grant(grant)));
        message.pop();
        prop_assert!(UnitAnswer::decode(&message).is_err());
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..1500), kind in 1..5_u8) {
        let _ = (UnitRequest::decode(&bytes), UnitAnswer::decode(&bytes));
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = 0x10 | kind;
        }
        let _ = (UnitRequest::decode(&bytes), UnitAnswer::decode(&bytes));
    }
}
