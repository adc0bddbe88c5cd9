//! The writing end of a configured kernel flow: its connections, its application, what `TCP_INFO` says of them.

use std::io::{self, IoSlice, Write};
use std::iter::Peekable;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_alcc::{Mode, Options, Socket as Above};
use paceline_cc::{Distribution, Env, Nanos, Rate, Time};
use paceline_experiment::{AppTurn, Application, Flow, Frames, Layer, PathMemory, Sample, Seed, Workload};
use paceline_linux::clock::{Clock, span};
use paceline_linux::connections::Diagnosis;
use paceline_linux::tcp::TcpInfo;
use paceline_linux::thread::cpu_time;
use paceline_transport::SenderStats;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Engines, Entry, KernelFlow, Ledger, PROBE, Served, TIMESTAMPS};
use crate::observers::Observers;
use crate::race::{FlowError, contestant};
use crate::workload::{Beginnings, beginnings, end, is_family};

/// What one write hands to the kernel at most.
const CHUNK: usize = 64 * 1024;
/// Bytes that wait unsent in the kernel at most: 1 Gbit/s needs a write every 2 ms (our choice).
const WAITING: u32 = 256 * 1024;
/// The same for an application that takes back what has not been sent, or chooses late what is: a few packets.
const WAITING_FEW: u32 = 16 * 1024;

/// The sender of a configured flow. [`Sending::run`] in a thread inside its namespace.
pub(crate) struct Sending {
    pub(crate) flow: Flow,
    pub(crate) kernel: KernelFlow,
    /// Of the controller above the kernel's, where there is one.
    pub(crate) above: Option<Options>,
    pub(crate) engines: Arc<Engines>,
    pub(crate) observers: Observers,
    /// Index of the configured flow, and the seed of the run: for the draws of its workload.
    pub(crate) index: usize,
    pub(crate) seed: Seed,
    /// What writes in turns, where something does.
    pub(crate) application: Option<Application>,
    pub(crate) to: SocketAddr,
    pub(crate) clock: Clock,
    /// When the run ends.
    pub(crate) until: Time,
    pub(crate) ledger: Arc<Ledger>,
    /// What the series sees of it.
    pub(crate) state: Arc<Mutex<Option<Sample>>>,
    /// Set when the run has failed elsewhere.
    pub(crate) abort: Arc<AtomicBool>,
}

/// What it leaves behind.
#[derive(Clone, Debug)]
pub(crate) struct SendingOutcome {
    /// Summed over its connections.
    pub(crate) stats: SenderStats,
    pub(crate) rtt: Distribution,
    /// When it ended with bytes still to deliver; `None` when all were delivered.
    pub(crate) cut: Option<Time>,
    pub(crate) cpu: Nanos,
}

struct TcpConnection {
    stream: TcpStream,
    /// What writes into it from its handshake on, where a controller stands above.
    above: Option<Arc<Above>>,
    port: u16,
    /// Bytes that the application has written, and those of them that the kernel took.
    allowed: u64,
    written: u64,
    ends: bool,
    /// The handshake is over.
    open: bool,
    /// The kernel takes no more now.
    blocked: bool,
    last: TcpInfo,
    /// Its counters by then, with those of the controller above.
    stats: SenderStats,
}

/// Where a thread of a flow stands.
struct State {
    served: Option<Served>,
    connections: Vec<TcpConnection>,
    beginnings: Peekable<Beginnings>,
    application: Option<Application>,
    /// What its flows know of the place that they go to, where a controller stands above.
    memory: PathMemory,
    /// When the application acts, the kernel is asked.
    turn_at: Time,
    probe_at: Time,
    outcome: SendingOutcome,
}

