//! The end that opens a race and every flow of it.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use paceline_cc::datapath::UDP;
use paceline_cc::{Nanos, Rate};
use paceline_experiment::Flow;
use paceline_linux::clock::Clock;
use paceline_udp::wire::control::{Hello, SessionJob};
use paceline_udp::{HandshakeError, Offload, SessionKey, connect};

use super::flow::{Carrier, End, check, fitted, is_datagrams};
use super::line::{Keys, Line, LineError, OPENS_WITHIN, hear, open};
use super::wire::{EndFigures, RaceBreach, RaceMessage, RaceNumber, RacePurpose, RaceTerms};
use super::{RemoteError, name_of, overhead, permit, secret};
use crate::prefer;

/// How long the server may take for an answer: its end of a run ends up to a round trip later, and it needs a moment.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// What both ends of a run counted.
#[derive(Clone, Debug)]
pub struct RemoteRun {
    /// Where data came from.
    pub sender: EndFigures,
    /// Where it went.
    pub receiver: EndFigures,
    /// What the sender was permitted to offer.
    pub most: Rate,
}

/// A client of a race: one control connection as long as it lasts, and another when it broke.
pub struct RaceClient {
    peer: SocketAddr,
    key: Option<SessionKey>,
    mtu: u16,
    race: Option<Race>,
}

struct Race {
    line: Line,
    number: RaceNumber,
    most_millis: u32,
    most: Rate,
}

impl RaceClient {
    /// For races with the server at `peer`, with its key; `mtu` is the largest packet of the path, IP header included.
    pub fn new(peer: SocketAddr, key: Option<SessionKey>, mtu: u16) -> Self {
        Self { peer, key, mtu, race: None }
    }

