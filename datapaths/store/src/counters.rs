//! What the program has counted.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident,)+) => {
        /// What the store has done, in requests: `struct counts` of the program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct KernelStoreCounts {
            $($(#[$doc])* pub $field: u64,)+
        }

        impl KernelStoreCounts {
            /// Each with its name.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)+].into_iter()
            }

            fn of(mut words: impl Iterator<Item = u64>) -> Self {
                Self { $($field: words.next().unwrap_or(0),)+ }
            }
        }
    };
}

counts! {
    /// Answered with a unit.
    answered,
    /// Refused, since the sender had used up its share.
    busy,
    /// Passed on: the unit is not here.
    missed,
    /// With a token that proves nothing.
    bad_tokens,
    /// Of these, dropped: they came too fast for the router.
    dropped,
    /// Passed on: the token is to be renewed.
    renewals,
    /// Passed on: the rate of the link was used up.
    paced,
    /// Passed on: the driver left no room for an answer.
    no_room,
}

impl KernelStoreCounts {
    /// The sum over the processors.
    pub(crate) fn read(map: &MapHandle) -> libbpf_rs::Result<Self> {
        let each = map.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
        let words = each.iter().map(|value| value.chunks_exact(8).map(word).collect::<Vec<_>>());
        let sum = words.reduce(|sum, one| sum.iter().zip(one).map(|(a, b)| a.wrapping_add(b)).collect());
        Ok(Self::of(sum.unwrap_or_default().into_iter()))
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}
