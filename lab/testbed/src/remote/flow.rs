//! One end of a flow between two hosts: for its time it sends zeros, or it counts what arrives.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use paceline_alcc::{Engine, Hooks, Mode, Socket};
use paceline_cc::datapath::{ALCC, TCP, UDP};
use paceline_cc::{Ability, Distribution, Env, Nanos, Rate, Time};
use paceline_experiment::endpoints::{self, FlowEnds};
use paceline_experiment::{DrivenBy, Flow};
use paceline_linux::clock::{Clock, span, wait};
use paceline_linux::connections::Diagnosis;
use paceline_linux::sockopt::tcp_info;
use paceline_linux::tcp::TcpInfo;
use paceline_linux::thread::cpu_time;
use paceline_transport::{Sender, SenderStats};
use paceline_udp::transfer::room;
use paceline_udp::{
    Channel, ContentSource, Discard, EndReason, ReceivingEnd, SenderOutcome, SenderTiming, SendingEnd, Trouble,
};
use rustix::event::{PollFd, PollFlags};
use socket2::SockRef;

use super::wire::{EndFigures, VALUES};
use crate::race::contestant;
use crate::tcp::{self, Below, KernelError, PROBE, Reading};

/// How often an end looks whether the other is gone.
const SLICE: Nanos = Nanos::from_millis(100);
/// How much of its permitted rate an application may have written and not sent: enough for a path that opens (our choice).
const AHEAD: Nanos = Nanos::from_millis(250);
/// A connection that ends earlier than this before its time did not end because the other end's clock is ahead, nor one that ends
/// earlier than a twentieth of it: as of programs (our choice).
const EARLY: Nanos = Nanos::from_secs(1);
/// How often it writes.
const TURN: Nanos = Nanos::from_millis(10);
/// What one write hands to the kernel at most, and bytes that wait unsent there.
const CHUNK: usize = 64 * 1024;
const WAITING: u32 = 256 * 1024;
/// Headers of IP and of TCP with its time stamps.
const TCP_HEADER: u32 = 32;

/// Why an end of a flow between two hosts cannot run, or did not reach its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteFlowError {
    /// Its datapath does not go between hosts.
    #[error("{controller}@{via}: races between hosts go over udp, tcp and alcc; write {controller}@udp")]
    Via {
        /// The controller.
        controller: String,
        /// The datapath.
        via: &'static str,
    },
    /// The kernel cannot run it.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Nothing is loaded into a kernel for a race between hosts.
    #[error("{flow}: between hosts the kernel runs what it has of its own; write {controller}@udp")]
    NotOwn {
        /// The contestant.
        flow: String,
        /// The controller.
        controller: String,
    },
    /// A TCP connection cannot ask for ECN by itself.
    #[error("{flow}: whether TCP uses ECN is a setting of the two hosts (net.ipv4.tcp_ecn); write {controller}@udp")]
    Ecn {
        /// The contestant.
        flow: String,
        /// The controller.
        controller: String,
    },
    /// The kernel keeps a congestion control for root.
    #[error("{flow}: this kernel keeps {name} for root; add it to net.ipv4.tcp_allowed_congestion_control, or be root")]
    ForRoot {
        /// The contestant.
        flow: String,
        /// The congestion control.
        name: &'static str,
    },
    /// Datagrams come to no end.
    #[error("{flow}: {trouble}")]
    Datagrams {
        /// The contestant.
        flow: String,
        /// What went wrong.
        trouble: Trouble,
    },
    /// The system refused it something.
    #[error("{flow}: {source}")]
    System {
        /// The contestant.
        flow: String,
        /// What it said.
        source: io::Error,
    },
    /// The other end is gone, or failed.
    #[error("{0}: the other end gave up")]
    Aborted(String),
}

/// An end of a flow.
pub(super) struct End<'a> {
    pub(super) flow: &'a Flow,
    /// Of the controller.
    pub(super) seed: u64,
    /// How long.
    pub(super) time: Nanos,
    /// What its application may offer.
    pub(super) rate: Rate,
    /// Bytes of a packet's headers.
    pub(super) headers: u32,
    /// The other end is gone.
    pub(super) abort: &'a Arc<AtomicBool>,
}

