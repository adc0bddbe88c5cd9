//! Recording a trace with a stranger: its terms are refused or written again as they were, and its acknowledgements and packets, whatever
//! they say, keep the sender within its rate and its window, and the trace in order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::{Nanos, Rate, Time};
use paceline_transport::saturator::{Opportunities, Saturator, SaturatorSeen};
use paceline_udp::record::Terms;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(terms) = Terms::parse(text)
    {
        assert_eq!(terms.text(), text);
    }
    let most = Rate::from_mbps(12.0);
    let mut sender = Saturator::new(Time::ZERO, 1500, most);
    let mut record = Opportunities::new(1500, Nanos::from_millis(10), Nanos::from_secs(1));
    let mut now = Time::ZERO;
    for words in bytes.chunks_exact(16) {
        let word = |at: usize| u64::from(u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]));
        now += Nanos::from_micros(word(0) % 100_000);
        for _ in 0..64 {
            if sender.take(now).is_none() {
                break;
            }
        }
        // At 12 Mbit/s a packet takes 1 ms; ten of them may leave at once.
        assert!(sender.sent() <= now.as_nanos() / 1_000_000 + 12);
        let (sent_at, received_at) = (Time::from_nanos(word(8) << 8), Time::from_nanos(word(12) << 20));
        sender.on_ack(now, SaturatorSeen { next: word(4), sent_at, received_at });
        record.on_arrival(Time::from_nanos(word(8) << 4), word(12) as u32 % 100_000);
    }
    assert!(record.into_millis().is_sorted());
});
