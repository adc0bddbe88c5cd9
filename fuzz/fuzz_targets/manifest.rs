//! First units of a stranger: each is refused in one line, or has exactly one encoding and a layout that can be walked. A signed name of
//! which sources have records of several versions, some expired, another publisher's or with a bit changed, never goes back: the newest genuine one
//! wins, and none that is older than the one that was seen.
#![no_main]

use ed25519_dalek::SigningKey;
use libfuzzer_sys::fuzz_target;
use paceline_cc::{Env, Nanos, Spec, Time};
use paceline_icn::name::NameKind;
use paceline_icn::wire::{UnitHead, UnitRequest};
use paceline_icn::{Fetch, FetchConfig, FetchFailed, Manifest, Name, Output, SignedRecord, UNIT};

/// Seconds of Unix time at which the name is asked for.
const UNIX: u64 = 1000;

/// The record of a source, by four bytes, and its version where it is genuine and good.
fn record(what: [u8; 4]) -> ([u8; UNIT], Option<u64>) {
    let [version, expires, kind, place] = what;
    let key = SigningKey::from_bytes(&[if kind == 0 { 2 } else { 1 }; 32]);
    let target = Name::new(NameKind::Object, [version; 32]);
    let expires = UNIX - 4 + u64::from(expires % 8);
    let record = SignedRecord::sign(&key, "news", version.into(), expires, target).expect("a good label");
    let mut bytes = record.encode();
    if kind == 1 {
        // Of the part that is used.
        bytes[usize::from(place) % 150] ^= 1;
    }
    let genuine = kind > 1 && expires > UNIX;
    (bytes, genuine.then(|| version.into()))
}

/// A fetch of the signed name from a source for each of `records`, which has seen version `known`.
fn signed(known: u64, records: &[([u8; UNIT], Option<u64>)]) {
    let key = SigningKey::from_bytes(&[1; 32]);
    let name =
        SignedRecord::sign(&key, "news", 1, 1, Name::new(NameKind::Object, [0; 32])).expect("a good label").name();
    let config = FetchConfig { unix_s: UNIX, known_version: known, ..FetchConfig::default() };
    let mut fetch = Fetch::new(config, name, 0..u64::MAX, 1);
    for _ in records {
        let env = Env::new(UNIT as u32);
        fetch.add_source(Time::ZERO, "bbr".parse::<Spec>().expect("it is registered").build(&env));
    }
    let sources: Vec<_> = fetch.source_ids().collect();
    let (mut now, mut message) = (Time::ZERO, Vec::new());
    for _ in 0..64 {
        while let Some(source) = fetch.poll_transmit(now, &mut message) {
            let nonce = UnitRequest::decode(&message).expect("a request").nonce;
            let head = UnitHead { nonce, unit: 0, stored_units: Some(1), waited: Nanos::ZERO, app_limited: false };
            let answer = [&head.encode_head()[..], &records[source.index()].0].concat();
            let _ = fetch.on_datagram(now, sources[source.index()], &answer, false);
        }
        if fetch.is_done() || fetch.failure().is_some() {
            break;
        }
        now = now.max(fetch.next_timeout());
        fetch.on_timeout(now);
    }
    let newest = records.iter().filter_map(|(_, version)| *version).max().filter(|version| *version >= known);
    let taken = std::iter::from_fn(|| fetch.poll_output()).find_map(|output| match output {
        Output::Record(record) => Some(record.version),
        _ => None,
    });
    assert_eq!(taken, newest);
    assert_eq!(newest.is_none(), fetch.failure().is_some());
    let older = fetch.failure().is_some_and(|failed| matches!(failed, FetchFailed::Record(_)));
    assert!(!older || !fetch.failure().expect("it failed").to_string().contains(char::is_control));
}

fuzz_target!(|bytes: &[u8]| {
    if let [known, rest @ ..] = bytes {
        let records: Vec<_> = rest.as_chunks().0.iter().take(4).map(|what| record(*what)).collect();
        if !records.is_empty() {
            signed(u64::from(*known), &records);
        }
    }
    // Short inputs are first units too: what is behind them is zero.
    let mut unit = [0; UNIT];
    let kept = bytes.len().min(UNIT);
    unit[..kept].copy_from_slice(&bytes[..kept]);
    for bytes in [bytes, &unit] {
        match Manifest::decode(bytes) {
            Ok(manifest) => {
                assert_eq!(&manifest.encode()[..], bytes);
                let layout = manifest.layout();
                let last = layout.stored_units() - 1;
                assert!(layout.place(last).is_some() && layout.place(last + 1).is_none());
                assert!(i64::try_from(layout.stored_bytes()).is_ok());
            }
            Err(error) => assert!(!error.to_string().contains(char::is_control)),
        }
        match SignedRecord::decode(bytes) {
            Ok(record) => {
                assert_eq!(&record.encode()[..], bytes);
                // Its own name at least is right.
                if let Err(error) = record.verify(&record.name(), 0) {
                    assert!(!error.to_string().contains(char::is_control));
                }
            }
            Err(error) => assert!(!error.to_string().contains(char::is_control)),
        }
    }
});
