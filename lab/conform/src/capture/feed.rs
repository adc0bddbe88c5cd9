//! The bytes of a file as they are needed, in bounded memory.

use std::io::{self, Read};

/// Bytes that are read at once (our choice).
const CHUNK: u64 = 1 << 16;

/// What is ahead in a file.
pub(super) struct Feed<R> {
    from: R,
    bytes: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<R: Read> Feed<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, bytes: Vec::new(), at: 0, ended: false }
    }

    /// What is ahead: at least `count` bytes, fewer where the file ends before.
    pub(super) fn ahead(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.bytes.len() - self.at < count && !self.ended {
            self.bytes.drain(..self.at);
            self.at = 0;
            while self.bytes.len() < count && !self.ended {
                let missing = (count - self.bytes.len()) as u64;
                let read = (&mut self.from).take(missing.max(CHUNK)).read_to_end(&mut self.bytes)?;
                self.ended = read == 0;
            }
        }
        Ok(&self.bytes[self.at..])
    }

    /// Leaves out `count` of the bytes that are ahead; whether there were as many.
    pub(super) fn pass(&mut self, count: u64) -> io::Result<bool> {
        let here = (self.bytes.len() - self.at).min(usize::try_from(count).unwrap_or(usize::MAX));
        self.at += here;
        let rest = count - here as u64;
        Ok(rest == 0 || io::copy(&mut (&mut self.from).take(rest), &mut io::sink())? == rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_in_order_however_they_are_asked_for() {
        let whole: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
        let mut feed = Feed::new(&whole[..]);
        let mut at = 0;
        for count in [0, 1, 70_000, 3, 100_000] {
            assert_eq!(feed.ahead(count).unwrap()[..count], whole[at..at + count]);
            assert!(feed.pass(count as u64).unwrap());
            at += count;
        }
        assert_eq!(feed.ahead(usize::MAX).unwrap(), &whole[at..]);
        assert!(!feed.pass(1 << 40).unwrap() && feed.ahead(1).unwrap().is_empty());
    }
}
