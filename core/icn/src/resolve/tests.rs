//! Messages of name resolution: what is written is read, and garbage is refused.

use proptest::prelude::*;

use super::*;
use crate::name::NameKind;

fn name(byte: u8) -> Name {
    Name::new(NameKind::Object, [byte; 32])
}

fn address() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn messages() -> impl Strategy<Value = ResolverMessage> {
    let names = prop::collection::vec(any::<u8>().prop_map(name), 0..=MOST_ANNOUNCED);
    let found = (address(), any::<u32>()).prop_map(|(address, ttl_s)| Found { address, ttl_s });
    let status = [
        AnnouncementStatus::Accepted,
        AnnouncementStatus::Stale,
        AnnouncementStatus::Full,
        AnnouncementStatus::WrongKey,
    ];
    prop_oneof![
        (any::<u64>(), any::<u8>()).prop_map(|(nonce, byte)| ResolverMessage::Resolve { nonce, name: name(byte) }),
        (any::<u64>(), prop::collection::vec(found, 0..=MOST_FOUND))
            .prop_map(|(nonce, places)| ResolverMessage::Found { nonce, places }),
        (any::<u64>(), any::<u64>(), any::<u32>(), address(), names).prop_map(
            |(nonce, number, ttl_s, address, names)| {
                ResolverMessage::Announce(Announce { nonce, number, ttl_s, address, names })
            }
        ),
        (any::<u64>(), prop::sample::select(status.to_vec()), any::<u64>())
            .prop_map(|(nonce, status, number)| ResolverMessage::Announced { nonce, status, number }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(message in messages()) {
        let key = ResolveKey::new(&[1; 32]);
        let mut bytes = Vec::new();
        message.encode(Some(&key), &mut bytes);
        prop_assert!(bytes.len() <= crate::wire::MAX_MESSAGE);
        prop_assert_eq!(ResolverMessage::decode(&bytes, Some(&key)), Ok(message));
        for end in 0..bytes.len() {
            prop_assert!(ResolverMessage::decode(&bytes[..end], Some(&key)).is_err());
        }
        bytes.push(0);
        prop_assert!(ResolverMessage::decode(&bytes, Some(&key)).is_err());
    }

    #[test]
    fn garbage_is_refused_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..1500), kind in 0_u8..6) {
        let _ = ResolverMessage::decode(&bytes, None);
        if bytes.len() > 3 {
            bytes[..3].copy_from_slice(&MAGIC);
            bytes[3] = kind;
            let _ = ResolverMessage::decode(&bytes, Some(&ResolveKey::new(&[1; 32])));
        }
    }

    #[test]
    fn a_changed_announcement_is_refused(at in 0_usize..100, bit in 0_u32..8) {
        let announce = Announce {
            nonce: 1, number: 2, ttl_s: 3, address: "10.0.0.1:4871".parse().unwrap(), names: vec![name(7)],
        };
        let key = ResolveKey::new(&[1; 32]);
        let mut bytes = Vec::new();
        ResolverMessage::Announce(announce).encode(Some(&key), &mut bytes);
        let at = at % bytes.len();
        bytes[at] ^= 1_u8 << bit;
        prop_assert!(!matches!(ResolverMessage::decode(&bytes, Some(&key)), Ok(ResolverMessage::Announce(_))));
    }
}
