//! The right to speak: packets sealed with keys that both ends derive from one they share.
//!
//! ChaCha20-Poly1305 (RFC 8439) over everything behind the header, which is authenticated with it; the packet number is
//! the nonce. Each direction of each session has a key of its own, HMAC-SHA256 (RFC 2104, 6234) of the shared one over
//! both ends' random numbers, so nothing recorded in one session is of use in another. There is no forward secrecy: who
//! learns the shared key reads recorded sessions (our choice, because it spares a key exchange).

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

use super::wire::HEADER;

/// Bytes of the tag behind a sealed packet.
pub const TAG: usize = 16;

/// Bytes of the random number that each end brings into a session.
pub const RANDOM: usize = 16;

/// What an end brings into a session at random.
pub type Random = [u8; RANDOM];

/// The key that both ends share: 256 bits.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey([u8; 32]);

/// The command of a POSIX shell that makes a key which no other user may read.
pub fn make_key(file: &str) -> String {
    format!("(umask 077; head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n' > {file})")
}

impl SessionKey {
    /// A key of these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads 64 hexadecimal digits; white space around and between them counts for nothing. `None` when it is anything else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut digits = text.iter().filter(|byte| !byte.is_ascii_whitespace());
        let mut digit = || char::from(*digits.next()?).to_digit(16);
        let mut key = [0; 32];
        for byte in &mut key {
            *byte = (digit()? << 4 | digit()?) as u8;
        }
        digits.next().is_none().then_some(Self(key))
    }

    /// Its bytes, for other services whose key is a file of the same form.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Bytes of HMAC-SHA256.
pub(crate) const MAC: usize = 32;

/// HMAC-SHA256 over `message`.
pub(crate) fn mac(key: &[u8; 32], message: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message)
}

/// Whether `tag` is HMAC-SHA256 over `message`, in constant time.
pub(crate) fn mac_holds(key: &[u8; 32], message: &[u8], tag: &[u8]) -> bool {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), message, tag).is_ok()
}

/// Which end of a session this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSide {
    /// It asked for the session.
    Client,
    /// It was asked.
    Server,
}

/// Both directions of one session: what leaves is sealed and numbered, what arrives is opened once.
#[derive(Debug)]
pub struct Session {
    /// Its number, in every packet.
    pub id: u32,
    next: u64,
    seen: Window,
    seal: Option<LessSafeKey>,
    open: Option<LessSafeKey>,
}

/// Why a packet was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Its number was seen before, or is too old to know.
    Replayed,
    /// It was not written with the key.
    Forged,
}

impl Session {
    /// A session without a key, for loopback and for namespaces of paceline's own.
    pub fn plain(id: u32) -> Self {
        Self { id, next: 0, seen: Window::default(), seal: None, open: None }
    }

    /// A session under `key`.
    pub fn keyed(id: u32, key: &SessionKey, client: &Random, server: &Random, side: SessionSide) -> Self {
        let derive = |label: &[u8]| {
            let bytes = mac(&key.0, &[b"paceline udp 1 ", label, &id.to_be_bytes(), client, server].concat());
            // Refuses keys of another length alone.
            let key = UnboundKey::new(&CHACHA20_POLY1305, bytes.as_ref());
            LessSafeKey::new(key.unwrap_or_else(|_| unreachable!("the key has the algorithm's length")))
        };
        let (up, down) = (derive(b"client"), derive(b"server"));
        let (seal, open) = match side {
            SessionSide::Client => (up, down),
            SessionSide::Server => (down, up),
        };
        Self { id, next: 0, seen: Window::default(), seal: Some(seal), open: Some(open) }
    }

    /// Bytes that sealing adds.
    pub fn overhead(&self) -> usize {
        if self.seal.is_some() { TAG } else { 0 }
    }

    /// The number of the next packet that leaves; it is used up by asking.
    pub(crate) fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Seals the packet of that number which begins at `from` in `out` and reaches to the end.
    pub(crate) fn seal(&self, number: u64, out: &mut Vec<u8>, from: usize) {
        let Some(cipher) = &self.seal else { return };
        let (header, body) = out[from..].split_at_mut(HEADER);
        // Fails only for packets of 256 GiB.
        if let Ok(tag) = cipher.seal_in_place_separate_tag(nonce(number), Aad::from(header), body) {
            out.extend_from_slice(tag.as_ref());
        }
    }

