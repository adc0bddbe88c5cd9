//! One client.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use paceline_alcc::Framing;
use paceline_alcc::transfer::{Answer, Breach, HASH, Heard, Kind, Request, Server, Status};
use paceline_cc::{Ability, Env, ReceiverHalf, Spec};
use paceline_icn::CountedAddress;

use super::store::{Taking, exists, refusal};
use super::strangers::Stranger;
use super::{SessionError, Terms, UploadEvent, UploadOutcome, Who};
use crate::channel::{Channel, ChannelError, Patience};
use crate::hash::hash_of;
use crate::{now, random, tls};

/// How long a handshake of TLS, and then a request, may take, where patience is longer (our choice: an honest client needs some round
/// trips, and another holds a thread for no longer).
const REQUEST: Duration = Duration::from_secs(10);
/// How long the end of a session waits for the client's (our choice).
const FAREWELL: Duration = Duration::from_secs(2);
/// How often a session looks at what else there is (our choice).
const LOOK: Duration = Duration::from_millis(200);
/// Bytes that one read of a file asks for (our choice: some frames).
const PIECE: usize = 64 * 1024;

/// Why there is no more to do.
pub(super) enum Stop {
    /// The client hears this.
    Answer(Answer),
    /// A file of this host failed when so many bytes were held: the client hears that it cannot be done now.
    Host { error: io::Error, held: u64 },
    /// The client hears nothing more.
    Gone(SessionError),
}

impl Stop {
    /// A file failed before bytes were held.
    pub(super) fn host(error: io::Error) -> Self {
        Self::Host { error, held: 0 }
    }
}

impl From<SessionError> for Stop {
    fn from(error: SessionError) -> Self {
        Self::Gone(error)
    }
}

impl From<ChannelError> for Stop {
    fn from(error: ChannelError) -> Self {
        Self::Gone(error.into())
    }
}

impl From<Breach> for Stop {
    fn from(breach: Breach) -> Self {
        Self::Gone(breach.into())
    }
}

impl From<Answer> for Stop {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

pub(super) fn run(stream: TcpStream, peer: SocketAddr, terms: &Terms, stranger: Stranger) -> UploadOutcome {
    let begun = Instant::now();
    let mut outcome = UploadOutcome::of(peer);
    outcome.error = converse(stream, terms, stranger, &mut outcome).err();
    outcome.took = begun.elapsed();
    outcome
}

fn converse(
    stream: TcpStream,
    terms: &Terms,
    stranger: Stranger,
    outcome: &mut UploadOutcome,
) -> Result<(), SessionError> {
    let limit = terms.patience.min(REQUEST);
    let layer = match &terms.tls {
        Some(config) => Some(tls::accept(config.clone(), &stream, limit).map_err(SessionError::NoTls)?),
        None => None,
    };
    let socket =
        terms.engine.adopt_framed(stream.into(), Framing { layer, rtts: None }).map_err(SessionError::System)?;
    let protocol = Server::new(random()?);
    let mut session = Session { terms, channel: Channel::new(socket), protocol, outcome };
    let ended = session.run(limit, stranger);
    let answer = match ended {
        Ok(answer) | Err(Stop::Answer(answer)) => answer,
        Err(Stop::Host { error, held }) => {
            (terms.report)(UploadEvent::NoFile(&error));
            refusal(&error, held)
        }
        Err(Stop::Gone(error)) => {
            session.channel.socket.abort();
            return Err(error);
        }
    };
    session.finish(&answer)?;
    session.outcome.answer = Some(answer);
    session.channel.close(FAREWELL);
    Ok(())
}

struct Session<'a> {
    terms: &'a Terms,
    channel: Channel,
    protocol: Server,
    outcome: &'a mut UploadOutcome,
}

