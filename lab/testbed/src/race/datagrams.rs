//! Contestants over UDP in a race: the endpoints of the simulator, each in a thread, over sockets at the two ends of a world. Those
//! that ask for their data are in [`super::requests`].

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender as Results};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use paceline_cc::observe::both;
use paceline_cc::{Controller, Distribution, Env, Nanos, Remembered, Spec, Time};
use paceline_experiment::endpoints::FlowEnds;
use paceline_experiment::media::permitted;
use paceline_experiment::{Application, Flow, Frames, PathMemory, Sample, Seed, StreamOutcome, Workload, endpoints};
use paceline_telemetry::ReportInboxes;
use paceline_transport::{Sender, SenderStats};
use socket2::{Domain, Protocol, Socket, Type};

use super::content::{self, Fetches};
use super::rows::{Place, Real, nothing_below, nothing_else};
use super::tap::Glimpse;
use super::{Crew, FLOW_PORT, FlowError, Refused, TestbedError, Work, contestant, port, ports, requests};
use crate::numbers::Numbers;
use crate::observers::Observers;
use crate::workload::{beginnings, end, is_family};
use paceline_linux::clock::{Clock, Sleeper};
use paceline_linux::namespace::Namespace;
use paceline_udp::{
    Channel, ContentSink, ContentSource, EndReason, Offload, ReceivingEnd, SenderOutcome, SenderTiming, SenderWatch,
    SendingEnd, Session, Zeros,
};

/// Endpoints look this often whether the run has failed elsewhere.
pub(super) const SLICE: Nanos = Nanos::from_millis(500);

/// `udp` in the table.
pub(super) const UDP: Real = Real { carries_telemetry: true, lends_memory: true, check, below: nothing_below, work };
/// `icn` in the table.
pub(super) const ICN: Real = Real { carries_telemetry: false, check: nothing_else, ..UDP };

fn check(flow: &Flow) -> Result<Vec<String>, Refused> {
    if flow.mss > super::largest(flow) { Err(Refused::Datagram { mss: flow.mss }) } else { Ok(Vec::new()) }
}

fn work(crew: &Crew<'_>, place: &Place<'_>) -> Result<Work, TestbedError> {
    let Place { flow, index, crossing, glimpse, numbers } = *place;
    let (source, target) = crew.ends(flow.way);
    let (from, to) = crew.addresses(flow)?;
    let flow = Datagrams {
        flow: flow.clone(),
        index,
        seed: crew.seed,
        crossing,
        numbers: numbers.clone(),
        fetches: crew.routers.fetches[index].clone(),
        source: (source.namespace.clone(), SocketAddr::new(from, 0)),
        target: (target.namespace.clone(), SocketAddr::new(to, port(FLOW_PORT, index))),
        clock: crew.clock,
        until: crew.until,
        sample_every: crew.sample_every,
        glimpse: glimpse.clone(),
        observers: crew.observers.clone(),
        inboxes: crew.inboxes.clone(),
        memory: Mutex::new(PathMemory::of(flow)),
        abort: crew.abort.clone(),
    };
    Ok(Box::new(move || {
        let DatagramsOutcome { stats, rtt, bytes_ready, completions, end, cpu, frames, .. } = flow.run()?;
        Ok(super::Ended { index, stats, rtt, bytes_ready, completions, end, cpu, frames, program: None })
    }))
}

/// A configured flow over UDP. [`Datagrams::run`] in a thread of its own.
pub(super) struct Datagrams {
    pub(super) flow: Flow,
    /// Index of the configured flow, and the seed of the run: for the draws of its workload.
    pub(super) index: usize,
    pub(super) seed: Seed,
    /// Sources of cross traffic in the run.
    pub(super) crossing: u32,
    /// Of the flows of the run, for their controllers' seeds.
    pub(super) numbers: Arc<Numbers>,
    /// What it fetches from content routers, where it does.
    pub(super) fetches: Option<Arc<Fetches>>,
    /// Where data comes from, and where it goes.
    pub(super) source: (Namespace, SocketAddr),
    pub(super) target: (Namespace, SocketAddr),
    pub(super) clock: Clock,
    pub(super) until: Time,
    pub(super) sample_every: Option<Nanos>,
    pub(super) glimpse: Glimpse,
    pub(super) observers: Observers,
    inboxes: ReportInboxes,
    /// What its flows know of the place that they go to.
    memory: Mutex<PathMemory>,
    pub(super) abort: Arc<AtomicBool>,
}