/// What carries a flow.
pub(super) enum Carrier {
    Stream(TcpStream),
    Datagrams(Box<Channel>),
}

/// Whether the flow goes over datagrams.
///
/// # Errors
/// [`RemoteFlowError::Via`] where it goes over nothing that goes between hosts.
pub(super) fn is_datagrams(flow: &Flow) -> Result<bool, RemoteFlowError> {
    match flow.via.row().datapath.name {
        name if name == UDP.name => Ok(true),
        name if name == TCP.name || name == ALCC.name => Ok(false),
        via => Err(RemoteFlowError::Via { controller: flow.controller.to_string(), via }),
    }
}

/// The flow with the packets that a path of this largest packet takes, and the bytes of their headers.
pub(super) fn fitted(flow: &Flow, mtu: u16, ipv4: bool, overhead: usize) -> (Flow, u32) {
    let below = if ipv4 { 20 } else { 40 };
    let mss = match is_datagrams(flow) {
        Ok(true) => room(mtu, ipv4, overhead, flow.controller.needs(Ability::ReceiverHalf)),
        _ => mtu.saturating_sub(below + TCP_HEADER as u16),
    };
    (Flow { mss: mss.into(), ..flow.clone() }, u32::from(mtu.saturating_sub(mss)))
}

/// The kernel's part of a flow that is sent from here; nothing for datagrams.
///
/// # Errors
/// [`RemoteFlowError`]: what cannot be.
pub(super) fn check(flow: &Flow) -> Result<Option<Below>, RemoteFlowError> {
    if is_datagrams(flow)? {
        return Ok(None);
    }
    let (name, controller) = (contestant(flow), flow.controller.to_string());
    let how = &flow.via.how;
    if !matches!(how.driven_by, None | Some(DrivenBy::Kernel)) {
        return Err(RemoteFlowError::NotOwn { flow: name, controller });
    }
    let below = if flow.via.row().above {
        tcp::above(flow, flow.via.lower().unwrap_or(&flow.controller), how.handover)?
    } else {
        tcp::kernel(flow, Some(DrivenBy::Kernel))?
    };
    // An open window that no one has loaded.
    if below.kernel.driven_by != DrivenBy::Kernel {
        return Err(RemoteFlowError::NotOwn { flow: name, controller });
    }
    if below.kernel.ecn {
        return Err(RemoteFlowError::Ecn { flow: name, controller });
    }
    Ok(Some(below))
}

