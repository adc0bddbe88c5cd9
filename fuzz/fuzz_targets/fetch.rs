//! Two hostile sources of a fetch: each piece is a byte of source and time, a byte of length, and a datagram that may ask for the nonce of
//! the source and for the object's genuine bytes, and that may have come before requests that have left since. Nothing that is delivered is
//! not the object's; and when one of the two goes and the other is honest from then on, all of it comes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::{Env, Nanos, Spec, Time};
use paceline_icn::wire::{DATA_HEAD, MissingReason, Nack, UnitHead, UnitRequest};
use paceline_icn::{Builder, Fetch, FetchConfig, Layout, Output, UNIT, Units};

const LENGTH: usize = 70 * UNIT + 5;

fn byte_at(position: usize) -> u8 {
    (position / 7 * 31 + position) as u8
}

fuzz_target!(|bytes: &[u8]| {
    let content: Vec<u8> = (0..LENGTH).map(byte_at).collect();
    let layout = Layout::new(LENGTH as u64);
    let mut stored = vec![0; layout.stored_bytes() as usize];
    let mut put = |unit: u64, index: &[u8; UNIT]| stored[unit as usize * UNIT..][..UNIT].copy_from_slice(index);
    let mut builder = Builder::new(LENGTH as u64, "");
    content.chunks(UNIT).for_each(|chunk| builder.push(chunk, &mut put));
    let manifest = builder.finish(&mut put).expect("as long as it was said to be");
    for (index, chunk) in content.chunks(UNIT).enumerate() {
        stored[layout.unit_of(index as u64) as usize * UNIT..][..chunk.len()].copy_from_slice(chunk);
    }
    let mut fetch = Fetch::new(FetchConfig::default(), manifest.name(), 0..u64::MAX, 1);
    let sources: Vec<_> = (0..2)
        .map(|_| {
            let env = Env::new(UNIT as u32);
            fetch.add_source(Time::ZERO, "bbr".parse::<Spec>().expect("it is registered").build(&env))
        })
        .collect();
    let mut nonces = [0_u64; 2];
    let mut now = Time::ZERO;
    let mut message = Vec::new();
    let mut delivered = 0;
    let mut rest = bytes;
    while let [what, length, tail @ ..] = rest {
        let (datagram, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        rest = tail;
        while let Some(asked) = fetch.poll_transmit(now, &mut message) {
            nonces[asked.index()] = UnitRequest::decode(&message).expect("a request").nonce;
        }
        let which = usize::from(what & 1);
        let mut datagram = datagram.to_vec();
        if what & 2 != 0 && datagram.len() >= 10 {
            datagram[2..10].copy_from_slice(&nonces[which].to_be_bytes());
        }
        if what & 4 != 0 && datagram.len() >= DATA_HEAD {
            // Genuine bytes of the unit that the head names, modulo the object.
            let unit = usize::from(datagram[17]) % stored.len().div_ceil(UNIT);
            datagram[10..18].copy_from_slice(&(unit as u64).to_be_bytes());
            datagram.truncate(DATA_HEAD);
            datagram.extend_from_slice(&stored[unit * UNIT..stored.len().min((unit + 1) * UNIT)]);
        }
        now += Nanos::from_millis(u64::from(what >> 4));
        let came = now - Nanos::from_millis(if what & 8 != 0 { 20 } else { 0 });
        let _ = fetch.on_datagram(came, sources[which], &datagram, false);
        if fetch.next_timeout() <= now {
            fetch.on_timeout(now);
        }
        take(&mut fetch, &mut delivered, &content);
        assert_eq!(fetch.is_done() && fetch.failure().is_none(), delivered == LENGTH as u64);
    }
    fetch.remove_source(now, sources[0]);
    // Each timeout of a source that answers is followed by what it sends.
    for _ in 0..10_000 {
        if fetch.is_done() || !fetch.stats().sources[1].alive {
            return;
        }
        let mut asked = None;
        while fetch.poll_transmit(now, &mut message).is_some() {
            let request = UnitRequest::decode(&message).expect("a request");
            asked.get_or_insert_with(Vec::new).extend(request.ranges.iter().map(|unit| (request.nonce, unit)));
        }
        for (nonce, unit) in asked.into_iter().flatten() {
            let start = (unit as usize).saturating_mul(UNIT);
            let mut answer = Vec::new();
            if let Some(genuine) = stored.get(start..stored.len().min(start + UNIT)).filter(|bytes| !bytes.is_empty()) {
                let head = UnitHead { nonce, unit, stored_units: None, waited: Nanos::ZERO, app_limited: false };
                answer.extend_from_slice(&head.encode_head());
                answer.extend_from_slice(genuine);
            } else {
                let units = Units { first: unit, count: 1 };
                Nack { nonce, units, reason: MissingReason::End, retry_after: Nanos::ZERO }.encode(&mut answer);
            }
            let _ = fetch.on_datagram(now, sources[1], &answer, false);
        }
        take(&mut fetch, &mut delivered, &content);
        now = now.max(fetch.next_timeout().min(now + Nanos::from_secs(10)));
        fetch.on_timeout(now);
    }
    panic!("an honest source does not end it: {:?}", fetch.stats());
});

/// Takes what there is, which must be the object's.
fn take(fetch: &mut Fetch, delivered: &mut u64, content: &[u8]) {
    while let Some(output) = fetch.poll_output() {
        if let Output::Bytes { offset, bytes } = output {
            assert_eq!(offset, *delivered);
            *delivered += bytes.len() as u64;
            assert_eq!(bytes, content[offset as usize..*delivered as usize]);
            fetch.consumed(bytes.len() as u64);
        }
    }
}
