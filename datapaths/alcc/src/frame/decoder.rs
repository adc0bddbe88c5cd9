//! Reading frames from a stream that comes in pieces.

use paceline_cc::{MAX_FEEDBACK, Nanos};

use super::varint::{self, LONGEST, Read};
use super::{Ack, Data, LIMIT, MAX_DELAY, MAX_HEADER, MAX_PAYLOAD, VERSION, Violation, kind};

/// Most bytes of a frame that are kept until they are complete: an acknowledgement with the longest feedback.
const KEPT: usize = {
    let ack = 1 + 2 * LONGEST + LONGEST + MAX_FEEDBACK;
    let data = MAX_HEADER + LONGEST;
    if ack > data { ack } else { data }
};

/// What a stream holds, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// Bytes of the application: the next of the stream. They can be handed on at once.
    Payload(&'a [u8]),
    /// A data frame is complete: all of its payload has been given.
    Data(Data),
    /// An acknowledgement.
    Ack(Ack),
}

/// Reads one direction of a connection. Payload is never copied.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// The version has been read.
    open: bool,
    /// The beginning of a frame that is not complete.
    kept: Vec<u8>,
    /// The data frame under way, and what of its payload is still to come.
    data: Option<(Data, u32)>,
    /// Where the next data frame must begin.
    position: u64,
    failed: Option<Violation>,
}

impl Decoder {
    /// Before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next item off the front of `input`; `None` when it needs more, and all of `input` is taken in.
    ///
    /// # Errors
    /// The peer broke the format; every later call says so again.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Item<'a>>, Violation> {
        match self.failed {
            Some(violation) => Err(violation),
            None => self.read(input).inspect_err(|violation| self.failed = Some(*violation)),
        }
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// [`Violation::Short`] when that was within a frame, or the violation from before.
    pub fn end(&self) -> Result<(), Violation> {
        match self.failed {
            Some(violation) => Err(violation),
            None if self.data.is_some() || !self.kept.is_empty() => Err(Violation::Short),
            None => Ok(()),
        }
    }

    /// Payload bytes of the frames that have begun.
    pub fn position(&self) -> u64 {
        self.position
    }

    fn read<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Item<'a>>, Violation> {
        if !self.open {
            let Some((version, rest)) = input.split_first() else { return Ok(None) };
            if *version != VERSION {
                return Err(Violation::Version(*version));
            }
            (*input, self.open) = (rest, true);
        }
        loop {
            if let Some((data, left)) = &mut self.data {
                if *left == 0 {
                    let data = *data;
                    self.data = None;
                    return Ok(Some(Item::Data(data)));
                }
                if input.is_empty() {
                    return Ok(None);
                }
                let (payload, rest) = input.split_at(input.len().min(*left as usize));
                *left -= payload.len() as u32;
                *input = rest;
                return Ok(Some(Item::Payload(payload)));
            }
            if input.is_empty() {
                return Ok(None);
            }
            if let Some(ack) = self.head(input)? {
                return Ok(Some(Item::Ack(ack)));
            }
        }
    }

    /// Reads a frame's head, or all of an acknowledgement. Nothing: it was that of data, or there are not enough bytes.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Ack>, Violation> {
        // Mostly a head is there as a whole; what was kept is completed from the input.
        let before = self.kept.len();
        let (head, taken) = if before == 0 {
            parse(input, self.position)?
        } else {
            let more = input.len().min(KEPT - before);
            self.kept.extend_from_slice(&input[..more]);
            parse(&self.kept, self.position)?
        };
        let Some(head) = head else {
            if before == 0 {
                self.kept.extend_from_slice(input);
            }
            *input = &[];
            return Ok(None);
        };
        // A head that was kept was incomplete without this input.
        *input = &input[taken - before..];
        self.kept.clear();
        match head {
            Head::Data(data) => {
                self.position = data.end();
                self.data = Some((data, data.bytes));
                Ok(None)
            }
            Head::Ack(ack) => Ok(Some(ack)),
        }
    }
}

enum Head {
    Data(Data),
    Ack(Ack),
}

/// What a frame begins with, and the bytes it takes; nothing and zero when it is not complete.
fn parse(bytes: &[u8], expected: u64) -> Result<(Option<Head>, usize), Violation> {
    let mut fields = Fields { bytes, at: 1 };
    let Some(kind) = bytes.first() else { return Ok((None, 0)) };
    let head = match *kind {
        kind::DATA | kind::DATA_WITH_NOTE => fields.data(*kind == kind::DATA_WITH_NOTE, expected)?.map(Head::Data),
        kind::ACK | kind::ACK_WITH_FEEDBACK => fields.ack(*kind == kind::ACK_WITH_FEEDBACK)?.map(Head::Ack),
        unknown => return Err(Violation::Kind(unknown)),
    };
    Ok(head.map_or((None, 0), |head| (Some(head), fields.at)))
}

/// Reads field after field; nothing where bytes are missing.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn number(&mut self, name: &'static str) -> Result<Option<u64>, Violation> {
        match varint::read(&self.bytes[self.at..]) {
            Read::Short => Ok(None),
            Read::Long => Err(Violation::Long(name)),
            Read::Value(value, length) => {
                self.at += length;
                Ok(Some(value))
            }
        }
    }

    fn data(&mut self, has_note: bool, expected: u64) -> Result<Option<Data>, Violation> {
        let Some(position) = self.number("a position")? else { return Ok(None) };
        if position != expected {
            return Err(Violation::Position { found: position, expected });
        }
        let note = if has_note {
            let Some((note, _)) = self.bytes[self.at..].split_first_chunk() else { return Ok(None) };
            self.at += note.len();
            match u64::from_be_bytes(*note) {
                0 => return Err(Violation::Note),
                note => note,
            }
        } else {
            0
        };
        let Some(length) = self.number("a length")? else { return Ok(None) };
        let bytes = u32::try_from(length).ok().filter(|bytes| *bytes <= MAX_PAYLOAD);
        let data = Data { position, bytes: bytes.ok_or(Violation::Payload(length))?, note };
        if data.end() < LIMIT { Ok(Some(data)) } else { Err(Violation::Beyond) }
    }

    fn ack(&mut self, has_feedback: bool) -> Result<Option<Ack>, Violation> {
        let Some(position) = self.number("a position")? else { return Ok(None) };
        let Some(delay) = self.number("a delay")? else { return Ok(None) };
        if delay > MAX_DELAY.as_nanos() / 1000 {
            return Err(Violation::Delay(delay));
        }
        let feedback = if has_feedback {
            let Some(length) = self.number("a length")? else { return Ok(None) };
            let count = usize::try_from(length).ok().filter(|count| (1..=MAX_FEEDBACK).contains(count));
            let end = self.at + count.ok_or(Violation::Feedback(length))?;
            let Some(blob) = self.bytes.get(self.at..end) else { return Ok(None) };
            self.at = end;
            Some(blob.into())
        } else {
            None
        };
        Ok(Some(Ack { position, delay: Nanos::from_micros(delay), feedback }))
    }
}
