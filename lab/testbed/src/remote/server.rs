//! The end that waits for races: one at a time, and nothing is sent but to the host that opened it.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::{Nanos, Rate};
use paceline_experiment::Flow;
use paceline_icn::{CountedAddress, Sharing};
use paceline_linux::clock::{Clock, wait};
use paceline_udp::wire::control::{Hello, SessionJob};
use paceline_udp::{Agreed, Listener, Offload, SessionKey, random};
use rustix::event::{PollFd, PollFlags};

use super::flow::{Carrier, End, RemoteFlowError, check, fitted, is_datagrams};
use super::line::{Keys, Line, LineError, OPENS_WITHIN, admit};
use super::wire::{EndFigures, RaceMessage, RaceNumber, RacePurpose, RaceTerms};
use super::{RemoteError, host, name_of, overhead, permit, secret};

/// How often to look whether the server is to end.
const LOOK: Duration = Duration::from_millis(100);
/// How long a race may do nothing between two runs (our choice: longer than any pause that spreads them out).
const IDLE: Duration = Duration::from_mins(15);
/// Most connections whose client has not said yet who it is (our choice: each is a thread for some round trips).
const MOST_STRANGERS: usize = 64;
/// Smallest and largest packet that a path may have (RFC 791; without jumbo frames).
const MTU: std::ops::RangeInclusive<u16> = 576..=1500;

/// What a server of races permits.
#[derive(Clone, Debug)]
pub struct RaceOffer {
    /// The key that both ends share. Without it only loopback is served.
    pub key: Option<SessionKey>,
    /// Longest run.
    pub most_time: Nanos,
    /// Most that an end may offer.
    pub most_mbps: u32,
    /// Reads a contestant of a client's: it must open no file.
    pub read: fn(&str) -> Option<Flow>,
}

/// What a race did, for a line about it.
#[derive(Clone, Debug)]
pub struct RaceAccount {
    /// The client.
    pub peer: SocketAddr,
    /// Its contestants.
    pub contestants: BTreeSet<String>,
    /// Runs that reached their end, and those that failed.
    pub runs: [u32; 2],
    /// How long it took.
    pub took: Duration,
    /// Payload bytes that the client sent.
    pub received: u64,
    /// Data packets that went to it.
    pub packets_sent: u64,
    /// Why it ended, where not because the client had finished.
    pub broke: Option<String>,
}

impl fmt::Display for RaceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, contestants, runs: [good, failed], took, received, packets_sent, broke } = self;
        let names: Vec<&str> = contestants.iter().map(String::as_str).collect();
        write!(f, "{peer}: {good} runs, {failed} failed, in {:.1} s", took.as_secs_f64())?;
        write!(f, "; {packets_sent} packets sent, {:.1} MB received", *received as f64 / 1e6)?;
        write!(f, "; {}", if names.is_empty() { "no contestant".to_owned() } else { names.join(", ") })?;
        broke.as_ref().map_or(Ok(()), |why| write!(f, "; broken off: {why}"))
    }
}

/// A server of races.
pub struct RaceServer {
    listener: TcpListener,
    datagrams: Mutex<Listener>,
    clock: Clock,
    address: SocketAddr,
    offer: RaceOffer,
    current: Mutex<Option<Current>>,
}

/// The race that runs.
struct Current {
    number: RaceNumber,
    host: IpAddr,
    /// Its control connection: without that it ends.
    control: TcpStream,
    /// Where connections for its flows go.
    flows: SyncSender<TcpStream>,
}

