//! Packets of NDN from a stranger, one by one and to a consumer: they are refused, or they are read again as they were after being written.
//! The first byte says what the consumer asks for; each piece behind it is two bytes of length and a packet of the link.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::{Env, Nanos, Spec, Time};
use paceline_icn::UNIT;
use paceline_icn::ndn::{Consumed, Consumer, Interest, LinkFrame, NdnData, NdnName, frame_length};

/// What the reader never takes, and what one more segment may bring.
const BUFFER: u64 = 20_000;

fn name(text: &str) -> NdnName {
    text.parse().expect("a name")
}

fn consumer(what: u8, bytes: &[u8]) {
    let controller = "bbr".parse::<Spec>().expect("it is known").build(&Env::new(UNIT as u32).with_seed(1));
    let asked = ["/a", "/a/v=1", "/a/seg=1", "/example/file"][usize::from(what % 4)];
    let mut now = Time::ZERO;
    let mut consumer = Consumer::new(now, name(asked), controller, BUFFER, 7);
    let (mut rest, mut out, mut given, mut ended) = (bytes, Vec::new(), 0, false);
    while let [high, low, tail @ ..] = rest {
        while consumer.poll_interest(now, &mut out) {
            assert!(Interest::decode(&out).is_ok());
            out.clear();
        }
        let (frame, tail) = tail.split_at(tail.len().min(usize::from(u16::from_be_bytes([*high, *low]))));
        rest = tail;
        let _ = consumer.on_frame(now, frame);
        while let Some(output) = consumer.poll_output() {
            assert!(!ended, "nothing comes behind the end");
            match output {
                Consumed::Bytes(bytes) => given += bytes.len() as u64,
                Consumed::Done => ended = true,
                Consumed::Opened { .. } => assert_eq!(given, 0),
            }
        }
        now += Nanos::from_millis(300);
        consumer.on_timeout(now);
    }
    assert_eq!(given, consumer.stats().bytes);
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(interest) = Interest::decode(bytes) {
        let mut out = Vec::new();
        interest.encode(&mut out);
        assert_eq!(Interest::decode(&out).as_ref(), Ok(&interest));
        assert_eq!(name(&interest.name.to_string()), interest.name);
    }
    if let Ok(data) = NdnData::decode(bytes) {
        assert!(data.content.len() <= bytes.len());
        assert_eq!(name(&data.name.to_string()), data.name);
    }
    let _ = LinkFrame::decode(bytes);
    if let Ok(Some(length)) = frame_length(bytes) {
        assert!(length > 1);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(parsed) = text.parse::<NdnName>()
    {
        assert_eq!(name(&parsed.to_string()), parsed);
    }
    if let [what, rest @ ..] = bytes {
        consumer(*what, rest);
    }
});