impl Sending {
    /// Runs the flow to its end.
    ///
    /// # Errors
    /// What the kernel refused.
    pub(crate) fn run(mut self) -> Result<SendingOutcome, FlowError> {
        let application = self.application.take();
        let frames = application.as_ref().and_then(Application::frames);
        let failed = |source: io::Error| FlowError::System { flow: contestant(&self.flow), source };
        let serve = |options: &Options| self.engines.serve(self.flow.way, options);
        let served = self.above.as_ref().map(serve).transpose().map_err(failed)?;
        let mut diagnosis = Diagnosis::open().map_err(failed)?;
        let mut state = State {
            served,
            connections: Vec::new(),
            beginnings: beginnings(&self.flow, self.seed, self.index, self.until).peekable(),
            application,
            memory: PathMemory::of(&self.flow),
            turn_at: Time::NEVER,
            probe_at: self.flow.start + PROBE,
            outcome: SendingOutcome {
                stats: SenderStats::default(),
                rtt: Distribution::new(3),
                cut: None,
                cpu: Nanos::ZERO,
            },
        };
        // A family stops beginning flows; those that have begun go on.
        let end = end(&self.flow, self.until);
        self.clock.wait_for_zero();
        while !self.abort.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if now >= end {
                break;
            }
            if let Some((_, bytes)) = state.beginnings.next_if(|(at, _)| *at <= now) {
                self.open(&mut state, bytes).map_err(failed)?;
            }
            if now >= state.turn_at {
                turn(&mut state);
            }
            if now >= state.probe_at {
                self.probe(&mut state, &mut diagnosis).map_err(failed)?;
                state.probe_at = now + PROBE;
            }
            state.connections.iter_mut().for_each(|connection| write(connection, frames.as_ref()));
            wait(&mut state, end, self.clock).map_err(failed)?;
            self.greet(&mut state).map_err(failed)?;
        }
        self.probe(&mut state, &mut diagnosis).map_err(failed)?;
        for connection in &state.connections {
            state.outcome.stats += &connection.stats;
            // It ends here: nothing that is in flight is waited for.
            match &connection.above {
                Some(above) => above.close(Duration::ZERO),
                None => drop(socket2::SockRef::from(&connection.stream).set_linger(Some(Duration::ZERO))),
            }
        }
        state.outcome.cut = (!state.connections.is_empty()).then(|| end.min(self.clock.now()));
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // An engine of several flows counts for the one that started it.
        let started = state.served.as_ref().filter(|served| served.started);
        state.outcome.cpu = cpu_time() + started.map_or(Nanos::ZERO, |served| served.engine.cpu());
        Ok(state.outcome)
    }

    /// Opens a connection, for this many bytes where they end.
    fn open(&self, state: &mut State, bytes: Option<u64>) -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(self.to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_congestion(self.kernel.name.as_bytes())?;
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_mss(self.flow.mss + TIMESTAMPS)?;
        let fickle = matches!(self.flow.workload, Workload::OnOff(_) | Workload::Media(_) | Workload::MediaRate(_));
        if state.served.is_none() {
            socket.set_tcp_notsent_lowat(if fickle { WAITING_FEW } else { WAITING })?;
        }
        if let Some(bytes) = self.flow.via.how.handover.buffer {
            socket.set_send_buffer_size(bytes as usize)?;
        }
        socket.set_nonblocking(true)?;
        let began = self.clock.now();
        match socket.connect(&self.to.into()) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {}
            result => result?,
        }
        let stream = TcpStream::from(socket);
        let port = stream.local_addr()?.port();
        self.ledger.lock().insert(port, Entry { began, goal: bytes, delivered: false });
        if state.application.is_some() {
            state.turn_at = began;
        }
        let allowed = if state.application.is_some() { 0 } else { bytes.unwrap_or(u64::MAX) };
        let ends = bytes.is_some();
        state.connections.push(TcpConnection {
            stream,
            above: None,
            port,
            allowed,
            written: 0,
            ends,
            open: false,
            blocked: true,
            last: TcpInfo::default(),
            stats: SenderStats::default(),
        });
        Ok(())
    }

    /// Notes whose handshake is over: where it does not count, a flow begins here.
    fn greet(&self, state: &mut State) -> io::Result<()> {
        for connection in state.connections.iter_mut().filter(|connection| !connection.open && !connection.blocked) {
            connection.open = true;
            if let Some(Served { engine, .. }) = &state.served {
                let spec = &engine.options().controller;
                // The clock of its controller begins here.
                let observe = |env: &Env| self.observers.of(self.index, Layer::Above, spec, env, Time::ZERO);
                let fd = connection.stream.try_clone()?.into();
                let remembered = state.memory.lend(self.clock.now());
                connection.above = Some(engine.adopt_observed(fd, remembered, &observe)?);
            }
            if let Some(entry) = self.ledger.lock().get_mut(&connection.port).filter(|_| !self.flow.handshake) {
                entry.began = self.clock.now();
            }
        }
        Ok(())
    }

    /// Asks the kernel about all connections; those that have delivered everything are closed.
    fn probe(&self, state: &mut State, diagnosis: &mut Diagnosis) -> io::Result<()> {
        for one in diagnosis.to(self.to.port())? {
            let (info, port) = (one.info, one.local.port());
            let Some(connection) = state.connections.iter_mut().find(|connection| connection.port == port) else {
                continue;
            };
            let news = info.delivered != connection.last.delivered;
            connection.last = info;
            connection.stats = counters(&info);
            let rtt = match &connection.above {
                Some(above) => {
                    let stats = above.stats();
                    connection.stats.chunks = stats.chunks;
                    connection.stats.limited_below = stats.limited_below;
                    stats.rtt
                }
                None => Some(info.rtt).filter(|rtt| *rtt > Nanos::ZERO),
            };
            if let Some(rtt) = rtt.filter(|_| news) {
                state.outcome.rtt.record(rtt);
            }
        }
        let mut ledger = self.ledger.lock();
        let State { connections, outcome, memory, .. } = state;
        connections.retain(|connection| {
            let delivered = ledger.get(&connection.port).is_some_and(|entry| entry.delivered);
            if delivered {
                ledger.remove(&connection.port);
                outcome.stats += &connection.stats;
                if let Some(above) = &connection.above {
                    memory.learn(self.clock.now(), above.remember());
                    above.close(Duration::ZERO);
                }
            }
            !delivered
        });
        let alone = state.connections.first().filter(|_| !is_family(&self.flow));
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = alone.map(TcpConnection::sample);
        Ok(())
    }
}

