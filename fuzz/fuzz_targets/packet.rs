//! A packet from a program behind the emulator: its flow is found or not; the ECN field is written as it is read back, and
//! nothing else changes but an IPv4 checksum, which stays as right as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::Codepoint;
use paceline_emulator::frame::{ecn, flow_key, set_ecn};

/// The ones' complement sum of the words that hold the ECN field and the checksum.
fn sum(packet: &[u8]) -> u32 {
    let words = [[packet[0], packet[1]], [packet[10], packet[11]]].map(|word| u32::from(u16::from_be_bytes(word)));
    // Zero and 0xffff are the same number.
    words.iter().sum::<u32>() % 0xffff
}

fuzz_target!(|bytes: &[u8]| {
    let key = flow_key(bytes);
    for codepoint in [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce] {
        let mut packet = bytes.to_vec();
        set_ecn(&mut packet, codepoint);
        assert_eq!(flow_key(&packet), key);
        assert_eq!(packet.get(12..), bytes.get(12..));
        if key.is_some() {
            assert_eq!(ecn(&packet), codepoint);
        }
        if bytes.first().is_some_and(|first| first >> 4 == 4) && bytes.len() >= 12 {
            assert_eq!(sum(&packet), sum(bytes));
        }
    }
});
