//! What a Sprout receiver reports to its sender, and what the sender writes on its packets.
//!
//! Source: the authors' release (`sproutconn.cc`, `network.cc`). What differs: varints (LEB128) instead of protocol
//! buffers, counts as increments, and a throwaway number of 32 bits: the release's 16 bits are too few above 52 Mbit/s.

use super::forecast::Forecast;
use super::tables::HORIZON;
use crate::controller::BadFeedback;
use crate::units::Nanos;

/// One feedback blob: at most 60 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// Payload bytes that are certainly not in the network any more.
    pub received_or_lost: u64,
    /// Number of the receiver's tick: newer feedback has a larger one.
    pub tick: u64,
    /// Cumulative packets foreseen.
    pub forecast: Forecast,
}

impl Feedback {
    /// Appends the blob.
    pub fn write(&self, blob: &mut Vec<u8>) {
        put(blob, self.received_or_lost);
        put(blob, self.tick);
        let mut before = 0;
        for count in self.forecast {
            put(blob, u64::from(count.saturating_sub(before)));
            before = count;
        }
    }

    /// Reads a blob that may come from anywhere.
    ///
    /// # Errors
    /// [`BadFeedback`] when the blob ends early or late, or a number does not fit.
    pub fn read(blob: &[u8]) -> Result<Self, BadFeedback> {
        let bad = |what| BadFeedback { len: blob.len(), what };
        let mut rest = blob;
        let received_or_lost = take(&mut rest).map_err(bad)?;
        let tick = take(&mut rest).map_err(bad)?;
        let mut forecast = [0; HORIZON];
        let mut total = 0u64;
        for count in &mut forecast {
            total = total.saturating_add(take(&mut rest).map_err(bad)?);
            *count = u32::try_from(total).map_err(|_| bad("a forecast beyond 32 bits"))?;
        }
        if rest.is_empty() { Ok(Self { received_or_lost, tick, forecast }) } else { Err(bad("bytes after the end")) }
    }
}

fn put(blob: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        blob.push(value as u8 | 0x80);
        value >>= 7;
    }
    blob.push(value as u8);
}

fn take(rest: &mut &[u8]) -> Result<u64, &'static str> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().ok_or("it ends within a number")?;
        *rest = after;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            return Err("a number beyond 64 bits");
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number of more than ten bytes")
}

/// What a data packet carries to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Everything this many bytes before the packet was sent too long ago to be merely reordered.
    pub throwaway: u64,
    /// The sender will be silent for this long; zero when another packet follows at once.
    pub time_to_next: Nanos,
}

impl Note {
    /// Both numbers in 32 bits each, the time in microseconds. Larger ones saturate.
    pub fn pack(&self) -> u64 {
        let limit = u64::from(u32::MAX);
        self.throwaway.min(limit) << 32 | self.time_to_next.as_micros().min(limit)
    }

    /// The inverse of [`Note::pack`]. Every 64 bits are a note.
    pub fn unpack(note: u64) -> Self {
        Self { throwaway: note >> 32, time_to_next: Nanos::from_micros(note & u64::from(u32::MAX)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::MAX_FEEDBACK;
    use rand::{RngExt, SeedableRng};

    fn written(feedback: &Feedback) -> Vec<u8> {
        let mut blob = Vec::new();
        feedback.write(&mut blob);
        blob
    }

    #[test]
    fn blobs_come_back_and_are_small() {
        let forecast = [5, 12, 20, 27, 35, 43, 51, 59];
        let usual = Feedback { received_or_lost: 80_000_000, tick: 3000, forecast };
        assert_eq!(written(&usual).len(), 14);
        let largest = Feedback { received_or_lost: u64::MAX, tick: u64::MAX, forecast: [u32::MAX; HORIZON] };
        for feedback in [usual, largest] {
            let blob = written(&feedback);
            assert!(blob.len() <= MAX_FEEDBACK);
            assert_eq!(Feedback::read(&blob), Ok(feedback));
        }
    }

    #[test]
    fn malformed_blobs_are_refused() {
        let blob = written(&Feedback { received_or_lost: 1 << 40, tick: 300, forecast: [700; HORIZON] });
        for len in 0..blob.len() {
            assert!(Feedback::read(&blob[..len]).is_err(), "cut to {len}");
        }
        let mut long = blob.clone();
        long.push(0);
        assert_eq!(Feedback::read(&long).unwrap_err().what, "bytes after the end");
        assert_eq!(Feedback::read(&[0xff; 64]).unwrap_err().what, "a number beyond 64 bits");
        assert_eq!(Feedback::read(&[0x80; 64]).unwrap_err().what, "a number of more than ten bytes");
        let mut huge = vec![0, 0];
        (0..8).for_each(|_| put(&mut huge, u64::from(u32::MAX)));
        assert_eq!(Feedback::read(&huge).unwrap_err().what, "a forecast beyond 32 bits");
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut random = rand_pcg::Pcg64::seed_from_u64(11);
        let mut read = 0;
        for _ in 0..50_000 {
            let len = random.random_range(0..=80);
            let blob: Vec<u8> = (0..len).map(|_| random.random::<u8>() >> random.random_range(0..8u32)).collect();
            if let Ok(feedback) = Feedback::read(&blob) {
                assert!(feedback.forecast.is_sorted());
                read += 1;
            }
        }
        assert!(read > 0, "some random bytes are a blob");
    }

    #[test]
    fn notes_come_back() {
        let note = Note { throwaway: 123_456, time_to_next: Nanos::from_millis(50) };
        assert_eq!(Note::unpack(note.pack()), note);
        let extreme = Note { throwaway: u64::MAX, time_to_next: Nanos::MAX };
        assert_eq!(Note::unpack(extreme.pack()).throwaway, u64::from(u32::MAX));
    }
}
