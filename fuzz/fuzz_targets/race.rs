//! What a stranger may say to an end of a race between two hosts: it is refused, or it is a message that is written again byte by byte as
//! it was. No bytes hold as written with a key, and a refusal is one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_testbed::remote::wire::{
    AROUND, LONGEST, RaceChallenge, RaceEnd, RaceKey, RaceMessage, RaceOpening, RacePurpose, behind,
};

const SECRET: [u8; 32] = [1; 32];

fuzz_target!(|bytes: &[u8]| {
    let challenge = RaceChallenge { server: [2; 16] };
    match RaceChallenge::read(bytes) {
        Ok(read) => assert_eq!(read.bytes(), bytes),
        Err(breach) => assert!(!breach.to_string().contains('\n')),
    }
    if let Ok(opening) = RaceOpening::read(bytes) {
        assert_eq!(opening.bytes(), bytes);
        assert!(!opening.holds(&SECRET, &challenge), "the key is in no seed");
    }
    let opening = RaceOpening::new(RacePurpose::Control, [3; 16], &SECRET, &challenge);
    let key = || RaceKey::new(&SECRET, RaceEnd::Client, &challenge, &opening);
    assert!(key().open(bytes).is_err(), "the key is in no seed");
    if let Ok(message) = RaceMessage::read(bytes) {
        assert_eq!(message.bytes(), bytes);
        let frame = key().frame(&message);
        assert!(frame.len() <= LONGEST + AROUND);
        assert_eq!(behind([frame[0], frame[1]]), Ok(frame.len() - 2));
        assert_eq!(key().open(&frame[2..]), Ok(message));
    }
});