    /// The server.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Opens the race, where none is open, for runs of this long.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn begin(&mut self, time: Nanos) -> Result<(), RemoteError> {
        let peer = self.peer;
        let race = match self.race.take() {
            Some(race) => race,
            None => self.open()?,
        };
        let most = race.most_millis;
        self.race = Some(race);
        if millis(time) > most {
            return Err(RemoteError::TooLong { peer, most: f64::from(most) / 1e3 });
        }
        Ok(())
    }

    fn open(&self) -> Result<Race, RemoteError> {
        let peer = self.peer;
        permit(peer, self.key.as_ref())?;
        let (stream, welcome) = self.opened(RacePurpose::Control)?;
        match welcome {
            (RaceMessage::Welcome { race, most_millis, most_mbps }, keys) => {
                let line = Line::new(stream, keys).map_err(|error| self.line(error.into()))?;
                Ok(Race { line, number: race, most_millis, most: Rate::from_mbps(most_mbps.into()) })
            }
            (RaceMessage::Refuse(why), _) => Err(RemoteError::Refused { peer, why }),
            _ => Err(self.unexpected()),
        }
    }

    /// A connection for this purpose, and what the server said first.
    fn opened(&self, purpose: RacePurpose) -> Result<(TcpStream, (RaceMessage, Keys)), RemoteError> {
        let peer = self.peer;
        let stream = TcpStream::connect_timeout(&peer, OPENS_WITHIN);
        let stream = stream.map_err(|source| RemoteError::Unreachable { peer, source })?;
        let opened = open(&stream, secret(self.key.as_ref()), purpose);
        let mut keys = opened.map_err(|error| self.line(error))?;
        let said = hear(&stream, &mut keys.hears, Instant::now() + OPENS_WITHIN);
        match said {
            Ok(said) => Ok((stream, (said, keys))),
            // The first thing that is written with a key.
            Err(LineError::Breach(RaceBreach::Tag)) => Err(RemoteError::OtherKey(peer)),
            Err(error) => Err(self.line(error)),
        }
    }

    fn line(&self, line: LineError) -> RemoteError {
        RemoteError::Line { peer: self.peer, line }
    }

    fn unexpected(&self) -> RemoteError {
        self.line(LineError::Breach(RaceBreach::Value("place")))
    }

    /// Whether this end can run the flow, in whichever direction it is to go.
    ///
    /// # Errors
    /// [`RemoteError::Here`]: why not, and how to fix it.
    pub fn check(flow: &Flow, up: bool) -> Result<(), RemoteError> {
        is_datagrams(flow)?;
        if up {
            check(flow)?;
        }
        Ok(())
    }

    /// Runs this flow, which the text describes to the server, for this long.
    ///
    /// # Errors
    /// [`RemoteError`]. A race whose connection broke is opened again by the next run.
    pub fn run(
        &mut self,
        flow: &Flow,
        contestant: &str,
        up: bool,
        seed: u64,
        time: Nanos,
    ) -> Result<RemoteRun, RemoteError> {
        self.begin(time)?;
        let Some(race) = self.race.take() else { return Err(self.unexpected()) };
        let terms = RaceTerms { up, millis: millis(time), mtu: self.mtu, seed, contestant: contestant.to_owned() };
        let ended = self.conduct(&race, flow, terms, time);
        let out_of_step = matches!(ended, Err(RemoteError::Line { .. }));
        self.race = Some(race).filter(|race| !out_of_step && !race.line.is_gone());
        ended
    }

    fn conduct(&self, race: &Race, flow: &Flow, terms: RaceTerms, time: Nanos) -> Result<RemoteRun, RemoteError> {
        let (up, seed, contestant) = (terms.up, terms.seed, terms.contestant.clone());
        race.line.calm();
        let say = |message: &RaceMessage| race.line.say(message).map_err(|error| self.line(error));
        say(&RaceMessage::Begin(terms))?;
        if self.answer(race)? != RaceMessage::Ready {
            return Err(self.unexpected());
        }
        let end = || -> Result<EndFigures, RemoteError> {
            let ipv4 = self.peer.ip().to_canonical().is_ipv4();
            let (flow, headers) = fitted(flow, self.mtu, ipv4, overhead(self.key.as_ref()));
            let carrier = self.carrier(race, &flow, up, &contestant)?;
            prefer();
            let end = End { flow: &flow, seed, time, rate: race.most, headers, abort: race.line.abort() };
            Ok(if up { end.send(carrier) } else { end.receive(carrier) }?)
        };
        let here = match end() {
            Err(error) if !race.line.abort().load(Ordering::SeqCst) => {
                say(&RaceMessage::Failed(error.to_string()))?;
                // Of the run that failed: what comes next belongs to the next one.
                drop(self.answer(race));
                return Err(error);
            }
            here => here,
        };
        // What failed at the other end is the cause where this one gave up.
        let RaceMessage::Ended(there) = self.answer(race)? else { return Err(self.unexpected()) };
        let here = here?;
        let (sender, receiver) = if up { (here, there) } else { (there, here) };
        Ok(RemoteRun { sender, receiver, most: race.most })
    }

    /// What the server answers.
    fn answer(&self, race: &Race) -> Result<RaceMessage, RemoteError> {
        match race.line.hear(ANSWERS_WITHIN).map_err(|error| self.line(error))? {
            Some(RaceMessage::Failed(why)) => Err(RemoteError::There { peer: self.peer, why }),
            Some(message) => Ok(message),
            None => Err(self.line(LineError::Silent(ANSWERS_WITHIN.as_secs()))),
        }
    }

    /// Opens the flow.
    fn carrier(&self, race: &Race, flow: &Flow, up: bool, contestant: &str) -> Result<Carrier, RemoteError> {
        if flow.via.row().datapath.name != UDP.name {
            let (stream, welcome) = self.opened(RacePurpose::Flow(race.number))?;
            return match welcome.0 {
                RaceMessage::Welcome { .. } => Ok(Carrier::Stream(stream)),
                _ => Err(self.unexpected()),
            };
        }
        let hello = Hello {
            random: [0; 16],
            cookie: None,
            job: if up { SessionJob::Discard } else { SessionJob::Generate },
            mss: flow.mss.try_into().unwrap_or(u16::MAX),
            arrivals: flow.arrivals,
            ack_every: flow.ack_every.try_into().unwrap_or(u8::MAX),
            bytes: None,
            controller: contestant.to_owned(),
            name: name_of(&race.number),
        };
        let patience = Nanos::from_nanos(OPENS_WITHIN.as_nanos() as u64);
        let offload = Offload { send: true, receive: true };
        let connected = connect(self.peer, self.key.as_ref(), hello, offload, Clock::new(), patience);
        let (channel, _) = connected.map_err(|error| match error {
            HandshakeError::Silent { peer, .. } => RemoteError::NoDatagrams(peer),
            error => error.into(),
        })?;
        Ok(Carrier::Datagrams(Box::new(channel)))
    }
}

/// Whole milliseconds.
fn millis(time: Nanos) -> u32 {
    u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}