impl Session<'_> {
    /// The last answer. What was given whole has had its answer.
    fn run(&mut self, limit: Duration, stranger: Stranger) -> Result<Answer, Stop> {
        let mut out = Vec::new();
        self.protocol.greet(&mut out);
        self.channel.say(&out)?;
        let request = self.request(limit, &stranger)?;
        self.outcome.request = Some(request.clone());
        let who = self.check(&request)?;
        let _place = self.terms.sessions.take(&who).ok_or_else(busy)?;
        drop(stranger);
        if let Some(half) = half(&request, self.channel.socket.mss())? {
            self.channel.socket.set_receiver_half(half);
        }
        match request.kind {
            Kind::Put => self.put(&request, &who),
            Kind::Discard => self.discard(&request),
            Kind::Get => {
                let (file, size) = self.terms.store.open(&request.name)?;
                self.get(&file, request.offset, size)
            }
            Kind::Stat => Ok(Answer::go(self.terms.store.open(&request.name)?.1)),
            Kind::Generate => self.generate(request.size),
        }
    }

    fn request(&mut self, limit: Duration, stranger: &Stranger) -> Result<Request, Stop> {
        let until = Instant::now() + limit;
        loop {
            if stranger.leaves() {
                Err(busy())?;
            }
            let left = until.saturating_duration_since(Instant::now()).min(LOOK);
            match self.channel.wait(left)? {
                Some(0) => Err(SessionError::Unasked)?,
                Some(_) => {
                    let mut input = self.channel.input();
                    let heard = self.protocol.read(&mut input)?;
                    let request = if let Some(Heard::Request(request)) = heard { Some(request) } else { None };
                    let left = input.len();
                    self.channel.taken(left);
                    if let Some(request) = request {
                        return Ok(request);
                    }
                }
                None if self.terms.is_ending() => Err(SessionError::Ending)?,
                None => {}
            }
            if Instant::now() >= until {
                Err(SessionError::Silent { limit })?;
            }
        }
    }

    /// Who asks, where it may.
    fn check(&self, request: &Request) -> Result<Who, Answer> {
        let refused = |why: &str| Err(Answer::no(Status::Refused, 0, why));
        match &self.terms.key {
            Some(key) => match self.protocol.check(key, request, now()) {
                Ok(()) => Ok(Who::Scope(request.scope.clone())),
                Err(denied) => refused(&denied.to_string()),
            },
            None if request.kind.has_name()
                && !self.terms.open
                && !self.outcome.peer.ip().to_canonical().is_loopback() =>
            {
                refused("it has no key, and so takes and gives files over loopback only; start it with --key or --open")
            }
            None => Ok(Who::Address(CountedAddress::of(self.outcome.peer))),
        }
    }

    fn answer(&mut self, answer: &Answer) -> Result<(), SessionError> {
        let mut out = Vec::new();
        self.protocol.answer(answer, &mut out)?;
        Ok(self.channel.say(&out)?)
    }

    /// Says the last answer, unless a get or generate has ended with its bytes.
    fn finish(&mut self, answer: &Answer) -> Result<(), SessionError> {
        let gave =
            self.outcome.request.as_ref().is_some_and(|request| {
                matches!(request.kind, Kind::Get | Kind::Generate) && answer.status == Status::Go
            });
        if gave { Ok(()) } else { self.answer(answer) }
    }

    fn put(&mut self, request: &Request, who: &Who) -> Result<Answer, Stop> {
        match self.terms.store.take(request, who, &self.channel.socket)? {
            Taking::There(file) => {
                self.outcome.resumed = request.size;
                self.answer(&Answer::go(request.size))?;
                let said = self.receive(request.size, |_| Ok(()))?;
                let same = Some(hash_of(&file, request.size).map_err(Stop::host)?) == said;
                Ok(if same { Answer::go(request.size) } else { exists(&request.name) })
            }
            Taking::Coming(mut upload) => {
                self.outcome.resumed = upload.held();
                self.answer(&Answer::go(upload.held()))?;
                upload.hash_held().map_err(Stop::host)?;
                let said = self.receive(upload.held(), |bytes| upload.write(bytes))?;
                upload.finish(said.unwrap_or_default())
            }
        }
    }

    fn discard(&mut self, request: &Request) -> Result<Answer, Stop> {
        self.answer(&Answer::go(request.size))?;
        self.receive(0, |_| Ok(()))?;
        Ok(Answer::go(self.outcome.bytes))
    }

    /// Takes the object's bytes; answers its hash, as the client says. Some are held.
    fn receive(
        &mut self,
        held: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<Option<[u8; HASH]>, Stop> {
        let mut patience = Patience::new(self.terms.patience);
        loop {
            let mut input = self.channel.input();
            let heard = self.protocol.read(&mut input)?;
            let left = input.len();
            match heard {
                Some(Heard::Bytes(bytes)) => {
                    self.outcome.bytes += bytes.len() as u64;
                    take(bytes)?;
                }
                Some(Heard::Whole(hash)) => return Ok(hash),
                Some(Heard::Request(_)) | None => {}
            }
            self.channel.taken(left);
            if left > 0 {
                continue;
            }
            match self.channel.wait(LOOK)? {
                Some(0) if self.endless() => return Ok(None),
                Some(0) => {
                    Err(SessionError::Left { held: held + self.outcome.bytes })?;
                }
                Some(_) => {}
                None if self.terms.is_ending() => {
                    Err(Answer::no(Status::Busy, 0, "the server is ending; try again later"))?;
                }
                None => {}
            }
            patience.moved(self.outcome.bytes)?;
        }
    }

    /// The client may end its stream where it likes.
    fn endless(&self) -> bool {
        self.outcome.request.as_ref().is_some_and(|request| request.kind == Kind::Discard)
    }

    fn get(&mut self, file: &File, offset: u64, size: u64) -> Result<Answer, Stop> {
        if offset > size {
            let why = format!("the file has {size} bytes, fewer than are there already; remove the part");
            Err(Answer::no(Status::Refused, size, &why))?;
        }
        self.outcome.resumed = offset;
        self.answer(&Answer::go(size))?;
        let (mut at, mut piece) = (offset, vec![0; PIECE]);
        self.give(|| {
            let wanted = (size - at).min(PIECE as u64) as usize;
            let count = file.read_at(&mut piece[..wanted], at).map_err(SessionError::Unreadable)?;
            if count == 0 && wanted > 0 {
                return Err(SessionError::Shrank);
            }
            at += count as u64;
            Ok(piece[..count].to_vec())
        })?;
        let hash = hash_of(file, size).map_err(SessionError::Unreadable)?;
        self.channel.say(&hash)?;
        self.delivered(size)
    }

    fn generate(&mut self, size: u64) -> Result<Answer, Stop> {
        self.answer(&Answer::go(size))?;
        let mut left = size;
        self.give(|| {
            let count = left.min(PIECE as u64);
            left -= count;
            Ok(vec![0; count as usize])
        })?;
        self.delivered(size)
    }

    /// Everything was said: waits until it has arrived, or the client, who knows how much it is, has ended.
    fn delivered(&mut self, size: u64) -> Result<Answer, Stop> {
        self.channel.socket.shutdown_write();
        let mut patience = Patience::new(self.terms.patience);
        loop {
            let (came, stats) = (self.channel.wait(LOOK)?, self.channel.socket.stats());
            match came {
                Some(0) if stats.queued == 0 => return Ok(Answer::go(size)),
                Some(0) => Err(SessionError::Gone)?,
                Some(_) => Err(Breach::Beyond)?,
                None if stats.queued == 0 && stats.in_flight == 0 => return Ok(Answer::go(size)),
                None => patience.moved(stats.delivered)?,
            }
        }
    }

    /// Sends pieces until there is an empty one.
    fn give(&mut self, mut next: impl FnMut() -> Result<Vec<u8>, SessionError>) -> Result<(), Stop> {
        let mut patience = Patience::new(self.terms.patience);
        loop {
            let piece = next()?;
            if piece.is_empty() {
                return Ok(());
            }
            let mut rest = piece.as_slice();
            while !rest.is_empty() {
                let sent = self.channel.offer(rest)?;
                self.outcome.bytes += sent as u64;
                rest = &rest[sent..];
                patience.moved(self.channel.socket.stats().delivered)?;
                if self.terms.is_ending() {
                    Err(SessionError::Ending)?;
                }
            }
        }
    }
}

/// The answer to a client where those like it have too many sessions, and to one that does not ask where there are too many of them.
fn busy() -> Answer {
    Answer::no(Status::Busy, 0, "too many sessions run; try again later")
}

/// The receiver half of the client's controller, if it has one.
fn half(request: &Request, mss: u32) -> Result<Option<Box<dyn ReceiverHalf>>, Answer> {
    if request.half.is_empty() {
        return Ok(None);
    }
    let refused = |why: &str| Answer::no(Status::Refused, 0, &format!("controller {}: {why}", request.half));
    let name = request.half.split(':').next().unwrap_or_default();
    // Before its parameters are read: some name files.
    let known = paceline_cc::registry::find(name).filter(|entry| entry.receiver.is_some());
    known.ok_or_else(|| refused("it has no receiver half here; run the same paceline at both ends"))?;
    let spec: Spec = request.half.parse().map_err(|error: paceline_cc::SpecError| refused(&error.to_string()))?;
    Ok(spec.build_receiver(&Env::new(mss)).filter(|_| spec.needs(Ability::ReceiverHalf)))
}