impl TcpConnection {
    /// A point of the series: of the controller that decides.
    fn sample(&self) -> Sample {
        let Some(above) = &self.above else { return sample(&self.last) };
        let stats = above.stats();
        let packets = |bytes: u64| bytes as f64 / f64::from(self.last.mss.max(1));
        let variables = vec![("tcp_window", f64::from(self.last.cwnd)), ("queued", packets(stats.queued))];
        Sample { window: stats.window, in_flight: stats.in_flight, srtt: stats.srtt, variables }
    }

    /// What the kernel's controller permits, as [`paceline_experiment::media::permitted`] has it of ours.
    fn permitted(&self) -> Option<Rate> {
        let info = Some(&self.last).filter(|info| info.rtt > Nanos::ZERO)?;
        let by_window = Rate::from_bytes_in(info.window(), info.rtt);
        Some(info.pacing().map_or(by_window, |pacing| by_window.min(pacing)))
    }

    /// Hands bytes over, as many as are taken at once.
    fn hand_over(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.above {
            Some(above) => above.send(&[IoSlice::new(bytes)], true),
            None => self.stream.write(bytes),
        }
    }

    /// No more will be written.
    fn finish(&self) {
        match &self.above {
            Some(above) => above.shutdown_write(),
            None => drop(self.stream.shutdown(std::net::Shutdown::Write)),
        }
    }