impl End<'_> {
    /// Sends for its time.
    ///
    /// # Errors
    /// [`RemoteFlowError`].
    pub(super) fn send(&self, carrier: Carrier) -> Result<EndFigures, RemoteFlowError> {
        match (carrier, check(self.flow)?) {
            (Carrier::Stream(stream), Some(below)) => self.send_stream(&stream, &below),
            (Carrier::Datagrams(channel), None) => self.send_datagrams(*channel),
            _ => Err(self.other_carrier()),
        }
    }

    /// Receives for its time.
    ///
    /// # Errors
    /// [`RemoteFlowError`].
    pub(super) fn receive(&self, carrier: Carrier) -> Result<EndFigures, RemoteFlowError> {
        match (carrier, is_datagrams(self.flow)?) {
            (Carrier::Stream(stream), false) => self.receive_stream(stream),
            (Carrier::Datagrams(channel), true) => self.receive_datagrams(*channel),
            _ => Err(self.other_carrier()),
        }
    }

    fn name(&self) -> String {
        contestant(self.flow)
    }

    fn system(&self, source: io::Error) -> RemoteFlowError {
        RemoteFlowError::System { flow: self.name(), source }
    }

    fn other_carrier(&self) -> RemoteFlowError {
        self.system(io::Error::other("the other end opened another kind of flow"))
    }

    fn env(&self) -> Env {
        Env::new(self.flow.mss).with_seed(self.seed).with_paced(self.flow.paced)
    }

    /// Whether the other end is there.
    fn goes_on(&self) -> Result<(), RemoteFlowError> {
        if self.abort.load(Ordering::Relaxed) { Err(RemoteFlowError::Aborted(self.name())) } else { Ok(()) }
    }

    /// Its two ends, of which one is used here.
    fn ends(&self) -> Result<FlowEnds, RemoteFlowError> {
        endpoints::make(self.flow, &self.env(), |_, _| None).map_err(|_| self.other_carrier())
    }

    fn send_datagrams(&self, channel: Channel) -> Result<EndFigures, RemoteFlowError> {
        let FlowEnds::Push(sender, _) = self.ends()? else { return Err(self.other_carrier()) };
        let clock = Clock::new();
        let offer = Offer { rate: self.rate, at: Time::ZERO, offered: 0 };
        let mut end = SendingEnd::new(channel, clock, sender, Box::new(offer), SenderTiming::EXACT);
        let until = clock.now() + self.time;
        while clock.now() < until {
            self.goes_on()?;
            let ran = end.run(until.min(clock.now() + SLICE), None);
            match ran.map_err(|trouble| RemoteFlowError::Datagrams { flow: self.name(), trouble })? {
                EndReason::Deadline | EndReason::Idle => {}
                EndReason::Closed(_) => return Err(RemoteFlowError::Aborted(self.name())),
            }
        }
        let (SenderOutcome { stats, rtt, cpu, .. }, _) = end.finish();
        Ok(self.sent(&stats, stats.packets_lost, &rtt, cpu, u32::MAX))
    }

    fn sent(&self, stats: &SenderStats, lost: u64, rtt: &Distribution, cpu: Nanos, limited_below: u32) -> EndFigures {
        EndFigures {
            packets: stats.packets_sent,
            lost,
            retransmits: stats.retransmits,
            timeouts: stats.timeouts,
            marks: stats.ce_packets,
            cpu_ns: cpu.as_nanos(),
            limited_below,
            // A twentieth below, since a flow has to begin.
            capped: stats.bytes_sent >= self.rate.bytes_in(self.time).saturating_mul(19) / 20,
            rtt_us: values(rtt),
            ..EndFigures::default()
        }
    }

    fn receive_datagrams(&self, channel: Channel) -> Result<EndFigures, RemoteFlowError> {
        let FlowEnds::Push(_, receiver) = self.ends()? else { return Err(self.other_carrier()) };
        let clock = Clock::new();
        let mut end = ReceivingEnd::new(channel, clock, receiver, Box::new(Discard), Nanos::MAX);
        let until = clock.now() + self.time;
        while clock.now() < until {
            self.goes_on()?;
            let ran = end.run(until.min(clock.now() + SLICE), None);
            ran.map_err(|trouble| RemoteFlowError::Datagrams { flow: self.name(), trouble })?;
        }
        let (outcome, ..) = end.finish();
        Ok(EndFigures {
            packets: outcome.packets,
            wire_bytes: outcome.bytes + outcome.packets * u64::from(self.headers),
            bytes: outcome.bytes_ready,
            cpu_ns: outcome.cpu.as_nanos(),
            limited_below: u32::MAX,
            ..EndFigures::default()
        })
    }

    fn send_stream(&self, stream: &TcpStream, below: &Below) -> Result<EndFigures, RemoteFlowError> {
        let name = below.kernel.name;
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::PermissionDenied => RemoteFlowError::ForRoot { flow: self.name(), name },
            _ => self.system(source),
        };
        let socket = SockRef::from(stream);
        socket.set_tcp_congestion(name.as_bytes()).map_err(failed)?;
        socket.set_tcp_nodelay(true).map_err(failed)?;
        if let Some(bytes) = self.flow.via.how.handover.buffer {
            socket.set_send_buffer_size(bytes as usize).map_err(failed)?;
        }
        stream.set_nonblocking(true).map_err(failed)?;
        let begun = cpu_time();
        let peers = Peers::of(stream).map_err(failed)?;
        let mut writing = Writing { stream, peers, above: None, last: TcpInfo::default(), rtt: Distribution::new(3) };
        if let Some(options) = &below.above {
            let hooks = Hooks { enter: crate::prefer, ..Hooks::default() };
            let engine = Engine::start_with(options.clone(), hooks).map_err(failed)?;
            let above = stream.try_clone().and_then(|stream| engine.adopt(stream.into())).map_err(failed)?;
            writing.above = Some((engine, above));
        } else {
            socket.set_tcp_notsent_lowat(WAITING).map_err(failed)?;
        }
        let done = self.write(&mut writing);
        // It ends here: nothing that waits, or is in flight, is to follow.
        let reset = socket.set_linger(Some(Duration::ZERO));
        let info = writing.last;
        let mut limited = u32::MAX;
        let mut cpu = cpu_time() - begun;
        if let Some((engine, above)) = &writing.above {
            let stats = above.stats();
            limited = (stats.limited_below.saturating_mul(1_000_000) / stats.chunks.max(1)).min(1_000_000) as u32;
            above.close(Duration::ZERO);
            cpu += engine.cpu();
        }
        done?;
        reset.map_err(failed)?;
        let stats = SenderStats {
            packets_sent: info.segments_sent.into(),
            bytes_sent: info.bytes_sent,
            retransmits: info.retransmits.into(),
            timeouts: info.timeouts.into(),
            ce_packets: info.ce.into(),
            ..SenderStats::default()
        };
        // What the kernel took for lost it sent again.
        Ok(self.sent(&stats, stats.retransmits, &writing.rtt, cpu, limited))
    }

    /// Whether a connection that has ended at `now` has ended with its time.
    fn in_time(&self, now: Time, until: Time) -> bool {
        until.since(now) <= EARLY.max(self.time.mul_div(1, 20))
    }

    /// Writes for its time.
    fn write(&self, writing: &mut Writing<'_>) -> Result<(), RemoteFlowError> {
        static ZEROS: [u8; CHUNK] = [0; CHUNK];
        let clock = Clock::new();
        let (until, mut written, mut probe_at) = (clock.now() + self.time, 0_u64, Time::ZERO);
        loop {
            let now = clock.now();
            if now >= probe_at || now >= until {
                writing.probe().map_err(|error| self.system(error))?;
                probe_at = now + PROBE;
            }
            if now >= until {
                return Ok(());
            }
            self.goes_on()?;
            let permitted = self.rate.bytes_in(now.since(until - self.time) + AHEAD);
            let mut full = false;
            while written < permitted && !full {
                match writing.hand_over(&ZEROS) {
                    Ok(taken) => written += taken as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => full = true,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) if self.in_time(now, until) => return Ok(()),
                    Err(error) => return Err(self.system(error)),
                }
            }
            let left = span(until.min(probe_at).since(clock.now()));
            let ready = if full { wait(&mut [writing.room()], Some(left)) } else { wait(&mut [], Some(left)) };
            ready.map_err(|error| self.system(error))?;
        }
    }

    fn receive_stream(&self, stream: TcpStream) -> Result<EndFigures, RemoteFlowError> {
        let failed = |error| self.system(error);
        let (clock, begun) = (Clock::new(), cpu_time());
        let framed = self.flow.via.row().above
            && (self.flow.via.how.handover.mode == Mode::Framed || self.flow.controller.needs(Ability::ReceiverHalf));
        let info = stream.try_clone().map_err(failed)?;
        let mut reading = Reading::new(stream, self.flow, framed).map_err(failed)?;
        let (until, mut buffer) = (clock.now() + self.time, vec![0; tcp::CHUNK]);
        let (mut bytes, mut over) = (0, false);
        while clock.now() < until {
            self.goes_on()?;
            while !over && clock.now() < until {
                match reading.read(&mut buffer) {
                    Ok(0) => over = true,
                    Ok(count) => bytes += count as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::InvalidData => return Err(failed(error)),
                    // A reset: the sender's time is over.
                    Err(_) => over = true,
                }
            }
            if over && !self.in_time(clock.now(), until) {
                return Err(failed(io::Error::other("the connection ended before its time")));
            }
            let left = span(until.since(clock.now()).min(SLICE));
            let left = reading.next_timeout().map_or(left, |timeout| timeout.min(left));
            if over {
                std::thread::sleep(left);
            } else {
                let mut news = [PollFd::from_borrowed_fd(reading.as_fd(), PollFlags::IN)];
                wait(&mut news, Some(left)).map_err(failed)?;
            }
        }
        // As many packets as its bytes fill: the kernel counts none.
        let full = tcp_info(&info).map_or(self.flow.mss, |info| info.mss).max(1);
        let packets = bytes.div_ceil(full.into());
        Ok(EndFigures {
            packets,
            wire_bytes: bytes + packets * u64::from(self.headers),
            bytes,
            cpu_ns: (cpu_time() - begun).as_nanos(),
            limited_below: u32::MAX,
            ..EndFigures::default()
        })
    }
}

