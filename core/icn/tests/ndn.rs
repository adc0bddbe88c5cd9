//! Objects of NDN through a link of virtual time, from producers good and bad.

use std::collections::BTreeMap;

use paceline_cc::{Env, Nanos, Spec, Time};
use paceline_icn::UNIT;
use paceline_icn::ndn::{
    BadNdn, ConsumeFailed, Consumed, Consumer, ContentKind, Fragments, Interest, LinkFrame, NdnData, NdnName, Produced,
    Signature,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const DELAY: Nanos = Nanos::from_millis(5);

fn name(text: &str) -> NdnName {
    text.parse().unwrap()
}

fn consumer(asked: &str, receive_buffer: u64) -> Consumer {
    let controller = "bbr".parse::<Spec>().unwrap().build(&Env::new(UNIT as u32).with_seed(1));
    Consumer::new(Time::ZERO, name(asked), controller, receive_buffer, 7)
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// What a producer and its forwarder answer to an Interest.
type Answer<'a> = dyn FnMut(&Interest) -> Option<Vec<u8>> + 'a;

/// What makes a packet bad, by the number of its segment.
type Changes<'a> = &'a dyn Fn(u64, &mut Produced<'_>);

fn packet(produced: &Produced<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    produced.encode(&mut out);
    out
}

/// Segments of a versioned object, its metadata, and nothing else.
fn object<'a>(base: &'a str, bytes: &'a [u8], size: usize) -> impl FnMut(&Interest) -> Option<Vec<u8>> + 'a {
    let versioned = name(&format!("{base}/v=3"));
    let last = bytes.len().div_ceil(size).max(1) as u64 - 1;
    move |interest| {
        if interest.name == name(&format!("{base}/32=metadata")) {
            assert!(interest.can_be_prefix && interest.must_be_fresh);
            let mut inner = Vec::new();
            // An Interest begins with its name.
            let ask = Interest {
                name: versioned.clone(),
                can_be_prefix: false,
                must_be_fresh: false,
                nonce: [0; 4],
                lifetime: DELAY,
            };
            ask.encode(&mut inner);
            let named = &inner[2..4 + usize::from(inner[3])];
            return Some(packet(&Produced::new(name(&format!("{base}/32=metadata/v=9/seg=0")), named)));
        }
        let number = (0..=last).find(|number| versioned.segment(*number) == interest.name)?;
        let begin = number as usize * size;
        let part = &bytes[begin..bytes.len().min(begin + size)];
        Some(packet(&Produced { last: Some(last), ..Produced::new(interest.name.clone(), part) }))
    }
}

struct Link {
    random: Pcg64,
    loss: f64,
    reorder: f64,
    /// Bytes of a packet of the link; longer ones are cut.
    mtu: usize,
}

impl Link {
    fn new(seed: u64, loss: f64, reorder: f64, mtu: usize) -> Self {
        Self { random: Pcg64::seed_from_u64(seed), loss, reorder, mtu }
    }

    fn good() -> Self {
        Self::new(1, 0.0, 0.0, 9000)
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..253 => out.push(length as u8),
        _ => {
            out.push(253);
            out.extend((length as u16).to_be_bytes());
        }
    }
}

/// A packet as a link carries it: as it is, or in parts.
fn frames(packet: &[u8], mtu: usize, number: &mut u64) -> Vec<Vec<u8>> {
    if packet.len() <= mtu {
        return vec![packet.to_vec()];
    }
    let parts: Vec<&[u8]> = packet.chunks(mtu - 40).collect();
    let count = parts.len() as u8;
    let cut = |(index, part): (usize, &&[u8])| {
        let mut fields = vec![81, 8];
        fields.extend(number.wrapping_add(index as u64).to_be_bytes());
        fields.extend([82, 1, index as u8, 83, 1, count, 80]);
        put_length(&mut fields, part.len());
        fields.extend(*part);
        let mut frame = vec![100];
        put_length(&mut frame, fields.len());
        frame.extend(fields);
        frame
    };
    let frames = parts.iter().enumerate().map(cut).collect();
    *number = number.wrapping_add(u64::from(count));
    frames
}

struct End {
    bytes: Vec<u8>,
    opened: Option<(NdnName, Signature, Option<u64>)>,
    done: bool,
    took: Time,
    interests: u64,
}

/// Runs until the end, or `until`. The reader takes what comes if it `reads`.
fn run(consumer: &mut Consumer, link: &mut Link, answer: &mut Answer<'_>, until: Time, reads: bool) -> End {
    let mut on_way: BTreeMap<(Time, u64), Vec<u8>> = BTreeMap::new();
    let (mut now, mut order, mut number) = (Time::ZERO, 0, u64::MAX - 3);
    let mut end = End { bytes: Vec::new(), opened: None, done: false, took: Time::ZERO, interests: 0 };
    loop {
        let mut out = Vec::new();
        while consumer.poll_interest(now, &mut out) {
            end.interests += 1;
            let interest = Interest::decode(&out).unwrap();
            out.clear();
            if link.random.random_bool(link.loss) {
                continue;
            }
            let Some(packet) = answer(&interest) else { continue };
            number = number.wrapping_add(64);
            for frame in frames(&packet, link.mtu, &mut number) {
                order += 1;
                let late = if link.random.random_bool(link.reorder) { DELAY.mul_div(1, 2) } else { Nanos::ZERO };
                if !link.random.random_bool(link.loss) {
                    on_way.insert((now + DELAY + DELAY + late, order), frame);
                }
            }
        }
        while let Some(output) = consumer.poll_output() {
            match output {
                Consumed::Opened { name, signature, length } => end.opened = Some((name, signature, length)),
                Consumed::Bytes(bytes) => {
                    end.bytes.extend_from_slice(&bytes);
                    if reads {
                        consumer.consumed(bytes.len() as u64);
                    }
                }
                Consumed::Done => end.done = true,
            }
        }
        let next = on_way.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at).min(consumer.next_timeout());
        if end.done || consumer.failure().is_some() || next > until || next == Time::NEVER {
            end.took = now;
            return end;
        }
        now = now.max(next);
        while let Some(entry) = on_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let _ = consumer.on_frame(now, &entry.remove());
        }
        if consumer.next_timeout() <= now {
            consumer.on_timeout(now);
        }
    }
}

fn hour() -> Time {
    Time::ZERO + Nanos::from_secs(3600)
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn packets_of_python_ndn_are_read_and_ours_are_the_same() {
    let data = hex(
        "0655071608076578616d706c65080466696c653602012c320101140d180100190227101a0432020102150568656c6c6f16031b0100\
         17200a974b11086ce4b3ca65268f99bffd1b6d02c9891d0388c35e18d3ac533e4858",
    );
    let read = NdnData::decode(&data).unwrap();
    assert_eq!(read.name, name("/example/file/v=300/seg=1"));
    assert_eq!((read.kind, read.last, read.content), (ContentKind::Blob, Some(258), &b"hello"[..]));
    assert_eq!(read.signature, Signature::Digest);
    // Ours says nothing where its content is bytes.
    let produced = Produced { last: Some(258), ..Produced::new(read.name, b"hello") };
    let ours = packet(&produced);
    assert_eq!(ours.len() + 3, data.len());
    assert_eq!(NdnData::decode(&ours).unwrap().last, Some(258));

    let interest = hex("0529071908076578616d706c65080466696c6520086d65746164617461210012000a04010203040c0203e8");
    let ours = Interest {
        name: name("/example/file/32=metadata"),
        can_be_prefix: true,
        must_be_fresh: true,
        nonce: [1, 2, 3, 4],
        lifetime: Nanos::from_secs(1),
    };
    assert_eq!(Interest::decode(&interest).unwrap(), ours);
    let mut out = Vec::new();
    ours.encode(&mut out);
    assert_eq!(out, interest);

    for at in 0..data.len() {
        assert!(NdnData::decode(&data[..at]).is_err());
        let mut changed = data.clone();
        changed[at] ^= 1;
        // A digest that is said to be another kind of signature does not count.
        let unchecked = NdnData::decode(&changed).is_ok_and(|data| data.signature == Signature::Unchecked(1));
        assert!(NdnData::decode(&changed).is_err() || unchecked && at == 52, "byte {at}");
    }
    let mut longer = data.clone();
    longer.push(0);
    assert_eq!(NdnData::decode(&longer).unwrap_err(), BadNdn::Behind(1));
}

#[test]
fn an_object_is_found_by_its_metadata_and_comes_in_order() {
    let bytes = content(3_000_000);
    let mut consumer = consumer("/a", 4_000_000);
    let end = run(&mut consumer, &mut Link::good(), &mut object("/a", &bytes, 8000), hour(), true);
    assert!(end.done && end.bytes == bytes);
    assert_eq!(end.opened, Some((name("/a/v=3"), Signature::Digest, None)));
    // Each segment once, and the metadata.
    assert_eq!(end.interests, 375 + 1);
    assert_eq!(consumer.stats().repeats, 0);
    // A version that is given needs no metadata.
    let mut versioned = self::consumer("/a/v=3", 4_000_000);
    let end = run(&mut versioned, &mut Link::good(), &mut object("/a", &bytes, 8000), hour(), true);
    assert!(end.done && end.bytes == bytes && end.interests == 375);
}

#[test]
fn a_producer_that_knows_no_metadata_is_asked_by_name() {
    let bytes = content(100_000);
    let mut segments = object("/a", &bytes, 1000);
    let mut answer = |interest: &Interest| {
        if interest.name == name("/a") {
            assert!(interest.can_be_prefix);
            let first = Interest { name: name("/a/v=3/seg=0"), ..interest.clone() };
            return segments(&first);
        }
        if interest.name == name("/a/32=metadata") { None } else { segments(interest) }
    };
    let mut found = consumer("/a", 4_000_000);
    let end = run(&mut found, &mut Link::good(), &mut answer, hour(), true);
    assert!(end.done && end.bytes == bytes);
    assert_eq!(end.opened.unwrap().0, name("/a/v=3"));

    let mut one = |interest: &Interest| Some(packet(&Produced::new(interest.name.clone(), b"one packet")));
    for asked in ["/a/seg=0", "/a/v=1/seg=7"] {
        let end = run(&mut consumer(asked, 100_000), &mut Link::good(), &mut one, hour(), true);
        assert_eq!(end.bytes, b"one packet", "{asked}");
        assert_eq!(end.opened, Some((name(asked), Signature::Digest, Some(10))));
    }
    // A Nack to the metadata is quicker than silence.
    let mut nacked = |interest: &Interest| {
        if interest.name == name("/a") { one(interest) } else { Some(nack(interest, 150)) }
    };
    let end = run(&mut consumer("/a", 100_000), &mut Link::good(), &mut nacked, hour(), true);
    assert!(end.done && end.took < Time::ZERO + Nanos::from_millis(100));
}

fn nack(interest: &Interest, reason: u8) -> Vec<u8> {
    let mut packet = Vec::new();
    interest.encode(&mut packet);
    let mut frame = vec![100, packet.len() as u8 + 11, 253, 3, 32, 5, 253, 3, 33, 1, reason, 80, packet.len() as u8];
    frame.extend(packet);
    frame
}

#[test]
fn a_digest_in_a_name_admits_one_packet() {
    let good = packet(&Produced::new(name("/a"), b"this"));
    let digest: String = NdnData::decode(&good).unwrap().digest().iter().map(|byte| format!("{byte:02x}")).collect();
    let asked = format!("/a/sha256digest={digest}");
    let mut tries = 0;
    let mut answer = |_: &Interest| {
        tries += 1;
        Some(if tries == 1 { packet(&Produced::new(name("/a"), b"that")) } else { good.clone() })
    };
    let mut one = consumer(&asked, 100_000);
    let end = run(&mut one, &mut Link::good(), &mut answer, hour(), true);
    assert_eq!((end.bytes.as_slice(), one.stats().unasked), (&b"this"[..], 1));
}

#[test]
fn what_cannot_come_fails_with_its_reason() {
    let failed = |asked: &str, answer: &mut Answer<'_>| {
        let mut consumer = consumer(asked, 100_000);
        let end = run(&mut consumer, &mut Link::good(), answer, hour(), true);
        assert!(!end.done);
        consumer.failure().unwrap().clone()
    };
    let produced = |interest: &Interest| Produced::new(interest.name.clone(), b"x");
    assert_eq!(failed("/a", &mut |_| None), ConsumeFailed::Silent);
    assert_eq!(failed("/a/v=1", &mut |_| None), ConsumeFailed::Silent);
    assert_eq!(failed("/a/seg=1", &mut |_| None), ConsumeFailed::Silent);
    assert_eq!(failed("/a", &mut |interest| Some(nack(interest, 150))), ConsumeFailed::NoRoute);
    assert_eq!(failed("/a/v=1", &mut |interest| Some(nack(interest, 150))), ConsumeFailed::NoRoute);
    let mut busy = |interest: &Interest| Some(nack(interest, 50));
    assert_eq!(failed("/a/v=1/seg=1", &mut busy), ConsumeFailed::Silent);
    let not_there = |interest: &Interest| packet(&Produced { kind: ContentKind::Nack, ..produced(interest) });
    assert_eq!(failed("/a/v=1", &mut |interest| Some(not_there(interest))), ConsumeFailed::NotThere);
    let mut below = |interest: &Interest| {
        (interest.name == name("/a")).then(|| packet(&Produced::new(name("/a/b/v=1/seg=0"), b"x")))
    };
    assert_eq!(failed("/a", &mut below), ConsumeFailed::Below(name("/a/b/v=1/seg=0")));
    let broken = |asked: &str, make: Changes<'_>| {
        let base = name("/a/v=1");
        let mut answer = |interest: &Interest| {
            let number = (0..1000).find(|number| base.segment(*number) == interest.name)?;
            let mut produced = Produced { last: Some(9), ..produced(interest) };
            make(number, &mut produced);
            Some(packet(&produced))
        };
        failed(asked, &mut answer).to_string()
    };
    let cases: [(&str, Changes<'_>); 5] = [
        ("another one", &|number, data| data.last = Some(9 + number % 2)),
        ("is the last", &|number, data| data.last = (number == 3).then_some(2)),
        ("is empty", &|number, data| {
            (data.last, data.content) = (Some(u64::MAX), if number == 3 { &b""[..] } else { &b"x"[..] });
        }),
        ("signed otherwise (ed25519, not checked)", &|number, data| {
            data.signature = if number == 3 { Signature::Unchecked(5) } else { Signature::Digest };
        }),
        ("a link", &|_, data| data.kind = ContentKind::Other(1)),
    ];
    for (says, make) in cases {
        let error = broken("/a/v=1", make);
        assert!(error.contains(says) && error.starts_with("/a/v=1/seg="), "{error}");
    }
    let mut elsewhere = |interest: &Interest| {
        let named = [7, 3, 8, 1, b'b'];
        Some(packet(&Produced::new(interest.name.clone().segment(0), &named)))
    };
    assert!(failed("/a", &mut elsewhere).to_string().contains("another object, /b"));
}

#[test]
fn an_object_without_an_end_comes_in_bounded_memory() {
    let base = name("/a/v=1");
    let mut next = 0;
    let bytes = content(8000);
    let mut endless = |interest: &Interest| {
        // Segments are asked for about in order.
        let number = (next..next + 2000).find(|number| base.segment(*number) == interest.name)?;
        next = number.saturating_sub(500);
        Some(packet(&Produced {
            last: (number % 2 == 0).then_some(u64::MAX),
            ..Produced::new(interest.name.clone(), &bytes)
        }))
    };
    let mut unread = consumer("/a/v=1", 400_000);
    let end = run(&mut unread, &mut Link::good(), &mut endless, Time::ZERO + Nanos::from_secs(5), false);
    assert!((300_000..=400_000).contains(&end.bytes.len()), "{}", end.bytes.len());
    let mut read = consumer("/a/v=1", 400_000);
    let end = run(&mut read, &mut Link::good(), &mut endless, Time::ZERO + Nanos::from_secs(2), true);
    assert!(end.bytes.len() > 10_000_000, "{}", end.bytes.len());
}

#[test]
fn an_end_that_only_the_last_segment_says_is_found() {
    let bytes = content(100_500);
    let mut segments = object("/a", &bytes, 1000);
    let mut answer = |interest: &Interest| {
        let found = segments(interest)?;
        let data = NdnData::decode(&found).unwrap();
        let last = data.last.filter(|last| name("/a/v=3").segment(*last) == data.name);
        Some(packet(&Produced { last, ..Produced::new(data.name.clone(), data.content) }))
    };
    let end = run(&mut consumer("/a/v=3", 4_000_000), &mut Link::good(), &mut answer, hour(), true);
    assert!(end.done && end.bytes == bytes);
}

#[test]
fn what_a_producer_does_not_have_fails_an_object_up_to_its_end_alone() {
    let bytes = content(3_500);
    let base = name("/a/v=3");
    let absent = |interest: &Interest| {
        Some(packet(&Produced { kind: ContentKind::Nack, ..Produced::new(interest.name.clone(), b"") }))
    };
    for lost in 0..20 {
        let (mut segments, mut asked) = (object("/a", &bytes, 1000), 0);
        let mut behind = |interest: &Interest| {
            asked += 1;
            (asked != lost).then(|| segments(interest).or_else(|| absent(interest)))?
        };
        let mut whole = consumer("/a/v=3", 4_000_000);
        let end = run(&mut whole, &mut Link::new(lost, 0.02, 0.2, 9000), &mut behind, hour(), true);
        assert!(end.done && end.bytes == bytes, "{lost}: {:?}", whole.failure());
    }
    for missing in 0..4 {
        let mut segments = object("/a", &bytes, 1000);
        let mut without = |interest: &Interest| {
            if interest.name == base.segment(missing) { absent(interest) } else { segments(interest) }
        };
        let mut broken = consumer("/a/v=3", 4_000_000);
        let end = run(&mut broken, &mut Link::good(), &mut without, hour(), true);
        assert_eq!((end.done, broken.failure()), (false, Some(&ConsumeFailed::NotThere)), "{missing}");
    }
}

#[test]
fn a_changed_packet_is_asked_for_again() {
    let bytes = content(200_000);
    let mut segments = object("/a", &bytes, 1000);
    let mut count = 0;
    let mut answer = |interest: &Interest| {
        let mut packet = segments(interest)?;
        count += 1;
        if count % 10 == 0 {
            let middle = packet.len() / 2;
            packet[middle] ^= 0x40;
        }
        Some(packet)
    };
    let mut consumer = consumer("/a/v=3", 4_000_000);
    let end = run(&mut consumer, &mut Link::good(), &mut answer, hour(), true);
    assert!(end.done && end.bytes == bytes);
    assert!(consumer.stats().refused >= 20 && consumer.stats().repeats >= 20, "{:?}", consumer.stats());
}

#[test]
fn what_was_not_asked_for_takes_no_memory() {
    let mut quiet = consumer("/a/v=1", 100_000);
    quiet.poll_interest(Time::ZERO, &mut Vec::new());
    for number in 1000..2000 {
        let data = packet(&Produced::new(name("/a/v=1").segment(number), &[1; 1000]));
        assert_eq!(quiet.on_frame(Time::ZERO, &data), Ok(()));
    }
    assert_eq!((quiet.stats().unasked, quiet.stats().data, quiet.poll_output()), (1000, 0, None::<Consumed>));
    assert!(
        quiet
            .on_frame(
                Time::ZERO,
                &nack(
                    &Interest {
                        name: name("/b"),
                        can_be_prefix: false,
                        must_be_fresh: false,
                        nonce: [0; 4],
                        lifetime: DELAY
                    },
                    150
                )
            )
            .is_ok()
    );
    assert_eq!(quiet.failure(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn objects_come_whole_over_bad_links(
        seed: u64, length in 0_usize..300_000, size in 100_usize..8200, loss in 0.0..0.1, reorder in 0.0..0.2, mtu in 300_usize..9000,
    ) {
        // A segment of many frames comes whole in two of three times at least: a consumer gives up what does not come again and again.
        let loss = f64::min(loss, 0.4 / (size as f64 / (mtu - 40) as f64 + 1.0));
        let bytes = content(length);
        let mut consumer = consumer("/a", 1_000_000);
        let end = run(&mut consumer, &mut Link::new(seed, loss, reorder, mtu), &mut object("/a", &bytes, size), hour(), true);
        prop_assert!(end.done, "{:?}", consumer.failure());
        prop_assert!(end.bytes == bytes);
    }

    #[test]
    fn bytes_of_any_kind_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), stage in 0_usize..3) {
        let _ = LinkFrame::decode(&bytes);
        let _ = Interest::decode(&bytes);
        let _ = NdnData::decode(&bytes);
        let mut consumer = consumer(["/a", "/a/v=1", "/a/seg=1"][stage], 100_000);
        consumer.poll_interest(Time::ZERO, &mut Vec::new());
        let _ = consumer.on_frame(Time::ZERO, &bytes);
    }

    #[test]
    fn names_are_read_as_they_are_written(parts in proptest::collection::vec((3_u32..0x1_0000, proptest::collection::vec(any::<u8>(), 0..20)), 1..8)) {
        let text: String = parts.iter().map(|(kind, value)| {
            let value: String = value.iter().map(|byte| format!("%{byte:02X}")).collect();
            if value.chars().all(|one| one == '%' || one == '2' || one == 'E') { format!("/{kind}=...{value}") } else { format!("/{kind}={value}") }
        }).collect();
        let once = name(&text);
        prop_assert_eq!(name(&once.to_string()), once);
    }

    #[test]
    fn parts_come_together_or_not(parts in proptest::collection::vec((any::<u64>(), 0_u64..70, 0_u64..70, 0_usize..9000), 0..200)) {
        let mut fragments = Fragments::default();
        for (sequence, index, count, length) in parts {
            let _ = fragments.join((sequence % 8, index, count), &vec![0; length]);
        }
    }
}
