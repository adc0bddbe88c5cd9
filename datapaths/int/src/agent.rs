//! The sender's agent: takes in the reports of the flows that this machine sends, and passes on what they say: to controllers in the
//! kernel, which find a record for each socket in their map `pl_telemetry`; to the source, which learns that its headers arrive; to
//! senders in this process, which have inboxes; and to an observer, such as the agent that runs controllers in user space.
//!
//! A flow is ours when its data leaves from here: the source's map says so, by ends and socket cookie, where one is loaded on this
//! machine, of UDP too; otherwise the TCP connections over IPv6 of this network namespace are asked for.
//!
//! A report is believed as far as [`paceline_telemetry::ReportReader`] and the bus believe it. When none come, records grow old, and the
//! controllers work as if there had never been one: nothing is written then. An agent that ends leaves records that are old half a
//! second later.

mod maps;
mod shares;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_bus::{
    Bus, BusError, BusMessage, GateCounts, Heart, MessageBody, PublisherRole, SubjectFilter, Subscription, flow_number,
};
use paceline_cc::{Nanos, Telemetry, Time};
use paceline_linux::connections::{Connection, Diagnosis};
use paceline_linux::thread::cpu_time;
use paceline_telemetry::{FlowReport, ReportInboxes, ReportReader, Tuple};

use maps::Maps;
use shares::{Shares, User};

use crate::HeaderClock;

/// How often the flows are looked at. Our choice: ten round trips of a path of a site; a look costs tens of microseconds.
const FLOWS_EVERY: Duration = Duration::from_millis(100);
/// How often they are looked at for reports of a flow that is not known, where no source says whose it is. Our choice: half of the time
/// between two reports.
const UNKNOWN_EVERY: Duration = Duration::from_millis(5);
/// This much longer than a look took is the time to the next one. Our choice: 2.5 % of a processor, however many flows there are.
const LOOK_SHARE: u32 = 40;
/// How often the maps are. Our choice: half of what a source waits for the report of its first header. All maps of the machine are gone through.
const MAPS_EVERY: Duration = Duration::from_millis(500);
/// Flows whose reports are kept for a source that is not known yet. Our choice: a source asks of one flow to each address.
const UNHEARD_MAX: usize = 1024;
/// Connections that are looked at. Our choice: as many as a source has flows.
const CONNECTIONS_MAX: usize = 65_536;
/// A flow's round trip while it is not known. Our choice: its reports then count for 230 ms, which is in the middle of what they may.
const ROUND_TRIP: Nanos = Nanos::from_millis(100);

/// What an observer takes: the flow, and what its controller's `on_telemetry` does.
pub type TelemetryObserver = Box<dyn FnMut(&Tuple, &Telemetry<'_>) + Send>;

/// What became of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportFigures {
    /// Flows that are served now.
    pub flows: u64,
    /// Maps of controllers in the kernel.
    pub controllers: u64,
    /// Reports that were believed.
    pub taken: u64,
    /// Reports of flows that are not, or no longer, ours.
    pub others: u64,
    /// Reports that were not newer than the newest.
    pub old: u64,
    /// Records for which a map had no room.
    pub full: u64,
    /// Flows beyond those that are served: 16 384, and three quarters of them of one user.
    pub unserved: u64,
}

struct Flow {
    cookie: u64,
    user: User,
    srtt: Nanos,
    reader: ReportReader,
}

/// What the kernel knows of a flow.
struct Known {
    tuple: Tuple,
    cookie: u64,
    /// Zero before the first sample.
    srtt: Nanos,
    user: u32,
}

impl Known {
    /// `None` for a connection that has no headers of ours, over IPv4.
    fn of(one: &Connection) -> Option<Self> {
        let (SocketAddr::V6(local), SocketAddr::V6(remote)) = (one.local, one.remote) else { return None };
        let tuple = Tuple { src: *local.ip(), dst: *remote.ip(), sport: local.port(), dport: remote.port() };
        Some(Self { tuple, cookie: one.cookie, srtt: one.info.rtt, user: one.user })
    }
}

