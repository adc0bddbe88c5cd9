//! A message as it travels: a line that says from whom, which and by what key, and the text, JSON.
//!
//! ```text
//! pl1 PUBLISHER NUMBER MAC\n
//! {"v":1,...}
//! ```
//!
//! NUMBER is the time of publication in microseconds since 1970, or one more than the number before where that is larger: it grows
//! over restarts of the publisher without being kept anywhere, and a receiver sees how old a message is. MAC is HMAC-SHA-256
//! (RFC 2104) over the subject, the line before it and the text; `-` where there is no key.

use data_encoding::HEXLOWER;

use crate::key::{PublisherKey, from_hex, is_name};

/// What begins an envelope: the version of this format.
const MAGIC: &str = "pl1";
/// The most bytes of a message. Our choice: a report of the most hops that a header has room for (15) takes a fifth of it.
pub const MESSAGE_MAX: usize = 16 << 10;
/// The most bytes of its first line: names have at most 63 characters, numbers 20 digits.
const LINE_MAX: usize = 160;

/// A message as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Who says to have sent it.
    pub publisher: &'a str,
    /// Its number.
    pub number: u64,
    mac: Option<[u8; 32]>,
    /// The text.
    pub body: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Takes a message apart; `None` where it is malformed. Says nothing about who sent it.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > MESSAGE_MAX {
            return None;
        }
        let end = bytes.iter().take(LINE_MAX).position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut words = line.split(' ');
        let (magic, publisher, number, mac) = (words.next()?, words.next()?, words.next()?, words.next()?);
        // One spelling for each number.
        let value: u64 = number.parse().ok().filter(|value: &u64| value.to_string() == number)?;
        if magic != MAGIC || !is_name(publisher) || words.next().is_some() {
            return None;
        }
        let mac = if mac == "-" { None } else { Some(from_hex(mac)?) };
        Some(Self { publisher, number: value, mac, body: &bytes[end + 1..] })
    }

    /// Whether it has a MAC.
    pub fn is_signed(&self) -> bool {
        self.mac.is_some()
    }

    /// Whether the holder of this key wrote it, for this subject.
    pub fn is_by(&self, key: &PublisherKey, subject: &str) -> bool {
        let line = line(self.publisher, self.number);
        self.mac.is_some_and(|mac| key.verify(&covered(subject, &line, self.body), &mac))
    }
}

/// Puts a text into an envelope for a subject, with a MAC where there is a key.
pub fn seal(publisher: &str, key: Option<&PublisherKey>, number: u64, subject: &str, body: &[u8]) -> Vec<u8> {
    let line = line(publisher, number);
    let mac =
        key.map_or_else(|| "-".to_owned(), |key| HEXLOWER.encode(key.sign(&covered(subject, &line, body)).as_ref()));
    let mut bytes = format!("{line} {mac}\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn line(publisher: &str, number: u64) -> String {
    format!("{MAGIC} {publisher} {number}")
}

/// What a MAC covers. Neither subject nor line has an end of line in it, so that nothing can move from one to the other.
fn covered(subject: &str, line: &str, body: &[u8]) -> Vec<u8> {
    [subject.as_bytes(), b"\n", line.as_bytes(), b"\n", body].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::PublisherRole;

    const SUBJECT: &str = "int.v1.lab.flow.00000007";

    fn key(byte: u8) -> PublisherKey {
        PublisherKey::new(&[PublisherRole::Sink], &[byte; 32])
    }

    #[test]
    fn an_envelope_is_read_as_it_was_sealed() {
        let sealed = seal("sta2", Some(&key(1)), 42, SUBJECT, b"{}\n{}");
        let read = Envelope::read(&sealed).unwrap();
        assert_eq!(
            (read.publisher, read.number, read.body, read.is_signed()),
            ("sta2", 42, b"{}\n{}".as_slice(), true)
        );
        assert!(read.is_by(&key(1), SUBJECT));
        assert!(!read.is_by(&key(2), SUBJECT));
        assert!(!read.is_by(&key(1), "int.v1.lab.flow.00000008"));
        assert!(!Envelope { number: 43, ..read }.is_by(&key(1), SUBJECT));
        assert!(!Envelope { publisher: "sta3", ..read }.is_by(&key(1), SUBJECT));
        assert!(!Envelope { body: b"{}", ..read }.is_by(&key(1), SUBJECT));
        let bare = seal("sta2", None, 42, SUBJECT, b"{}");
        let bare = Envelope::read(&bare).unwrap();
        assert!(!bare.is_signed() && !bare.is_by(&key(1), SUBJECT));
    }

    #[test]
    fn what_is_none_is_refused() {
        let none = [
            "",
            "\n",
            "pl1\n",
            "pl1 a 1\n",
            "pl1 a 1 - \n",
            "pl2 a 1 -\n",
            "pl1 a 01 -\n",
            "pl1 a +1 -\n",
            "pl1  1 -\n",
            "pl1 a 1 -",
            "pl1 a 1 00\n",
            "pl1 a 18446744073709551616 -\n",
            "pl1 a.b 1 -\n",
        ];
        for text in none {
            assert_eq!(Envelope::read(text.as_bytes()), None, "{text:?}");
        }
        assert!(Envelope::read(b"pl1 a 18446744073709551615 -\n").is_some());
        let long = [b"pl1 a 1 -\n".as_slice(), &[b' '; MESSAGE_MAX]].concat();
        assert!(Envelope::read(&long).is_none() && Envelope::read(&long[..MESSAGE_MAX]).is_some());
    }

    proptest! {
        #[test]
        fn a_changed_bit_anywhere_is_noticed(at in 0_usize..120, bit in 0_u8..8) {
            let mut sealed = seal("sta2", Some(&key(1)), 1_700_000_000_000_000, SUBJECT, b"{\"v\":1,\"flow\":7}");
            prop_assume!(at < sealed.len());
            sealed[at] ^= 1 << bit;
            prop_assert!(Envelope::read(&sealed).is_none_or(|read| !read.is_by(&key(1), SUBJECT)));
        }
    }
}