/// What a configured flow leaves behind.
pub(super) struct DatagramsOutcome {
    pub(super) stats: Vec<SenderStats>,
    pub(super) rtt: Distribution,
    pub(super) bytes_ready: u64,
    pub(super) completions: Vec<(u64, Nanos)>,
    pub(super) end: Time,
    pub(super) cpu: Nanos,
    /// Packets that the sending host itself refused.
    pub(super) lost_in_sending: u64,
    /// Of its frames, where it has such.
    pub(super) frames: Vec<StreamOutcome>,
}

/// One flow that has ended, or failed.
pub(super) type Ended = Result<Finished, FlowError>;

/// When a flow runs, and to which end.
pub(super) struct Span {
    pub(super) at: Time,
    pub(super) until: Time,
    /// Its bytes, where it has this many.
    pub(super) goal: Option<u64>,
}

/// What the two ends of one flow leave behind.
pub(super) struct Finished {
    pub(super) stats: SenderStats,
    pub(super) rtt: Distribution,
    pub(super) bytes_ready: u64,
    pub(super) cpu: Nanos,
    pub(super) lost_in_sending: u64,
    pub(super) completion: Option<(u64, Nanos)>,
    pub(super) end: Time,
    pub(super) frames: Vec<StreamOutcome>,
}

impl Datagrams {
    /// Runs the flow, or the family, to its end.
    ///
    /// # Errors
    /// What failed.
    pub(super) fn run(self) -> Result<DatagramsOutcome, FlowError> {
        let this = Arc::new(self);
        let (results, ended) = mpsc::channel();
        let mut sleeper = Sleeper::new(this.clock);
        let mut begun = 0;
        let until = end(&this.flow, this.until);
        for (at, goal) in beginnings(&this.flow, this.seed, this.index, this.until) {
            if begun > 0 {
                sleeper.sleep_until(at);
            }
            if this.abort.load(Ordering::Relaxed) {
                break;
            }
            this.begin(begun, Span { at, until, goal }, &results)?;
            begun += 1;
        }
        this.gather(&ended, begun)
    }

    fn gather(&self, ended: &Receiver<Ended>, begun: usize) -> Result<DatagramsOutcome, FlowError> {
        let mut sum = DatagramsOutcome {
            stats: Vec::new(),
            rtt: Distribution::new(3),
            bytes_ready: 0,
            completions: Vec::new(),
            end: self.flow.start,
            cpu: Nanos::ZERO,
            lost_in_sending: 0,
            frames: Vec::new(),
        };
        for _ in 0..begun {
            let one = ended.recv().map_err(|_| self.panicked("sender"))??;
            sum.stats.push(one.stats);
            sum.rtt.add(&one.rtt);
            sum.bytes_ready += one.bytes_ready;
            sum.completions.extend(one.completion);
            sum.end = sum.end.max(one.end);
            sum.cpu += one.cpu;
            sum.lost_in_sending += one.lost_in_sending;
            // A family of flows has none.
            sum.frames.extend(one.frames);
        }
        Ok(sum)
    }

    /// Begins one flow, the `nth`: its sockets, and a thread or two.
    fn begin(self: &Arc<Self>, nth: usize, span: Span, results: &Results<Ended>) -> Result<(), FlowError> {
        let refused = |error| self.refused(error);
        let number = self.numbers.next(self.index);
        let work: Box<dyn FnOnce(&Self) -> Ended + Send> = match self.fetches.clone() {
            Some(fetches) => {
                let socket = self.fetching_socket().map_err(refused)?;
                Box::new(move |this| content::fetch(this, number, &fetches, nth, socket, &span))
            }
            None => {
                let sockets = self.sockets().map_err(refused)?;
                Box::new(move |this| this.one(number, sockets, &span))
            }
        };
        let (this, results) = (self.clone(), results.clone());
        let body = move || {
            crate::prefer();
            // The receiver is gone when the run has failed.
            let _ = results.send(work(&this));
        };
        thread::Builder::new()
            .name("udp flow".to_owned())
            .spawn(body)
            .map_err(|source| FlowError::Thread { flow: contestant(&self.flow), source })?;
        Ok(())
    }

    /// The system refused this flow something.
    pub(super) fn refused(&self, source: io::Error) -> FlowError {
        FlowError::System { flow: contestant(&self.flow), source }
    }

    /// This thread of the flow panicked.
    pub(super) fn panicked(&self, thread: &'static str) -> FlowError {
        FlowError::Panicked { flow: contestant(&self.flow), thread }
    }