    /// Opens a packet whose header said `number`; the answer is what is behind the header.
    pub(crate) fn open<'a>(&mut self, number: u64, packet: &'a mut [u8]) -> Result<&'a mut [u8], Rejected> {
        if !self.seen.is_new(number) {
            return Err(Rejected::Replayed);
        }
        let (header, body) = packet.split_at_mut_checked(HEADER).ok_or(Rejected::Forged)?;
        let body = match &self.open {
            None => body,
            Some(cipher) => {
                let opened = cipher.open_in_place(nonce(number), Aad::from(&*header), body);
                opened.map_err(|_| Rejected::Forged)?
            }
        };
        self.seen.note(number);
        Ok(body)
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// How far behind the newest a packet may come, as in RFC 6479. 2048: reordering over 1 ms at 20 Gbit/s (our choice).
const WORDS: usize = 32;

/// The packet numbers seen (RFC 4303 section 3.4.3).
#[derive(Clone, Debug, Default)]
struct Window {
    /// One past the newest.
    end: u64,
    bits: [u64; WORDS],
}

impl Window {
    const SPAN: u64 = 64 * WORDS as u64;

    fn is_new(&self, number: u64) -> bool {
        if number >= self.end {
            return true;
        }
        number + Self::SPAN >= self.end + 64 && self.bits[Self::word(number)] >> (number % 64) & 1 == 0
    }

    fn note(&mut self, number: u64) {
        if number >= self.end {
            // Words between the newest one and this are those of a lap before.
            let (old, new) = (self.end.div_ceil(64), number / 64 + 1);
            for word in (old..new).rev().take(WORDS) {
                self.bits[Self::word(word * 64)] = 0;
            }
            self.end = number + 1;
        }
        self.bits[Self::word(number)] |= 1 << (number % 64);
    }

    fn word(number: u64) -> usize {
        (number / 64) as usize % WORDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let mut window = Window::default();
        for number in [0, 5, 3, 63, 64, 65, 1000, 999, 5000] {
            assert!(window.is_new(number), "{number}");
            window.note(number);
            assert!(!window.is_new(number), "{number}");
        }
        assert!(window.is_new(4999) && !window.is_new(1001) && !window.is_new(2));
    }

    #[test]
    fn a_window_agrees_with_a_plain_list() {
        let (mut window, mut seen, mut state) = (Window::default(), vec![false; 60_000], 1_u64);
        for step in 0..40_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = step + (state >> 33) % 300;
            assert_eq!(window.is_new(number), !seen[number as usize], "step {step} number {number}");
            window.note(number);
            seen[number as usize] = true;
        }
    }

    #[test]
    fn only_the_other_end_opens_what_one_end_sealed() {
        let key = SessionKey::new([7; 32]);
        let (a, b) = ([1; RANDOM], [2; RANDOM]);
        let mut client = Session::keyed(9, &key, &a, &b, SessionSide::Client);
        let mut server = Session::keyed(9, &key, &a, &b, SessionSide::Server);
        let mut other = Session::keyed(9, &SessionKey::new([8; 32]), &a, &b, SessionSide::Server);
        let mut packet = vec![0; HEADER];
        packet.extend_from_slice(b"hello");
        let number = client.take_number();
        client.seal(number, &mut packet, 0);
        assert_eq!(packet.len(), HEADER + 5 + TAG);
        assert_eq!(other.open(number, &mut packet.clone()), Err(Rejected::Forged));
        assert_eq!(client.open(number, &mut packet.clone()), Err(Rejected::Forged));
        assert_eq!(server.open(number + 1, &mut packet.clone()), Err(Rejected::Forged));
        for byte in 0..packet.len() {
            let mut changed = packet.clone();
            changed[byte] ^= 1;
            assert_eq!(server.open(number, &mut changed), Err(Rejected::Forged), "byte {byte}");
        }
        assert_eq!(server.open(number, &mut packet.clone()).map(|body| body.to_vec()), Ok(b"hello".to_vec()));
        assert_eq!(server.open(number, &mut packet), Err(Rejected::Replayed));
    }

    #[test]
    fn a_key_is_64_digits() {
        let digits = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
        assert!(SessionKey::parse(format!("{digits}\n").as_bytes()).is_some());
        for wrong in ["", "00", &digits[1..], &format!("{digits}0"), &digits.replace('a', "x")] {
            assert!(SessionKey::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
