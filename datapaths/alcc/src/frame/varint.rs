//! Numbers of variable length (RFC 9000 section 16): the two high bits of the first byte say how many bytes they take.

use super::LIMIT;

/// Most bytes of a number.
pub(super) const LONGEST: usize = 8;

/// Appends `value` in as few bytes as it takes; the largest number stands for what is larger.
pub(crate) fn write(out: &mut Vec<u8>, value: u64) {
    let value = value.min(LIMIT - 1);
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// What the first bytes of a number say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// More bytes are needed.
    Short,
    /// The number could have been written in fewer bytes.
    Long,
    /// The number, and how many bytes it takes.
    Value(u64, usize),
}

pub(crate) fn read(bytes: &[u8]) -> Read {
    let Some(first) = bytes.first() else { return Read::Short };
    let length = 1 << (first >> 6);
    let Some(bytes) = bytes.get(..length) else { return Read::Short };
    let value = bytes[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    let least = match length {
        1 => 0,
        2 => 0x40,
        4 => 0x4000,
        _ => 0x4000_0000,
    };
    if value < least { Read::Long } else { Read::Value(value, length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 9000 appendix A.1.
        let cases: [(&[u8], u64); 4] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ];
        for (bytes, value) in cases {
            assert_eq!(read(bytes), Read::Value(value, bytes.len()));
            let mut again = Vec::new();
            write(&mut again, value);
            assert_eq!(again, bytes);
            assert_eq!(read(&bytes[..bytes.len() - 1]), Read::Short);
        }
        // 37 in two bytes is as good to the RFC, not here: a frame has one form.
        assert_eq!(read(&[0x40, 0x25]), Read::Long);
    }
}
