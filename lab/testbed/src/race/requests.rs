//! Contestants over named content in a race: an end that asks where data goes, in a thread, with the messages of
//! `docs/design/icn-wire.md`. Without content routers another thread answers where data comes from.
//!
//! That one answers at once, as in the simulator; the address has proved itself before. Bytes of units are zeros: what is in them is
//! of no account to the path, and nothing is verified. Content routers are in [`super::content`].

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use paceline_cc::{Codepoint, Distribution, Nanos, Time};
use paceline_experiment::icn::{Requester, Router};
use paceline_experiment::{Application, Sample};
use paceline_icn::UNIT;
use paceline_icn::wire::{DATA_HEAD, UnitAnswer, UnitHead, UnitRequest};
use paceline_linux::clock::Sleeper;
use paceline_linux::thread::cpu_time;
use paceline_transport::Steering;
use paceline_udp::Offload;
use paceline_udp::socket::{Datagram, SessionSocket};

use super::datagrams::{Datagrams, Ended, Finished, SLICE, Span};
use crate::workload::is_family;

/// The end that asks.
pub(super) trait Asker {
    /// What steers it.
    fn steering(&mut self) -> &mut dyn Steering;

    /// The next message that leaves now, and where to.
    fn poll_message(&mut self, now: Time) -> Option<(SocketAddr, Bytes)>;

    /// Takes in a datagram; answers the RTT that the controller learned from it, if any.
    fn on_datagram(&mut self, now: Time, datagram: &Datagram<'_>) -> Option<Nanos>;

    /// Payload bytes ready for the application.
    fn bytes_ready(&self) -> u64;
}

/// A requester, and whom it asks.
struct Plain(Requester, SocketAddr);

impl Asker for Plain {
    fn steering(&mut self) -> &mut dyn Steering {
        &mut self.0
    }

    fn poll_message(&mut self, now: Time) -> Option<(SocketAddr, Bytes)> {
        self.0.poll_request(now).map(|_| (self.1, Bytes::copy_from_slice(self.0.message())))
    }

    fn on_datagram(&mut self, now: Time, datagram: &Datagram<'_>) -> Option<Nanos> {
        let Ok(UnitAnswer::Data(UnitHead { nonce, unit, .. }, payload)) = UnitAnswer::decode(datagram.bytes) else {
            return None;
        };
        // Strays are dropped.
        (nonce == self.0.nonce()).then(|| self.0.on_unit(now, unit, payload.len() as u32, datagram.ce))?
    }

