//! What anyone may put on the bus of telemetry: the first line is the subject, the rest the message. Nothing is let in that is not a
//! report of its subject by its number and age, and without a key nothing at all; what is let in is written as it was read, and a
//! second time it is a replay. A line for people is one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_bus::{
    BusSubject, Envelope, Gate, Keys, MAX_AGE, MessageBody, PublisherKey, PublisherRole, RefusalReason, Trust,
    VariantArray, seal,
};

/// That of the seeds.
const NOW: u64 = 1_700_000_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let _ = std::str::from_utf8(bytes).map(PublisherKey::parse);
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let subject = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    let message = &bytes[(end + 1).min(bytes.len())..];
    if let Ok(read) = subject.parse::<BusSubject>() {
        assert_eq!(read.to_string(), subject);
    }
    let key = PublisherKey::new(PublisherRole::VARIANTS, &[1; 32]);
    let mut closed = Gate::new(
        "lab",
        Trust::Keys(Keys::default().with("sta2", PublisherKey::new(PublisherRole::VARIANTS, &[9; 32]))),
        MAX_AGE,
    );
    let refused = closed.open(subject, message, NOW).expect_err("the key is not in the seeds");
    let line = closed.refuse(&refused, NOW).expect("it is the first");
    assert!(!line.contains(char::is_control), "{line:?}");
    let mut open = Gate::new("lab", Trust::Machine, MAX_AGE);
    let Ok((about, envelope)) = open.open(subject, message, NOW) else { return };
    assert!(envelope.number.abs_diff(NOW) <= MAX_AGE);
    assert_eq!(open.open(subject, message, NOW).map_err(|refused| refused.reason).err(), Some(RefusalReason::Replay));
    let sealed = seal(envelope.publisher, Some(&key), envelope.number, subject, envelope.body);
    assert!(Envelope::read(&sealed).is_none_or(|again| again.is_by(&key, subject) && again.body == envelope.body));
    if let Ok(body) = MessageBody::read(&about.kind, envelope.body) {
        let text = body.text();
        assert_eq!(MessageBody::read(&about.kind, &text).map(|again| again.text()), Ok(text));
    }
});