    /// The receiver's socket of a fetch, whose flows of a family cannot share a port: they ask the same routers.
    fn fetching_socket(&self) -> io::Result<UdpSocket> {
        let (namespace, address) = &self.target;
        let bind = || {
            let mut ports = ports(self.index, self.numbers.configured());
            let free = |port: u16| match UdpSocket::bind((address.ip(), port)) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
                bound => Some(bound),
            };
            ports.find_map(free).unwrap_or_else(|| Err(io::ErrorKind::AddrInUse.into()))
        };
        namespace.enter(bind).map_err(io::Error::other)?
    }

    /// The sender's socket and the receiver's, connected to each other.
    fn sockets(&self) -> io::Result<(UdpSocket, UdpSocket)> {
        let open = |place: &(Namespace, SocketAddr), port: u16| -> io::Result<UdpSocket> {
            let (namespace, address) = place;
            let address = SocketAddr::new(address.ip(), port);
            namespace
                .enter(|| {
                    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
                    // The flows of a family share their receivers' port.
                    socket.set_reuse_address(true)?;
                    socket.bind(&address.into())?;
                    Ok(UdpSocket::from(socket))
                })
                .map_err(io::Error::other)?
        };
        let sender = open(&self.source, 0)?;
        let receiver = open(&self.target, self.target.1.port())?;
        receiver.connect(sender.local_addr()?)?;
        sender.connect(self.target.1)?;
        Ok((sender, receiver))
    }

    /// Runs one flow, with this number and these sockets.
    fn one(&self, number: u32, sockets: (UdpSocket, UdpSocket), span: &Span) -> Ended {
        let env = Env::new(self.flow.mss)
            .with_seed(self.controller_seed(number))
            .with_paced(self.flow.paced)
            .with_remembered(self.lend());
        let application = self.application();
        let frames = application.as_ref().and_then(Application::frames);
        let observer = |spec: &Spec, layer| {
            let tapped = self.observers.of_world(number, layer, spec, &env);
            both(tapped, frames.as_ref().map(Frames::observer))
        };
        let mut ends = endpoints::make(&self.flow, &env, observer)?;
        match (&self.flow.workload, span.goal) {
            (_, Some(bytes)) => ends.write(bytes),
            (Workload::Bulk, None) => ends.write(u64::MAX),
            _ => {}
        }
        match ends {
            FlowEnds::Push(sender, receiver) => self.push(number, (sender, receiver), application, sockets, span),
            FlowEnds::Pull(requester, _) => requests::pull(self, *requester, sockets, span),
        }
    }

    /// What a flow that begins now knows of its place.
    pub(super) fn lend(&self) -> Option<Remembered> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).lend(self.clock.now())
    }

    /// What a flow that ends now has learnt of it.
    pub(super) fn learn(&self, controller: &dyn Controller) {
        let now = self.clock.now();
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).learn(now, controller.remember(now));
    }

    /// As in the simulator, where sources of cross traffic have the first numbers.
    pub(super) fn controller_seed(&self, number: u32) -> u64 {
        self.seed.derive(&format!("controller {}", self.crossing + number))
    }

    /// What the flow's application does in turns, where it does.
    pub(super) fn application(&self) -> Option<Application> {
        Application::new(&self.flow.workload, self.flow.mss, self.seed, self.index)
    }

    /// The sender and the receiver of a flow.
    fn push(
        &self,
        number: u32,
        (sender, receiver): (Box<dyn Sender>, Box<dyn paceline_transport::Receiver>),
        application: Option<Application>,
        (near, far): (UdpSocket, UdpSocket),
        &Span { at, until, goal }: &Span,
    ) -> Ended {
        let failed = |source| FlowError::Udp { flow: contestant(&self.flow), source };
        let frames = application.as_ref().and_then(Application::frames);
        let source: Box<dyn ContentSource> = match application {
            Some(application) => Box::new(Turns { application, frames: frames.clone(), at }),
            None => Box::new(Zeros),
        };
        let ends = near.local_addr().and_then(|from| Ok((from, near.peer_addr()?)));
        let (from, to) = ends.map_err(|error| self.refused(error))?;
        let reports = super::reports_of(&self.inboxes, from, to);
        let channel = |socket: UdpSocket| {
            let peer = socket.peer_addr()?;
            Channel::new(socket, peer, Session::plain(number), Offload::NONE)
        };
        let (near, far) = (channel(near), channel(far));
        let (near, far) = (near.map_err(|error| self.refused(error))?, far.map_err(|error| self.refused(error))?);
        let (seen, sunk) = (HashSet::new(), frames.clone());
        let counted = Counted { clock: self.clock, goal, seen, bytes: 0, done: Arc::default(), frames: sunk };
        let done = counted.done.clone();
        let over = AtomicBool::new(false);
        let sending = SendingEnd::new(near, self.clock, sender, source, SenderTiming::EXACT);
        let mut sending = sending.informed(reports);
        let mut receiving = ReceivingEnd::new(far, self.clock, receiver, Box::new(counted), Nanos::MAX);
        let (sent, received, end) = thread::scope(|scope| {
            let receiver = thread::Builder::new().name("udp receiver".to_owned()).spawn_scoped(scope, || {
                while self.clock.now() < until && !over.load(Ordering::Relaxed) && !self.abort.load(Ordering::Relaxed) {
                    receiving.run(until.min(self.clock.now() + SLICE), None).map_err(failed)?;
                }
                Ok::<_, FlowError>(receiving.finish().0)
            });
            Sleeper::new(self.clock).sleep_until(at);
            let sent = self.send(&mut sending, goal.is_some(), until).map_err(failed);
            self.learn(sending.sender().controller());
            let end = self.clock.now();
            over.store(true, Ordering::Relaxed);
            let received = receiver.map(|thread| thread.join().unwrap_or_else(|_| Err(self.panicked("receiver"))));
            (sent, received, end)
        });
        *self.glimpse.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let idle = sent?;
        let receiver = received.map_err(|source| FlowError::Thread { flow: contestant(&self.flow), source })??;
        let done = *done.lock().unwrap_or_else(PoisonError::into_inner);
        // Datagrams that were lost never arrive: such a flow is done when nothing of it is under way.
        let took = done.or(idle.then_some(end)).map(|moment| moment.since(at));
        let SenderOutcome { stats, rtt, cpu, lost_in_sending, .. } = sending.finish().0;
        let cpu = cpu + receiver.cpu;
        let (completion, end, bytes_ready) = (goal.zip(took), end.min(until), receiver.bytes_ready);
        let frames = frames.map_or_else(Vec::new, |frames| frames.outcome());
        Ok(Finished { stats, rtt, bytes_ready, cpu, lost_in_sending, completion, end, frames })
    }

    /// Runs the sender; says whether it delivered all it had.
    fn send(&self, sending: &mut SendingEnd, ends: bool, until: Time) -> Result<bool, paceline_udp::Trouble> {
        loop {
            let now = self.clock.now();
            if now >= until || self.abort.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let mut sample = |_: Time, sender: &dyn Sender| {
                *self.glimpse.lock().unwrap_or_else(PoisonError::into_inner) = Some(Sample::of(sender));
            };
            let every = self.sample_every.filter(|_| !is_family(&self.flow));
            let watch = every.map(|every| SenderWatch { every, sample: &mut sample });
            match sending.run(until.min(now + SLICE), watch)? {
                EndReason::Idle if ends => return Ok(true),
                EndReason::Deadline | EndReason::Idle => {}
                EndReason::Closed(_) => return Ok(false),
            }
        }
    }
}