/// The agent. Someone calls [`TelemetryAgent::step`] again and again, or [`TelemetryAgent::spawn`] does.
pub struct TelemetryAgent {
    bus: Bus,
    subscription: Subscription,
    diagnosis: Diagnosis,
    maps: Maps,
    flows: HashMap<Tuple, Flow>,
    shares: Shares,
    heart: Heart,
    /// It is subscribed to all flows.
    all: bool,
    looked: Option<Instant>,
    /// Time between two looks.
    every: Duration,
    mapped: Option<Instant>,
    /// When reports came of flows that no source was known to have: one may have begun since the maps were looked at, and its flow has one
    /// header alone until it receives the report.
    unheard: HashMap<Tuple, Time>,
    observe: Option<TelemetryObserver>,
    inboxes: ReportInboxes,
    figures: ReportFigures,
}

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryAgentError {
    /// The bus.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The system.
    #[error("the kernel does not say what its connections are: {0}")]
    System(#[from] io::Error),
}

impl std::fmt::Debug for TelemetryAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Agent").field(&self.figures()).finish()
    }
}

impl TelemetryAgent {
    /// An agent at this bus.
    ///
    /// # Errors
    /// The bus's or the system's.
    pub fn new(bus: Bus, observe: Option<TelemetryObserver>) -> Result<Self, TelemetryAgentError> {
        let subscription = bus.subscribe(&[])?;
        let diagnosis = Diagnosis::open()?;
        Ok(Self {
            bus,
            subscription,
            diagnosis,
            maps: Maps::default(),
            flows: HashMap::new(),
            shares: Shares::default(),
            heart: Heart::new(PublisherRole::Agent),
            all: false,
            looked: None,
            every: FLOWS_EVERY,
            mapped: None,
            unheard: HashMap::new(),
            observe,
            inboxes: ReportInboxes::default(),
            figures: ReportFigures::default(),
        })
    }

    /// Receives the reports of all flows, and so the first of a new one too: for a bus that carries hardly any but ours. Otherwise it
    /// subscribes to a flow when it next looks at them.
    #[must_use]
    pub fn hearing_all(mut self) -> Self {
        self.subscription.add(&SubjectFilter::Flows);
        self.all = true;
        self
    }

    /// Passes reports on to senders of this process, too: to those of the flows that have an inbox among these.
    #[must_use]
    pub fn informing(mut self, inboxes: &ReportInboxes) -> Self {
        self.inboxes = inboxes.clone();
        self
    }

