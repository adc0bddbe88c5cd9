//! One seed, one stream a purpose.
//!
//! Adding a draw in one stream never shifts another. The generator is named and portable: `rand_pcg::Pcg64`
//! (O'Neill's PCG XSL 128/64); the stream's seed is the run's seed and the purpose's name hashed by FNV-1a, mixed by
//! SplitMix64 (our choice, because both are a few lines and fixed for ever).

use paceline_path::mix;
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// The seed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// A number for the stream of this name.
    pub fn derive(self, purpose: &str) -> u64 {
        mix(self.0 ^ fnv_1a(purpose.bytes()))
    }

    /// The generator for the stream of this name.
    pub fn stream(self, purpose: &str) -> Pcg64 {
        Pcg64::seed_from_u64(self.derive(purpose))
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo; RFC 9923): it notices a change, and need not withstand anyone.
pub fn fnv_1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_name_and_by_seed_and_stay_put() {
        assert_ne!(Seed(1).derive("loss"), Seed(1).derive("jitter"));
        assert_ne!(Seed(1).derive("loss"), Seed(2).derive("loss"));
        assert_eq!(Seed(1).derive("loss"), 0x6acb_ccb3_d8e2_04b5);
    }
}