/// An application that writes in turns.
struct Turns {
    application: Application,
    frames: Option<Frames>,
    at: Time,
}

impl ContentSource for Turns {
    fn next(&self) -> Time {
        if self.frames.as_ref().is_some_and(Frames::is_owed) { Time::ZERO } else { self.at }
    }

    fn act(&mut self, now: Time, sender: &mut dyn Sender) {
        if let Some(owed) = self.frames.as_ref().map(Frames::take_owed).filter(|owed| *owed > 0) {
            sender.write(owed);
        }
        while self.at <= now {
            let (turn, wait) = self.application.turn(self.at, || permitted(&*sender));
            turn.act(sender);
            self.at += wait.max(Nanos::from_nanos(1));
        }
    }

    fn fill(&mut self, seq: u64, payload: &mut [u8]) -> io::Result<()> {
        if let Some(frames) = &self.frames {
            frames.sent(seq, payload.len() as u64);
        }
        Ok(())
    }
}

/// Notes when the last of this many bytes has come.
struct Counted {
    clock: Clock,
    goal: Option<u64>,
    /// A path may duplicate packets.
    seen: HashSet<u64>,
    bytes: u64,
    done: Arc<Mutex<Option<Time>>>,
    frames: Option<Frames>,
}

impl ContentSink for Counted {
    fn take(&mut self, seq: u64, payload: &[u8]) -> io::Result<()> {
        if let Some(frames) = &self.frames {
            frames.arrived(self.clock.now(), seq, payload.len() as u64);
        }
        let Some(goal) = self.goal else { return Ok(()) };
        if !self.seen.insert(seq) {
            return Ok(());
        }
        self.bytes += payload.len() as u64;
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bytes >= goal && done.is_none() {
            *done = Some(self.clock.now());
        }
        Ok(())
    }
}
