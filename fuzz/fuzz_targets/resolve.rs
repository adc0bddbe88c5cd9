//! Messages of name resolution from a stranger, to a service and to its clients: they are refused, or they are read again as they
//! were after being written; no answer of the service is longer than what it answers, its table stays bounded, and who
//! announces first finds a place whatever four others have announced.
#![no_main]

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use paceline_icn::Name;
use paceline_icn::name::NameKind;
use paceline_icn::resolve::{Announce, Limits, Registry, ResolveKey, ResolverMessage};

fuzz_target!(|bytes: &[u8]| {
    // The seeds' announcements have the MAC of this key.
    let key = ResolveKey::new(&[1; 32]);
    if let Ok(message) = ResolverMessage::decode(bytes, Some(&key)) {
        let mut again = Vec::new();
        message.encode(Some(&key), &mut again);
        assert_eq!(ResolverMessage::decode(&again, Some(&key)), Ok(message));
    }
    let mut service = Registry::new(Limits { entries: 16, announcers: 4 }, key.clone(), 0);
    let (mut reply, mut message) = (Vec::new(), Vec::new());
    let mut hear = |unix_s: u64, bytes: &[u8]| {
        let _ = service.on_datagram(unix_s, bytes, &mut reply);
        assert!(reply.len() <= bytes.len());
        assert!(reply.is_empty() || ResolverMessage::decode(&reply, None).is_ok());
        assert!(service.entries().count() <= 16 && service.numbers().count() <= 4);
    };
    hear(1, bytes);
    // Announcements with a right MAC, which no stranger makes, and questions, at times that may go backwards.
    for part in bytes.chunks(16) {
        let at = |place: usize| part.get(place).copied().unwrap_or(0);
        let name = Name::new(NameKind::Object, [at(0) % 8; 32]);
        let announce = Announce {
            nonce: at(1).into(),
            number: u64::from_be_bytes([at(2), at(3), 0, 0, 0, 0, at(4), at(5)]),
            ttl_s: u32::from_be_bytes([at(6) & 1, 0, at(7), at(8)]),
            address: SocketAddr::from(([10, 0, 0, at(9) % 4], 4871)),
            names: vec![name; usize::from(at(10) % 41)],
        };
        ResolverMessage::Announce(announce).encode(Some(&key), &mut message);
        hear(at(11).into(), &message);
        ResolverMessage::Resolve { nonce: at(12).into(), name }.encode(None, &mut message);
        hear(at(13).into(), &message);
    }
    if matches!(ResolverMessage::decode(bytes, Some(&key)), Ok(ResolverMessage::Announce(_))) {
        // A fifth one, of a seed.
        return;
    }
    // At the latest time of theirs.
    let address = SocketAddr::from(([10, 0, 1, 1], 4871));
    let name = Name::new(NameKind::Object, [77; 32]);
    let announce = Announce { nonce: 1, number: u64::MAX, ttl_s: 60, address, names: vec![name] };
    ResolverMessage::Announce(announce).encode(Some(&key), &mut message);
    let _ = service.on_datagram(255, &message, &mut reply);
    let places = service.find(&name, 0, 255);
    assert!(places.iter().any(|found| found.address == address), "{places:?}");
});