    /// What can be written to when there is space.
    fn room(&self) -> BorrowedFd<'_> {
        let queued = self.above.as_ref().filter(|above| above.mode() != Mode::Inline);
        queued.and_then(|above| above.full()).unwrap_or(self.stream.as_fd())
    }
}

/// What the kernel has counted for a connection.
fn counters(info: &TcpInfo) -> SenderStats {
    SenderStats {
        packets_sent: u64::from(info.segments_sent),
        bytes_sent: info.bytes_sent,
        retransmits: u64::from(info.retransmits),
        timeouts: u64::from(info.timeouts),
        bytes_delivered: info.acked,
        ce_packets: u64::from(info.ce),
        ..SenderStats::default()
    }
}

/// A point of the series: of the kernel's controller.
fn sample(info: &TcpInfo) -> Sample {
    let mut variables = vec![("cwnd_packets", f64::from(info.cwnd))];
    variables.extend(info.threshold().map(|packets| ("ssthresh_packets", f64::from(packets))));
    variables.extend(info.pacing().map(|rate| ("pacing_mbps", rate.as_mbps())));
    variables.push(("delivery_mbps", info.rate.as_mbps()));
    let in_flight = u64::from(info.in_flight()) * u64::from(info.mss);
    let srtt = (info.rtt > Nanos::ZERO).then_some(info.rtt);
    Sample { window: info.window(), in_flight, srtt, variables }
}

/// The application's turn.
fn turn(state: &mut State) {
    let (Some(application), Some(connection)) = (&mut state.application, state.connections.first_mut()) else { return };
    let (turn, wait) = application.turn(state.turn_at, || connection.permitted());
    match turn {
        AppTurn::Write(bytes) => connection.allowed = connection.allowed.saturating_add(bytes),
        AppTurn::Cut => connection.allowed = connection.written,
        AppTurn::TakeBack(bytes) => connection.allowed -= bytes.min(connection.allowed - connection.written),
    }
    state.turn_at += wait;
}

/// Writes what the kernel takes.
fn write(connection: &mut TcpConnection, frames: Option<&Frames>) {
    static ZEROS: [u8; CHUNK] = [0; CHUNK];
    if connection.blocked {
        return;
    }
    while connection.written < connection.allowed {
        let left = usize::try_from(connection.allowed - connection.written).unwrap_or(CHUNK).min(CHUNK);
        match connection.hand_over(&ZEROS[..left]) {
            Ok(taken) => {
                if let Some(frames) = frames {
                    frames.sent(connection.written, taken as u64);
                }
                connection.written += taken as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                connection.blocked = true;
                // The peer is gone: nothing is written any more.
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) {
                    connection.allowed = connection.written;
                }
                return;
            }
        }
    }
    if connection.ends && connection.written >= connection.allowed && connection.allowed > 0 {
        // The last packet says so; the socket stays for what the kernel still reports.
        connection.finish();
        connection.ends = false;
    }
}

/// Sleeps until something is due or a connection can be written to.
fn wait(state: &mut State, end: Time, clock: Clock) -> io::Result<()> {
    let open_at = state.beginnings.peek().map_or(Time::NEVER, |(at, _)| *at);
    let due = open_at.min(state.turn_at).min(state.probe_at).min(end);
    let left = due.since(clock.now()).min(PROBE);
    let wanting = |connection: &TcpConnection| connection.written < connection.allowed;
    let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(state.connections.len());
    for connection in state.connections.iter().filter(|connection| wanting(connection)) {
        fds.push(PollFd::from_borrowed_fd(connection.room(), PollFlags::OUT));
    }
    paceline_linux::clock::wait(&mut fds, Some(span(left)))?;
    let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    let asked = state.connections.iter_mut().filter(|connection| wanting(connection));
    for (connection, ready) in asked.zip(ready) {
        connection.blocked = !ready;
    }
    Ok(())
}