    /// Waits for a report, up to `patience` and no longer than until flows are to be looked at, and passes it on. Answers the report.
    ///
    /// # Errors
    /// The system's, when connections cannot be asked for.
    pub fn step(&mut self, patience: Duration) -> io::Result<Option<FlowReport>> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= self.every) {
            self.look()?;
        }
        if self.bus.options().role == Some(PublisherRole::Agent) {
            self.heart.beat(&self.bus, Some(&self.subscription), self.flows.len());
        }
        let rest = self.looked.map_or(Duration::ZERO, |looked| self.every.saturating_sub(looked.elapsed()));
        let Some(BusMessage { body: MessageBody::Flow(report), .. }) = self.subscription.next(patience.min(rest))
        else {
            return Ok(None);
        };
        if self.all && !self.flows.contains_key(&report.tuple) {
            self.meet(&report.tuple)?;
        }
        self.take(&report);
        Ok(Some(report))
    }

    /// A report of a flow that is not known: it may be a new one of ours.
    fn meet(&mut self, tuple: &Tuple) -> io::Result<()> {
        if self.maps.has_sources() {
            if let Some(flow) = self.maps.flow(tuple) {
                self.serve(*tuple, flow.cookie, None);
            }
        } else if self.looked.is_none_or(|looked| looked.elapsed() >= UNKNOWN_EVERY.max(self.every - FLOWS_EVERY)) {
            self.look()?;
        }
        Ok(())
    }

    /// Serves a flow from now on, or counts that it does not.
    fn serve(&mut self, tuple: Tuple, cookie: u64, known: Option<&Known>) {
        let (user, srtt) = (known.map(|one| one.user), known.map(|one| one.srtt).filter(|srtt| *srtt > Nanos::ZERO));
        if self.shares.take(user) {
            let flow = Flow { cookie, user, srtt: srtt.unwrap_or(ROUND_TRIP), reader: ReportReader::new() };
            self.flows.insert(tuple, flow);
        } else {
            self.figures.unserved += 1;
        }
    }

    fn take(&mut self, report: &FlowReport) {
        let now = HeaderClock::Machine.now();
        let is_heard = self.maps.has_sources() && self.flows.contains_key(&report.tuple);
        if !is_heard && self.unheard.len() < UNHEARD_MAX {
            self.unheard.insert(report.tuple, now);
        }
        let Some(flow) = self.flows.get_mut(&report.tuple) else {
            self.figures.others += 1;
            return;
        };
        let Ok(record) = flow.reader.take(now, report, flow.srtt) else {
            self.figures.old += 1;
            return;
        };
        self.figures.taken += 1;
        self.figures.full += u64::from(self.maps.write(flow.cookie, &record).is_err());
        self.maps.reported(&report.tuple, now);
        self.inboxes.put(report);
        if let (Some(observe), Some(telemetry)) = (&mut self.observe, flow.reader.telemetry(now)) {
            observe(&report.tuple, &telemetry);
        }
    }

    /// Which flows are ours now.
    fn look(&mut self) -> io::Result<()> {
        let now = HeaderClock::Machine.now();
        if self.mapped.is_none_or(|mapped| mapped.elapsed() >= MAPS_EVERY) {
            self.maps.look();
            self.mapped = Some(Instant::now());
            for (tuple, at) in self.unheard.drain() {
                self.maps.reported(&tuple, at);
            }
        }
        // On a busy machine the thread waits for longer than it uses the processor.
        let began = cpu_time();
        let mut connections = Vec::new();
        self.diagnosis.over_ipv6(|one| {
            if connections.len() < CONNECTIONS_MAX {
                connections.extend(Known::of(one));
            }
        })?;
        let known: HashMap<u64, &Known> = connections.iter().map(|one| (one.cookie, one)).collect();
        let ours: Vec<(Tuple, u64)> = match self.maps.sent(now) {
            Some(sent) => sent.iter().map(|one| (one.tuple, one.cookie)).collect(),
            None => connections.iter().map(|one| (one.tuple, one.cookie)).collect(),
        };
        self.figures.unserved = 0;
        let before: HashSet<u32> = self.flows.keys().map(flow_number).collect();
        let there: HashMap<Tuple, u64> = ours.into_iter().collect();
        let Self { flows, shares, maps, .. } = self;
        flows.retain(|tuple, flow| {
            // Another connection may have the same ends.
            let stays = there.get(tuple) == Some(&flow.cookie);
            if !stays {
                shares.give_back(flow.user);
                maps.remove(flow.cookie);
            }
            stays
        });
        for (tuple, cookie) in there {
            let known = known.get(&cookie).copied();
            let Some(flow) = self.flows.get_mut(&tuple) else {
                self.serve(tuple, cookie, known);
                continue;
            };
            let Some(known) = known else { continue };
            if known.srtt > Nanos::ZERO {
                flow.srtt = known.srtt;
            }
            // One that was met by its report is of a user whom only this look knows.
            if flow.user.is_none() {
                self.shares.give_back(None);
                flow.user = Some(known.user);
                if !self.shares.take(flow.user) {
                    self.flows.remove(&tuple);
                    self.figures.unserved += 1;
                }
            }
        }
        self.looked = Some(Instant::now());
        self.every = FLOWS_EVERY.max(Duration::from_nanos((cpu_time() - began).as_nanos()) * LOOK_SHARE);
        if self.all {
            return Ok(());
        }
        let after: HashSet<u32> = self.flows.keys().map(flow_number).collect();
        before.difference(&after).for_each(|number| self.subscription.remove(&SubjectFilter::Flow(*number)));
        after.difference(&before).for_each(|number| self.subscription.add(&SubjectFilter::Flow(*number)));
        Ok(())
    }

    /// What became of reports so far.
    pub fn figures(&self) -> ReportFigures {
        let (flows, controllers) = (self.flows.len() as u64, self.maps.controllers() as u64);
        ReportFigures { flows, controllers, ..self.figures }
    }

    /// What became of messages before that.
    pub fn counts(&self) -> GateCounts {
        self.subscription.counts()
    }

    /// The bus.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Runs it in a thread of its own.
    ///
    /// # Errors
    /// The system's.
    pub fn spawn(mut self) -> io::Result<RunningAgent> {
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let thread = thread::Builder::new().name("paceline-int".to_owned()).spawn(move || {
            while !end.load(Ordering::Acquire) {
                if let Err(error) = self.step(FLOWS_EVERY) {
                    eprintln!("the agent of telemetry ends, its flows go on without: {error}");
                    return;
                }
            }
        })?;
        Ok(RunningAgent { ended, thread: Some(thread) })
    }
}

impl Drop for TelemetryAgent {
    /// Its flows need not find out by its silence.
    fn drop(&mut self) {
        self.flows.values().for_each(|flow| self.maps.remove(flow.cookie));
    }
}

/// An agent in a thread of its own, which ends with this.
#[derive(Debug)]
pub struct RunningAgent {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