impl RaceServer {
    /// Listens at `address`, over TCP and UDP with the same port.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn bind(address: SocketAddr, offer: RaceOffer) -> Result<Self, RemoteError> {
        permit(address, offer.key.as_ref())?;
        let failed = |source| RemoteError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (clock, address) = (Clock::new(), listener.local_addr().map_err(failed)?);
        let offload = Offload { send: true, receive: true };
        let datagrams = Mutex::new(Listener::bind(address, offer.key.clone(), offload, clock)?);
        Ok(Self { listener, datagrams, clock, address, offer, current: Mutex::default() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is set, or `once` a race is over; each that is over goes to `over`.
    ///
    /// # Errors
    /// The system's, when it can listen no more.
    pub fn serve(&self, stop: &AtomicBool, once: bool, over: &(dyn Fn(&RaceAccount) + Sync)) -> io::Result<()> {
        let (strangers, done) = (Sharing::new(MOST_STRANGERS), AtomicBool::new(false));
        let ended = |account: &RaceAccount| {
            over(account);
            done.fetch_or(once, Ordering::Relaxed);
        };
        thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) && !done.load(Ordering::Relaxed) {
                wait(&mut [PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)], Some(LOOK))?;
                // One that has gone again, or for which this host has nothing left: the next may do better.
                let Ok((stream, peer)) = self.listener.accept() else {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                };
                let Some(place) = strangers.take(&CountedAddress::of(peer)) else { continue };
                let ended = &ended;
                let admit = move || {
                    // Who does not get so far hears what it is told, and is of no interest to the operator.
                    let admitted = stream.set_nonblocking(false).map_err(LineError::from);
                    if let Ok(Some(race)) = admitted.and_then(|()| self.admit(stream, peer, stop)) {
                        drop(place);
                        ended(&race.run(self, stop));
                    }
                };
                // Without a thread the connection is closed.
                drop(thread::Builder::new().name("race".to_owned()).spawn_scoped(scope, admit));
            }
            if let Some(race) = self.current().as_ref() {
                // It may have gone by itself.
                let _ = race.control.shutdown(Shutdown::Both);
            }
            Ok(())
        })
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who a connection is of, and what becomes of it: a race, where one begins.
    fn admit(&self, stream: TcpStream, peer: SocketAddr, stop: &AtomicBool) -> Result<Option<Race>, LineError> {
        let secret = secret(self.offer.key.as_ref());
        let (opening, mut keys, holds) = admit(&stream, secret, stop)?;
        let mut say = |message: &RaceMessage| io::Write::write_all(&mut &stream, &keys.says.frame(message));
        if !holds {
            // It is written with our key: who has another one sees that.
            say(&RaceMessage::Refuse("it has a key".to_owned()))?;
            return Ok(None);
        }
        let most_millis = u32::try_from(self.offer.most_time.as_nanos() / 1_000_000).unwrap_or(u32::MAX);
        let welcome = |race| RaceMessage::Welcome { race, most_millis, most_mbps: self.offer.most_mbps };
        match opening.purpose {
            RacePurpose::Flow(number) => {
                let current = self.current();
                let race = current.as_ref().filter(|race| race.number == number && race.host == host(peer));
                let Some(race) = race else { return Ok(None) };
                say(&welcome(number))?;
                // A race that waits for no flow, or has it, lets it go.
                drop(race.flows.try_send(stream));
                Ok(None)
            }
            RacePurpose::Control => {
                let (number, control) = (random()?, stream.try_clone()?);
                let (flows, opened) = sync_channel(1);
                let begun = {
                    let mut current = self.current();
                    let free = current.is_none();
                    if free {
                        *current = Some(Current { number, host: host(peer), control, flows });
                    }
                    free
                };
                if !begun {
                    say(&RaceMessage::Refuse("busy: another race runs; try again later".to_owned()))?;
                    return Ok(None);
                }
                let said = say(&welcome(number));
                if said.is_err() {
                    self.current().take();
                }
                said?;
                Ok(Some(Race { stream, keys, number, peer, opened }))
            }
        }
    }
}

/// A race that was taken on.
struct Race {
    stream: TcpStream,
    keys: Keys,
    number: RaceNumber,
    peer: SocketAddr,
    opened: Receiver<TcpStream>,
}

/// A race under way.
struct Running<'a> {
    server: &'a RaceServer,
    line: Line,
    number: RaceNumber,
    peer: SocketAddr,
    opened: Receiver<TcpStream>,
    account: RaceAccount,
}

impl Race {
    /// Runs it to its end.
    fn run(self, server: &RaceServer, stop: &AtomicBool) -> RaceAccount {
        let Self { stream, keys, number, peer, opened } = self;
        let begun = Instant::now();
        let account = RaceAccount {
            peer,
            contestants: BTreeSet::new(),
            runs: [0; 2],
            took: Duration::ZERO,
            received: 0,
            packets_sent: 0,
            broke: None,
        };
        let mut account = match Line::new(stream, keys) {
            Ok(line) => {
                let mut running = Running { server, line, number, peer, opened, account };
                let broke = running.serve(stop).err();
                // A client that has finished closes.
                let broke = if stop.load(Ordering::Relaxed) { Some(LineError::Stopped) } else { broke };
                let broke = broke.filter(|error| !matches!(error, LineError::Closed) || running.account.runs == [0; 2]);
                RaceAccount { broke: broke.map(|error| error.to_string()), ..running.account }
            }
            Err(error) => RaceAccount { broke: Some(error.to_string()), ..account },
        };
        server.current().take();
        account.took = begun.elapsed();
        account
    }
}

