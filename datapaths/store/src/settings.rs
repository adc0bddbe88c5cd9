//! What the program goes by: `struct settings` of the program.

use std::time::Duration;

use paceline_icn::UnitCharges;

/// What the program goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelStoreSettings {
    /// The port of the router.
    pub port: u16,
    /// The interface's address on the link: what is for another is not answered.
    pub link: [u8; 6],
    /// Of tokens: of an even and an odd hour ([`paceline_icn::Secrets::keys`]).
    pub keys: [[u8; 16]; 2],
    /// What an answer costs ([`paceline_icn::Limits::of_one_unit`]).
    pub charges: UnitCharges,
    /// The time since 1970 less the monotonic clock.
    pub unix_offset: Duration,
    /// The monotonic clock when that of the router, by which limits are, was at zero.
    pub origin: Duration,
}

impl KernelStoreSettings {
    /// As the program reads them.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let half = |key: &[u8]| key.first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
        let keys = self.keys.iter().flat_map(|key| [half(&key[..8]), half(&key[8..])]);
        let UnitCharges { places, source, site, link } = self.charges;
        let rest = [
            places,
            nanos(self.unix_offset),
            nanos(self.origin),
            source.0.as_nanos(),
            source.1.as_nanos(),
            site.0.as_nanos(),
            site.1.as_nanos(),
            link.0.as_nanos(),
            // Half of it is the queue's alone, so that it is served while the program answers.
            link.1.as_nanos() / 2,
            u64::from(self.port.to_be()),
        ];
        keys.chain(rest).flat_map(u64::to_ne_bytes).chain(self.link).chain([0; 2]).collect()
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