/// An application without end that offers no more than it may.
struct Offer {
    rate: Rate,
    at: Time,
    offered: u64,
}

impl ContentSource for Offer {
    fn next(&self) -> Time {
        self.at
    }

    fn act(&mut self, now: Time, sender: &mut dyn Sender) {
        self.at = now + TURN;
        let waiting = self.offered.saturating_sub(sender.stats().bytes_sent);
        let more = self.rate.bytes_in(AHEAD).saturating_sub(waiting).min(self.rate.bytes_in(TURN));
        // The first turn fills what may wait.
        let more = if self.offered == 0 { self.rate.bytes_in(AHEAD) } else { more };
        self.offered += more;
        sender.write(more);
    }

    fn fill(&mut self, _seq: u64, _payload: &mut [u8]) -> io::Result<()> {
        Ok(())
    }
}

/// How the kernel is asked about one connection: of a socket alone it says less.
struct Peers {
    diagnosis: Diagnosis,
    local: u16,
    remote: u16,
}

impl Peers {
    fn of(stream: &TcpStream) -> io::Result<Self> {
        let (local, remote) = (stream.local_addr()?.port(), stream.peer_addr()?.port());
        Ok(Self { diagnosis: Diagnosis::open()?, local, remote })
    }

    /// Nothing when it has ended.
    fn info(&mut self) -> io::Result<Option<TcpInfo>> {
        let all = self.diagnosis.to(self.remote)?;
        Ok(all.into_iter().find(|one| one.local.port() == self.local).map(|one| one.info))
    }
}