impl Running<'_> {
    /// Answers what the client wants until it is gone.
    fn serve(&mut self, stop: &AtomicBool) -> Result<(), LineError> {
        let mut since = Instant::now();
        while since.elapsed() < IDLE {
            if stop.load(Ordering::Relaxed) {
                return Err(LineError::Stopped);
            }
            match self.line.hear(LOOK)? {
                Some(RaceMessage::Begin(terms)) => {
                    self.line.calm();
                    let ended = self.race(&terms, stop);
                    self.account.runs[usize::from(ended.is_err())] += 1;
                    let answer = match ended {
                        Ok(figures) => {
                            self.account.received += if terms.up { figures.bytes } else { 0 };
                            self.account.packets_sent += if terms.up { 0 } else { figures.packets };
                            RaceMessage::Ended(figures)
                        }
                        Err(why) => RaceMessage::Failed(why.to_string()),
                    };
                    self.line.say(&answer)?;
                    since = Instant::now();
                }
                // Of a run that has failed here as well.
                Some(RaceMessage::Failed(_)) | None => {}
                Some(_) => return Err(super::wire::RaceBreach::Value("place").into()),
            }
        }
        Err(LineError::Silent(IDLE.as_secs()))
    }

    /// One run.
    fn race(&mut self, terms: &RaceTerms, stop: &AtomicBool) -> Result<EndFigures, RunRefusal> {
        let offer = &self.server.offer;
        let time = Nanos::from_millis(terms.millis.into());
        if time > offer.most_time || time == Nanos::ZERO {
            return Err(RunRefusal::Time(offer.most_time));
        }
        if !MTU.contains(&terms.mtu) {
            return Err(RunRefusal::Mtu(terms.mtu));
        }
        let flow = (offer.read)(&terms.contestant).ok_or(RunRefusal::Contestant)?;
        self.account.contestants.insert(terms.contestant.clone());
        if !terms.up {
            check(&flow)?;
        }
        let datagrams = is_datagrams(&flow)?;
        // Of a run before.
        while self.opened.try_recv().is_ok() {}
        self.line.say(&RaceMessage::Ready)?;
        let carrier = self.carrier(terms, datagrams, stop)?;
        let ipv4 = host(self.peer).is_ipv4();
        let (flow, headers) = fitted(&flow, terms.mtu, ipv4, overhead(offer.key.as_ref()));
        let (rate, abort) = (Rate::from_mbps(offer.most_mbps.into()), self.line.abort());
        crate::prefer();
        let end = End { flow: &flow, seed: terms.seed, time, rate, headers, abort };
        Ok(if terms.up { end.receive(carrier) } else { end.send(carrier) }?)
    }

    /// The flow, once the client has opened it.
    fn carrier(&self, terms: &RaceTerms, datagrams: bool, stop: &AtomicBool) -> Result<Carrier, RunRefusal> {
        let until = Instant::now() + 2 * OPENS_WITHIN;
        while Instant::now() < until {
            if stop.load(Ordering::Relaxed) {
                return Err(LineError::Stopped.into());
            }
            if self.line.abort().load(Ordering::SeqCst) {
                return Err(RunRefusal::NoFlow);
            }
            if !datagrams {
                match self.opened.recv_timeout(LOOK) {
                    Ok(stream) => return Ok(Carrier::Stream(stream)),
                    Err(_) => continue,
                }
            }
            let job = if terms.up { SessionJob::Discard } else { SessionJob::Generate };
            let decide = |peer: SocketAddr, hello: &Hello| {
                let ours = host(peer) == host(self.peer) && hello.name == name_of(&self.number) && hello.job == job;
                if ours { Ok(Agreed { bytes: None, ready: () }) } else { Err("it races with another host".to_owned()) }
            };
            let mut listener = self.server.datagrams.lock().unwrap_or_else(PoisonError::into_inner);
            let until = self.server.clock.now() + Nanos::from_millis(LOOK.as_millis() as u64);
            let accepted = listener.accept(until, decide).unwrap_or_default();
            if let Some(accepted) = accepted.into_iter().flatten().next() {
                return Ok(Carrier::Datagrams(Box::new(accepted.channel)));
            }
        }
        Err(RunRefusal::NoFlow)
    }
}

/// Why a run is not to be, or did not reach its end.
#[derive(Debug, thiserror::Error)]
enum RunRefusal {
    #[error("runs are of 1 ms to {} s here; start it with --most-seconds", .0.as_secs_f64())]
    Time(Nanos),
    #[error("--mtu {mtu}: packets have {least} to {most} bytes; give 1500", mtu = .0, least = MTU.start(), most = MTU.end())]
    Mtu(u16),
    #[error("this contestant is not known there; use the same paceline at both ends, and no file of this one")]
    Contestant,
    #[error("no flow was opened")]
    NoFlow,
    #[error(transparent)]
    Line(#[from] LineError),
    #[error(transparent)]
    Flow(#[from] RemoteFlowError),
}