    fn bytes_ready(&self) -> u64 {
        self.0.bytes_ready()
    }
}

/// Runs a flow: `near` is the router's socket, `far` the requester's.
pub(super) fn pull(flow: &Datagrams, requester: Requester, (near, far): (UdpSocket, UdpSocket), span: &Span) -> Ended {
    let refused = |error: io::Error| flow.refused(error);
    let over = AtomicBool::new(false);
    let asker = Plain(requester, far.peer_addr().map_err(refused)?);
    let router = Router::of(span.goal.unwrap_or(u64::MAX));
    let (asked, answered) = thread::scope(|scope| {
        let answering = thread::Builder::new()
            .name("icn router".to_owned())
            .spawn_scoped(scope, || answer(flow, near, router, || over.load(Ordering::Relaxed)));
        let asked = ask(flow, asker, far, span);
        over.store(true, Ordering::Relaxed);
        (asked, answering.map(|thread| thread.join().map_err(|_| flow.panicked("router"))))
    });
    let (cpu, unsent) = answered.map_err(refused)??.map_err(refused)?;
    let asked = asked?;
    Ok(Finished { cpu: cpu + asked.cpu, lost_in_sending: unsent + asked.lost_in_sending, ..asked })
}

/// Asks for what a flow wants until it is there, or the flow's time is over.
pub(super) fn ask(flow: &Datagrams, asker: impl Asker, socket: UdpSocket, span: &Span) -> Ended {
    let refused = |error: io::Error| flow.refused(error);
    let mut asks = Asks {
        socket: SessionSocket::new(socket, Offload::NONE).map_err(refused)?,
        asker,
        application: flow.application().map(|application| (application, span.at)),
        rtt: Distribution::new(3),
        now: Time::ZERO,
        done: None,
        unsent: 0,
    };
    Sleeper::new(flow.clock).sleep_until(span.at);
    let cpu = cpu_time();
    let asked = asks.run(flow, span);
    let (cpu, end) = (cpu_time() - cpu, flow.clock.now());
    *flow.glimpse.lock().unwrap_or_else(PoisonError::into_inner) = None;
    asked.map_err(refused)?;
    flow.learn(asks.asker.steering().controller());
    Ok(Finished {
        stats: asks.asker.steering().stats(),
        rtt: asks.rtt,
        bytes_ready: asks.asker.bytes_ready(),
        cpu,
        lost_in_sending: asks.unsent,
        completion: span.goal.zip(asks.done.map(|moment| moment.since(span.at))),
        end: end.min(span.until),
        frames: Vec::new(),
    })
}

/// Answers every request at once until it is `over`; says what it cost, and how many packets the host refused to send.
fn answer(flow: &Datagrams, socket: UdpSocket, router: Router, over: impl Fn() -> bool) -> io::Result<(Nanos, u64)> {
    crate::prefer();
    let cpu = cpu_time();
    let mut socket = SessionSocket::new(socket, Offload { send: true, receive: false })?;
    let (mut requests, mut burst, mut unsent) = (Vec::new(), Vec::new(), 0);
    while flow.clock.now() < flow.until && !over() && !flow.abort.load(Ordering::Relaxed) {
        if !socket.wait(flow.clock, flow.until.min(flow.clock.now() + SLICE))? {
            continue;
        }
        // What is not a request is dropped without a word, as by any router.
        heard(socket.receive(flow.clock, |datagram| {
            requests.extend(UnitRequest::decode(datagram.bytes).ok().map(|request| (datagram.from, request)));
        }))?;
        for (from, UnitRequest { nonce, ranges, .. }) in requests.drain(..) {
            burst.clear();
            for (unit, bytes) in router.units(&ranges) {
                let head = UnitHead { nonce, unit, stored_units: None, waited: Nanos::ZERO, app_limited: false };
                burst.extend_from_slice(&head.encode_head());
                burst.resize(burst.len() + bytes as usize, 0);
            }
            let size = DATA_HEAD + UNIT;
            if socket.send(from, Codepoint::NotEct, &burst, size).is_err() {
                unsent += burst.len().div_ceil(size) as u64;
            }
        }
    }
    Ok((cpu_time() - cpu, unsent))
}

/// That no program listens yet, or any more, is not a failure of a socket that does not connect.
fn heard(got: io::Result<usize>) -> io::Result<()> {
    match got {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        got => got.map(drop),
    }
}

/// The end that asks, and its socket.
struct Asks<A> {
    socket: SessionSocket,
    asker: A,
    /// What its application does in turns, and when next.
    application: Option<(Application, Time)>,
    rtt: Distribution,
    /// Its last instant.
    now: Time,
    /// When the last byte of its goal came.
    done: Option<Time>,
    unsent: u64,
}

impl<A: Asker> Asks<A> {
    /// Asks until the deadline, or until all is there.
    fn run(&mut self, flow: &Datagrams, span: &Span) -> io::Result<()> {
        let clock = flow.clock;
        let every = flow.sample_every.filter(|_| !is_family(&flow.flow));
        let mut sample_at = every.map_or(Time::NEVER, |every| clock.now() + every);
        loop {
            self.now = clock.now().max(self.now);
            let now = self.now;
            if let Some(every) = every.filter(|_| sample_at <= now) {
                *flow.glimpse.lock().unwrap_or_else(PoisonError::into_inner) = Some(Sample::of(self.asker.steering()));
                sample_at += every;
                continue;
            }
            if now >= span.until || flow.abort.load(Ordering::Relaxed) || self.done.is_some() {
                return Ok(());
            }
            let turn = self.turns(now);
            if self.asker.steering().next_timeout() <= now {
                self.asker.steering().on_timeout(now);
            }
            while let Some((to, message)) = self.asker.poll_message(now) {
                if self.socket.send(to, Codepoint::NotEct, &message, message.len()).is_err() {
                    self.unsent += 1;
                }
            }
            let wake = self.asker.steering().next_timeout().min(turn).min(span.until).min(sample_at).min(now + SLICE);
            if wake > now {
                self.socket.wait(clock, wake)?;
            }
            self.take_in(flow, span)?;
        }
    }

    /// Takes in what has come. A unit counts from when the kernel received it.
    fn take_in(&mut self, flow: &Datagrams, span: &Span) -> io::Result<()> {
        let Self { socket, asker, rtt, now, done, .. } = self;
        heard(socket.receive(flow.clock, |datagram| {
            *now = datagram.at.max(*now);
            if let Some(sample) = asker.on_datagram(*now, &datagram) {
                rtt.record(sample);
            }
            if span.goal.is_some_and(|goal| asker.bytes_ready() >= goal) {
                done.get_or_insert(*now);
            }
        }))
    }

    /// The application's turns that have come; answers when the next one does.
    fn turns(&mut self, now: Time) -> Time {
        let Some((application, at)) = &mut self.application else { return Time::NEVER };
        while *at <= now {
            let (turn, wait) = application.turn(*at, || None);
            turn.act(self.asker.steering());
            *at += wait.max(Nanos::from_nanos(1));
        }
        *at
    }
}