/// A connection that is written to.
struct Writing<'a> {
    stream: &'a TcpStream,
    peers: Peers,
    above: Option<(Arc<Engine>, Arc<Socket>)>,
    last: TcpInfo,
    rtt: Distribution,
}

impl Writing<'_> {
    fn hand_over(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.above {
            Some((_, above)) => above.send(&[IoSlice::new(bytes)], true),
            None => self.stream.write(bytes),
        }
    }

    /// What can be written to when there is space.
    fn room(&self) -> PollFd<'_> {
        let queued = self.above.as_ref().filter(|(_, above)| above.mode() != Mode::Inline);
        let fd = queued.and_then(|(_, above)| above.full()).unwrap_or(self.stream.as_fd());
        PollFd::from_borrowed_fd(fd, PollFlags::OUT)
    }

    /// A sample of the round trip, where something was delivered since the last.
    fn probe(&mut self) -> io::Result<()> {
        let Some(info) = self.peers.info()? else { return Ok(()) };
        let news = info.delivered != self.last.delivered;
        self.last = info;
        let rtt = match &self.above {
            Some((_, above)) => above.stats().rtt,
            // Known since the handshake; on loopback it may be below a microsecond.
            None => Some(info.rtt),
        };
        if let Some(rtt) = rtt.filter(|_| news) {
            self.rtt.record(rtt);
        }
        Ok(())
    }
}

/// The mean and quantiles of a distribution in microseconds.
fn values(distribution: &Distribution) -> Vec<u32> {
    let Some(mean) = distribution.mean_ms() else { return Vec::new() };
    let micros = |millis: f64| (millis * 1e3).round().clamp(0.0, f64::from(u32::MAX)) as u32;
    let last = VALUES - 2;
    let quantile = |index: usize| match index {
        0 => distribution.min_ms(),
        _ if index == last => distribution.max_ms(),
        _ => distribution.quantile_ms(index as f64 / last as f64),
    };
    let mut values: Vec<u32> = (0..=last).filter_map(quantile).map(micros).collect();
    // Quantiles are a little coarser than the extremes.
    let mut most = 0;
    for value in &mut values {
        most = most.max(*value);
        *value = most;
    }
    [vec![micros(mean)], values].concat()
}

#[cfg(test)]
mod tests;
