//! The Internet checksum (RFC 1071).

/// The one's complement sum of `bytes` as 16-bit words, folded to 16 bits. Sums of even pieces may be added and folded again.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    // In the machine's byte order and in large words, which changes nothing but the order of the result's bytes (§2 of the
    // RFC).
    let (words, rest) = bytes.as_chunks::<4>();
    let total: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let total = total + u64::from(u32::from_ne_bytes(last));
    let folded = (total & 0xffff_ffff) + (total >> 32);
    let folded = fold((folded & 0xffff) as u32 + (folded >> 16 & 0xffff) as u32 + (folded >> 32) as u32);
    u32::from(u16::from_be(folded))
}

/// Adds the carries of a sum to it until 16 bits are left.
pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_rfc() {
        // §3: the words 0001 f203 f4f5 f6f7 have the sum ddf2.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!((sum(&[]), sum(&[0xab]), sum(&[0xff; 65_535])), (0, 0xab00, 0xff00));
    }

    proptest! {
        #[test]
        fn it_is_the_sum_word_by_word(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
            prop_assert_eq!(sum(&bytes), u32::from(fold(bytes.chunks(2).map(word).sum())));
        }
    }
}
