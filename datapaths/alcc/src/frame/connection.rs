//! One end of a framed connection: what it writes, and what it makes of what it reads.

use paceline_cc::{Arrival, MAX_FEEDBACK, ReceiverHalf, Time};

use super::{ACK_EVERY, Ack, Data, Decoder, Item, LIMIT, MAX_PAYLOAD, VERSION, Violation};

/// This many frames are acknowledged at once where there is no receiver half: acknowledgements clock the sender then (RFC 5681
/// section 4.2).
const EACH: u32 = 2;

/// What came from the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News<'a> {
    /// The next bytes of the application's stream.
    Payload(&'a [u8]),
    /// Our data has come so far.
    Acked(Ack),
}

/// Both directions of a framed connection, seen from one end.
pub struct Connection {
    decoder: Decoder,
    receiving: Receiving,
    /// The version has been written.
    open: bool,
    /// Payload bytes framed, and those of them that the peer has acknowledged.
    sent: u64,
    acked: u64,
}

/// What acknowledgements are made of.
struct Receiving {
    half: Option<Box<dyn ReceiverHalf>>,
    blob: Vec<u8>,
    /// One past the last byte of the newest complete frame, and when it came.
    position: u64,
    came_at: Time,
    /// Its note.
    note: u64,
    /// Frames that no acknowledgement covers.
    news: u32,
    /// Before this no acknowledgement leaves.
    ack_from: Time,
}

impl Connection {
    /// Before the first byte. `half`: the receiver half of the peer's controller, where that has one.
    pub fn new(half: Option<Box<dyn ReceiverHalf>>) -> Self {
        let receiving = Receiving {
            half,
            blob: Vec::new(),
            position: 0,
            came_at: Time::ZERO,
            note: 0,
            news: 0,
            ack_from: Time::ZERO,
        };
        Self { decoder: Decoder::new(), receiving, open: false, sent: 0, acked: 0 }
    }

    /// The peer's controller, and so its receiver half, has become known by what the peer has sent so far, which then counts as one
    /// arrival.
    pub fn set_half(&mut self, half: Box<dyn ReceiverHalf>) {
        self.receiving.half = Some(half);
        let Receiving { position, came_at, note, .. } = self.receiving;
        if position > 0 {
            let bytes = u32::try_from(position).unwrap_or(u32::MAX);
            let mut arrival = Arrival::new(came_at, position - u64::from(bytes), bytes);
            arrival.note = note;
            self.receiving.arrived(&arrival);
        }
    }

    /// Appends what goes in front of the next `bytes` of payload, at most [`MAX_PAYLOAD`]; nothing else may come between.
    /// Without payload it is a heartbeat, which the peer answers.
    ///
    /// # Errors
    /// [`Violation::Payload`] and [`Violation::Beyond`]: this end would break the format. Nothing is appended.
    pub fn data(&mut self, bytes: u32, note: u64, out: &mut Vec<u8>) -> Result<(), Violation> {
        if bytes > MAX_PAYLOAD {
            return Err(Violation::Payload(u64::from(bytes)));
        }
        let data = Data { position: self.sent, bytes, note };
        if data.end() >= LIMIT {
            return Err(Violation::Beyond);
        }
        self.begin(out);
        data.write(out);
        self.sent = data.end();
        Ok(())
    }

    /// Takes the next news off the front of `input`; `None` when it needs more, and all of `input` is taken in.
    /// `now`: when these bytes arrived.
    ///
    /// # Errors
    /// The peer broke the format: the connection has to be closed.
    pub fn read<'a>(&mut self, now: Time, input: &mut &'a [u8]) -> Result<Option<News<'a>>, Violation> {
        loop {
            match self.decoder.next(input)? {
                None => return Ok(None),
                Some(Item::Payload(payload)) => return Ok(Some(News::Payload(payload))),
                Some(Item::Data(data)) => self.receiving.take(now, &data),
                Some(Item::Ack(ack)) => {
                    self.check(&ack)?;
                    self.acked = ack.position;
                    return Ok(Some(News::Acked(ack)));
                }
            }
        }
    }

    /// The peer writes no more.
    ///
    /// # Errors
    /// When that was within a frame.
    pub fn end(&self) -> Result<(), Violation> {
        self.decoder.end()
    }

    /// Appends an acknowledgement, if one is due; says whether. To be asked when everything that a read brought has been
    /// taken, and at [`Self::next_timeout`].
    pub fn ack(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let Some(ack) = self.receiving.ack(now) else { return false };
        self.begin(out);
        ack.write(out);
        true
    }

    /// When [`Self::ack`] wants to be asked; [`Time::NEVER`] until something arrives.
    pub fn next_timeout(&self) -> Time {
        self.receiving.next_timeout()
    }

    /// Payload bytes framed so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Those of them that have been acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !self.open {
            self.open = true;
            out.push(VERSION);
        }
    }

    fn check(&self, ack: &Ack) -> Result<(), Violation> {
        if ack.position > self.sent {
            return Err(Violation::Unsent { found: ack.position, sent: self.sent });
        }
        if ack.position < self.acked {
            return Err(Violation::Backwards { found: ack.position, before: self.acked });
        }
        Ok(())
    }
}

impl Receiving {
    fn take(&mut self, now: Time, data: &Data) {
        let Data { position, bytes, note } = *data;
        (self.position, self.came_at, self.note) = (data.end(), now, note);
        self.news = self.news.saturating_add(1);
        let mut arrival = Arrival::new(now, position, bytes);
        arrival.note = note;
        self.arrived(&arrival);
    }

    fn arrived(&mut self, arrival: &Arrival) {
        if let Some(half) = &mut self.half {
            half.on_arrival(arrival);
        }
    }

    fn ack(&mut self, now: Time) -> Option<Ack> {
        if now < self.next_timeout() {
            return None;
        }
        let feedback = self.feedback(now);
        if self.news == 0 && feedback.is_none() {
            return None;
        }
        self.news = 0;
        self.ack_from = now + ACK_EVERY;
        Some(Ack { position: self.position, delay: now - self.came_at, feedback })
    }

    /// The receiver half's news. A blob that is too long is dropped: nothing could carry it.
    fn feedback(&mut self, now: Time) -> Option<Box<[u8]>> {
        let half = self.half.as_mut()?;
        self.blob.clear();
        let fits = half.feedback(now, &mut self.blob) && (1..=MAX_FEEDBACK).contains(&self.blob.len());
        fits.then(|| self.blob.as_slice().into())
    }

    fn next_timeout(&self) -> Time {
        let tick = self.half.as_ref().map_or(Time::NEVER, |half| half.next_tick());
        match self.news {
            0 => tick.max(self.ack_from),
            // Its times are in its blobs, not in when they come.
            EACH.. if self.half.is_none() => self.came_at,
            _ => self.ack_from.max(self.came_at),
        }
    }
}
