//! Contestants over named content in a race: a requester where data goes and a router where it comes from, each in a thread, with the
//! messages of `docs/design/icn-wire.md`.
//!
//! The router answers at once, as in the simulator; the address has proved itself before. Bytes of units are zeros: what is in them is
//! of no account to the path, and nothing is verified.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use paceline_cc::{Codepoint, Distribution, Nanos, Time};
use paceline_experiment::icn::{Requester, Router};
use paceline_experiment::{AppTurn, Application, Sample, Workload};
use paceline_icn::UNIT;
use paceline_icn::wire::{DATA_HEAD, UnitAnswer, UnitHead, UnitRequest};
use paceline_linux::clock::Sleeper;
use paceline_linux::thread::cpu_time;
use paceline_transport::Steering;
use paceline_udp::Offload;
use paceline_udp::socket::SessionSocket;

use super::datagrams::{Datagrams, Ended, Finished, SLICE, Span};

/// Runs a flow: `near` is the router's socket, `far` the requester's.
pub(super) fn pull(flow: &Datagrams, requester: Requester, (near, far): (UdpSocket, UdpSocket), span: &Span) -> Ended {
    let refused = |error: io::Error| flow.refused(error);
    let over = AtomicBool::new(false);
    let peer = far.peer_addr().map_err(refused)?;
    let mut asking = Asks {
        peer,
        socket: SessionSocket::new(far, Offload::NONE).map_err(refused)?,
        requester,
        application: flow.application().map(|application| (application, span.at)),
        rtt: Distribution::new(3),
        now: Time::ZERO,
        done: None,
        unsent: 0,
    };
    let router = Router::of(span.goal.unwrap_or(u64::MAX));
    let (asked, answered, end) = thread::scope(|scope| {
        let answering = thread::Builder::new()
            .name("icn router".to_owned())
            .spawn_scoped(scope, || answer(flow, near, router, || over.load(Ordering::Relaxed)));
        Sleeper::new(flow.clock).sleep_until(span.at);
        let cpu = cpu_time();
        let asked = asking.run(flow, span).map(|()| cpu_time() - cpu);
        let end = flow.clock.now();
        over.store(true, Ordering::Relaxed);
        let answered = answering.map(|thread| thread.join().map_err(|_| flow.panicked("router")));
        (asked, answered, end)
    });
    *flow.glimpse.lock().unwrap_or_else(PoisonError::into_inner) = None;
    let (cpu, unsent) = answered.map_err(refused)??.map_err(refused)?;
    let cpu = cpu + asked.map_err(refused)?;
    let completion = span.goal.zip(asking.done.map(|moment| moment.since(span.at)));
    Ok(Finished {
        stats: asking.requester.stats(),
        rtt: asking.rtt,
        bytes_ready: asking.requester.bytes_ready(),
        cpu,
        lost_in_sending: unsent + asking.unsent,
        completion,
        end: end.min(span.until),
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

/// The requester and its socket.
struct Asks {
    socket: SessionSocket,
    peer: SocketAddr,
    requester: Requester,
    /// What its application does in turns, and when next.
    application: Option<(Application, Time)>,
    rtt: Distribution,
    /// The requester's last instant.
    now: Time,
    /// When the last byte of its goal came.
    done: Option<Time>,
    unsent: u64,
}

impl Asks {
    /// Asks until the deadline, or until all is there.
    fn run(&mut self, flow: &Datagrams, span: &Span) -> io::Result<()> {
        let clock = flow.clock;
        let every = flow.sample_every.filter(|_| !matches!(flow.flow.workload, Workload::Poisson(_)));
        let mut sample_at = every.map_or(Time::NEVER, |every| clock.now() + every);
        loop {
            self.now = clock.now().max(self.now);
            let now = self.now;
            if let Some(every) = every.filter(|_| sample_at <= now) {
                *flow.glimpse.lock().unwrap_or_else(PoisonError::into_inner) = Some(Sample::of(&self.requester));
                sample_at += every;
                continue;
            }
            if now >= span.until || flow.abort.load(Ordering::Relaxed) || self.done.is_some() {
                return Ok(());
            }
            let turn = self.turns(now);
            if self.requester.next_timeout() <= now {
                self.requester.on_timeout(now);
            }
            while self.requester.poll_request(now).is_some() {
                let message = self.requester.message();
                if self.socket.send(self.peer, Codepoint::NotEct, message, message.len()).is_err() {
                    self.unsent += 1;
                }
            }
            let wake = self.requester.next_timeout().min(turn).min(span.until).min(sample_at).min(now + SLICE);
            if wake > now {
                self.socket.wait(clock, wake)?;
            }
            self.take_in(flow, span)?;
        }
    }

    /// Takes in what has come. A unit counts from when the kernel received it.
    fn take_in(&mut self, flow: &Datagrams, span: &Span) -> io::Result<()> {
        let Self { socket, requester, rtt, now, done, .. } = self;
        heard(socket.receive(flow.clock, |datagram| {
            let Ok(UnitAnswer::Data(UnitHead { nonce, unit, .. }, payload)) = UnitAnswer::decode(datagram.bytes) else {
                return;
            };
            // Strays are dropped.
            if nonce != requester.nonce() {
                return;
            }
            *now = datagram.at.max(*now);
            if let Some(sample) = requester.on_unit(*now, unit, payload.len() as u32, datagram.ce) {
                rtt.record(sample);
            }
            if span.goal.is_some_and(|goal| requester.bytes_ready() >= goal) {
                done.get_or_insert(*now);
            }
        }))
    }

    /// The application's turns that have come; answers when the next one does.
    fn turns(&mut self, now: Time) -> Time {
        let Some((application, at)) = &mut self.application else { return Time::NEVER };
        while *at <= now {
            let (turn, wait) = application.turn();
            match turn {
                AppTurn::Write(bytes) => self.requester.write(bytes),
                AppTurn::Cut => self.requester.cut(),
            }
            *at += wait.max(Nanos::from_nanos(1));
        }
        *at
    }
}
