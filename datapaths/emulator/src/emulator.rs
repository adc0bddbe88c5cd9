//! Paths run against the clock: packets come out of one namespace, pass a [`Path`], go into another.
//!
//! One thread carries both directions of all links: what it may spin is spent once, and a tap sees everything in one order. Time is logical: a packet enters its path at its arrival stamp, inside everything
//! happens when it is due, and only handing it over can be late. Lateness therefore never adds up: a host that stalls delays
//! the packets that were due meanwhile, and none after them. The idea of logical time stamps is from Rattan (Shi et al.);
//! ours: a path never runs ahead of what has been read, so that a packet that waited in the kernel during a stall still
//! enters at the moment it came.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::frame::{self, Entry, Frame};
use crate::log::LogLost;
use crate::port::Port;
use handover::Handover;
use paceline_cc::{Codepoint, Nanos, Time};
use paceline_experiment::DumbbellWay;
use paceline_linux::clock::{Clock, Lateness, Sleeper, Wake};
use paceline_linux::thread::{Scheduling, cpu_time};
use paceline_path::{Air, Contents, Count, DelaySplit, DropReason, DroppedPacket, LinkStats, Packet, Path, Schedule};
use priority::Priority;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use turns::{Rest, Turns};

pub use changes::PathChanger;
pub use transit::HopWriter;

mod changes;
mod handover;
mod priority;
mod transit;
mod turns;

/// What an emulator is made of.
pub struct Setup {
    /// What it carries.
    pub links: Vec<DuplexLink>,
    /// Who watches.
    pub taps: Vec<Box<dyn EmulatorTap>>,
    /// The clock of the run: the paths' schedules begin at its zero.
    pub clock: Clock,
    /// A packet released later than this after it was due counts as late; [`Lateness::BOUND`] unless there is a reason.
    pub bound: Nanos,
    /// Who changes the paths meanwhile, where someone does.
    pub changer: Option<Box<dyn PathChanger>>,
}

/// Two ports and a path in each direction.
pub struct DuplexLink {
    /// The user's side.
    pub near: Box<dyn Port>,
    /// The network's side.
    pub far: Box<dyn Port>,
    /// From far to near.
    pub down: Path<Frame>,
    /// From near to far.
    pub up: Path<Frame>,
    /// What writes into packets that enter `down`, and `up`, where these are hops of in-band telemetry.
    pub transit: [Option<HopWriter>; 2],
}

/// A packet on its way, as an [`EmulatorTap`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// Which link it is on: its index in [`Setup::links`].
    pub link: usize,
    /// Which path of the link it is on.
    pub direction: DumbbellWay,
    /// Counts the packets of the path from 0. A copy made on the path has the number of its original.
    pub id: u64,
    /// The packet from its IP header on, as it is now (an AQM may have marked it). [`frame::flow_key`] gives its flow.
    pub bytes: &'a [u8],
    /// When it entered the path.
    pub entered: Time,
    /// When this happened, by logical time: entered, left or was dropped.
    pub at: Time,
    /// When it was sent, by the clock: `at` and the release error. Where a delay is at the end of the path it may be
    /// some microseconds before `at`. [`Time::NEVER`] unless it left.
    pub released: Time,
    /// Its delay so far by where it came from; zero unless it left.
    pub delay: DelaySplit,
    /// The path marked it "congestion experienced".
    pub marked: bool,
    /// Why it was dropped; `None` unless it was.
    pub reason: Option<DropReason>,
}

/// Watches packets from the emulator's thread: be quick. All methods do nothing unless overridden.
///
/// [`EmulatorReport::taps`] hands it back; as it is [`Any`], it can be turned into what it was.
pub trait EmulatorTap: Any + Send {
    /// A packet entered a path.
    fn entered(&mut self, _passage: &Passage<'_>) {}

    /// A packet came out of a path and was sent.
    fn left(&mut self, _passage: &Passage<'_>) {}

    /// A packet was dropped by a queue, or lost on the path.
    fn dropped(&mut self, _passage: &Passage<'_>) {}

    /// The emulator stopped.
    ///
    /// # Errors
    /// The log that it writes is lost; it is one of [`EmulatorReport::troubles`].
    fn finish(&mut self) -> Result<(), LogLost> {
        Ok(())
    }
}

/// What happened in one direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionReport {
    /// Entered the path.
    pub entered: Count,
    /// Came out of it.
    pub left: Count,
    /// Dropped by queues and policers, or lost on it.
    pub dropped: Count,
    /// Of these by its policer; `None` where it has none.
    pub policed: Option<Count>,
    /// Dropped by the kernel before the emulator could read them: no part of the emulated path.
    pub overflowed: u64,
    /// Refused by the kernel after the path: no part of the emulated path.
    pub refused: u64,
    /// Counters of the path's first link.
    pub link: Option<LinkStats>,
    /// What that link served by, with what has changed meanwhile.
    pub schedule: Option<Schedule>,
    /// What it did on the air; `None` where it is not a Wi-Fi link.
    pub air: Option<Air>,
}

/// What happened on one link.
#[derive(Clone, Debug, Default)]
pub struct LinkReport {
    /// From far to near.
    pub down: DirectionReport,
    /// From near to far.
    pub up: DirectionReport,
}

/// What an emulator leaves behind.
pub struct EmulatorReport {
    /// How late packets were sent.
    pub lateness: Lateness,
    /// Processor time of the emulator's thread.
    pub cpu: Nanos,
    /// From the clock's zero to the end.
    pub end: Time,
    /// How the thread was scheduled.
    pub scheduling: Scheduling,
    /// One for each of [`Setup::links`].
    pub links: Vec<LinkReport>,
    /// The taps, handed back in their order.
    pub taps: Vec<Box<dyn EmulatorTap>>,
    /// The logs that taps lost.
    pub troubles: Vec<LogLost>,
}

impl EmulatorReport {
    /// Both directions of each link.
    pub fn directions(&self) -> impl Iterator<Item = &DirectionReport> {
        self.links.iter().flat_map(|link| [&link.down, &link.up])
    }

    /// Whether the run shows the path rather than the host: hardly any packet was late, and the kernel lost none.
    pub fn trusted(&self) -> bool {
        self.lateness.trusted() && self.directions().all(|way| way.overflowed + way.refused == 0)
    }
}

/// Why an emulator could not start or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// No thread or no event descriptor.
    #[error("the emulator could not start: {0}")]
    Start(io::Error),
    /// A port failed.
    #[error("the emulator stopped at {at}: {side} port: {source}")]
    Port {
        /// When.
        at: Time,
        /// Which: near or far.
        side: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Waiting failed.
    #[error("the emulator stopped: waiting for packets: {0}")]
    Wait(io::Error),
    /// The thread panicked.
    #[error("the emulator stopped by a mistake in it; please report it")]
    Panicked,
}

/// A running emulator: links, each two paths between two ports, in one thread of its own. Dropping it stops it.
pub struct Emulator {
    thread: Option<JoinHandle<Result<EmulatorReport, EmulatorError>>>,
    stop: Arc<Stop>,
}

struct Stop {
    asked: AtomicBool,
    event: OwnedFd,
}

impl Emulator {
    /// Starts carrying packets.
    ///
    /// # Errors
    /// When there is no thread or descriptor to be had.
    pub fn start(setup: Setup) -> Result<Self, EmulatorError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| EmulatorError::Start(error.into()))?;
        let stop = Arc::new(Stop { asked: AtomicBool::new(false), event });
        let theirs = Arc::clone(&stop);
        let body = move || Runner::new(setup).run(&theirs);
        let thread = thread::Builder::new().name("emulator".to_owned()).spawn(body).map_err(EmulatorError::Start)?;
        Ok(Self { thread: Some(thread), stop })
    }

    /// Whether it still carries packets; if not, [`Emulator::stop`] says why.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops it. Packets that are on their way are gone, and count neither as having left nor as dropped.
    ///
    /// # Errors
    /// When it ended before, and why.
    pub fn stop(mut self) -> Result<EmulatorReport, EmulatorError> {
        self.end().unwrap_or(Err(EmulatorError::Panicked))
    }

    fn end(&mut self) -> Option<Result<EmulatorReport, EmulatorError>> {
        self.stop.asked.store(true, Ordering::Release);
        // Only a full counter is refused, and that wakes it as well.
        let _ = rustix::io::write(&self.stop.event, &1_u64.to_ne_bytes());
        Some(self.thread.take()?.join().unwrap_or(Err(EmulatorError::Panicked)))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

struct Runner {
    links: Vec<Carried>,
    watch: Watch,
    /// Paths share a medium, so that what enters one of them matters for the others.
    shared: bool,
    changer: Option<Box<dyn PathChanger>>,
}

/// A link that is carried.
struct Carried {
    near: Box<dyn Port>,
    far: Box<dyn Port>,
    down: Lane,
    up: Lane,
}

/// What all directions share.
struct Watch {
    clock: Clock,
    taps: Vec<Box<dyn EmulatorTap>>,
    lateness: Lateness,
}

/// One direction.
struct Lane {
    link: usize,
    direction: DumbbellWay,
    path: Path<Frame>,
    transit: Option<HopWriter>,
    /// What its next turn is for.
    wake: Wake,
    /// When this turn began.
    begin: Time,
    /// The path's logical time.
    time: Time,
    report: DirectionReport,
    /// What the last turn read and sent, and whether it read all that was there.
    read_now: usize,
    left_now: usize,
    drained: bool,
    handover: Handover,
    /// Scratch: what was read, what comes out and how it travelled.
    read: Vec<Frame>,
    out: Vec<Frame>,
    travelled: Vec<Travelled>,
}

struct Travelled {
    left: Time,
    delay: DelaySplit,
    marked: bool,
}

impl Runner {
    fn new(setup: Setup) -> Self {
        let Setup { links, taps, clock, bound, changer } = setup;
        let watch = Watch { clock, taps, lateness: Lateness::new(bound) };
        let shared = links.iter().any(|link| link.down.shares_medium() || link.up.shares_medium());
        let links = links.into_iter().enumerate().map(|(number, link)| Carried::new(number, link)).collect();
        Self { links, watch, shared, changer }
    }

    fn run(mut self, stop: &Stop) -> Result<EmulatorReport, EmulatorError> {
        let clock = self.watch.clock;
        let mut priority = Priority::new(clock.now());
        let mut sleeper = Sleeper::new(clock);
        let mut turns = Turns::new(self.least());
        let mut wake = Wake::Ready;
        while !stop.asked.load(Ordering::Acquire) {
            self.look(wake).map_err(EmulatorError::Wait)?;
            let begun = clock.now();
            let watch = &mut self.watch;
            if self.shared {
                turn_together(&mut self.links, watch)?;
            } else {
                self.links.iter_mut().try_for_each(|link| link.turn(watch))?;
            }
            if self.change(begun) {
                turns.hold_for(self.least());
            }
            let now = clock.now();
            priority.review(now);
            wake = if self.lanes().all(|lane| lane.drained) {
                let changes = self.changer.iter().map(|changer| changer.next());
                let due = self.lanes().map(Lane::due).chain(changes).min().unwrap_or(Time::NEVER);
                let (read, left) =
                    self.lanes().fold((0, 0), |(read, left), lane| (read + lane.read_now, left + lane.left_now));
                let rest = turns.rest(now, due, read, left);
                self.wait(rest, due, stop, &mut sleeper).map_err(EmulatorError::Wait)?
            } else {
                Wake::Ready
            };
        }
        Ok(self.finish(priority.scheduling()))
    }

    /// Says to each lane what it wakes up for. Of several links most have nothing to read, which one call of the kernel says
    /// of all of them; of one link it is as quick to try.
    fn look(&mut self, wake: Wake) -> io::Result<()> {
        let asked = self.watch.clock.now();
        let mut wakes = vec![[wake; 2]; self.links.len()];
        if wake == Wake::Ready && self.links.len() > 1 {
            let ports = self.links.iter().flat_map(|link| [link.far.fd(), link.near.fd()]);
            let mut fds: Vec<PollFd<'_>> = ports.map(readable).collect();
            paceline_linux::clock::wait(&mut fds, Some(Duration::ZERO))?;
            for (wake, fd) in wakes.iter_mut().flatten().zip(&fds) {
                // An error is read as well.
                *wake = if fd.revents().is_empty() { Wake::Due(asked) } else { Wake::Ready };
            }
        }
        for (link, [down, up]) in self.links.iter_mut().zip(wakes) {
            (link.down.wake, link.up.wake) = (down, up);
        }
        Ok(())
    }

    /// Changes what is to be changed by `begun`, up to which everything has been read; answers whether anything was.
    fn change(&mut self, begun: Time) -> bool {
        let Some(changer) = self.changer.as_mut().filter(|changer| changer.next() <= begun) else { return false };
        let links = &mut self.links;
        changer.change(begun, &mut |path, change| {
            let link = links.get_mut(path as usize / 2)?;
            let lane = if path % 2 == 0 { &mut link.down } else { &mut link.up };
            lane.time = lane.time.max(begun);
            lane.path.change(lane.time, change)
        });
        true
    }

    /// The least time that any packet stays.
    fn least(&self) -> Nanos {
        self.lanes().map(|lane| lane.path.least()).min().unwrap_or(Nanos::ZERO)
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.links.iter().flat_map(|link| [&link.down, &link.up])
    }

    fn wait(&self, rest: Rest, due: Time, stop: &Stop, sleeper: &mut Sleeper) -> io::Result<Wake> {
        match rest {
            Rest::Gather(until) => {
                sleeper.doze(until)?;
                Ok(Wake::Ready)
            }
            Rest::Due(due) => {
                sleeper.sleep_until(due);
                Ok(Wake::Ready)
            }
            Rest::Listen(from) => {
                sleeper.doze(from)?;
                let ports = self.links.iter().flat_map(|link| [link.near.fd(), link.far.fd()]);
                let bells = self.changer.iter().map(|changer| changer.bell());
                let mut fds: Vec<PollFd<'_>> = ports.chain([stop.event.as_fd()]).chain(bells).map(readable).collect();
                sleeper.wait(due, &mut fds)
            }
        }
    }

    fn finish(self, scheduling: Scheduling) -> EmulatorReport {
        let Watch { clock, mut taps, lateness } = self.watch;
        let end = clock.now();
        let troubles = taps.iter_mut().filter_map(|tap| tap.finish().err()).collect();
        let cpu = cpu_time();
        let links = self.links.into_iter().map(|link| link.finish(end)).collect();
        EmulatorReport { lateness, cpu, end, scheduling, links, taps, troubles }
    }
}

fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

impl Carried {
    fn new(number: usize, link: DuplexLink) -> Self {
        let DuplexLink { near, far, down, up, transit: [before_down, before_up] } = link;
        let lane = |direction, path, transit| Lane::new(number, direction, path, transit);
        Self { near, far, down: lane(DumbbellWay::Down, down, before_down), up: lane(DumbbellWay::Up, up, before_up) }
    }

    fn turn(&mut self, watch: &mut Watch) -> Result<(), EmulatorError> {
        let (near, far) = (&mut *self.near, &mut *self.far);
        self.down.turn(far, near, watch)?;
        self.up.turn(near, far, watch)
    }

    /// Reads what came to both ends; until when everything has been read.
    fn read(&mut self, clock: Clock) -> Result<Time, EmulatorError> {
        Ok(self.down.read(&mut *self.far, clock)?.min(self.up.read(&mut *self.near, clock)?))
    }

    /// Sends what is due by `complete` at both ends.
    fn deliver(&mut self, complete: Time, watch: &mut Watch) -> Result<(), EmulatorError> {
        self.down.deliver(complete, &mut *self.near, watch)?;
        self.up.deliver(complete, &mut *self.far, watch)
    }

    fn finish(self, end: Time) -> LinkReport {
        LinkReport { down: self.down.finish(&*self.far, end), up: self.up.finish(&*self.near, end) }
    }
}

/// One turn of links of which some share a medium: everything that came is read before anything enters, and enters in the order of
/// its arrival over all links, and no path runs ahead of what has been read of any.
fn turn_together(links: &mut [Carried], watch: &mut Watch) -> Result<(), EmulatorError> {
    let mut complete = Time::NEVER;
    for link in links.iter_mut() {
        complete = complete.min(link.read(watch.clock)?);
    }
    let mut lanes: Vec<&mut Lane> = links.iter_mut().flat_map(|link| [&mut link.down, &mut link.up]).collect();
    let mut came: Vec<(Time, usize, Frame)> = Vec::new();
    for (number, lane) in lanes.iter_mut().enumerate() {
        came.extend(lane.read.drain(..).map(|frame| (frame.arrived, number, frame)));
    }
    // Stable: what came to one port at one time stays in order.
    came.sort_by_key(|(arrived, number, _)| (*arrived, *number));
    for (_, number, frame) in came {
        lanes[number].enter(frame, watch);
    }
    links.iter_mut().try_for_each(|link| link.deliver(complete, watch))
}

/// Where packets come from, down and up, and where they go.
const SOURCES: [&str; 2] = ["far", "near"];
const SINKS: [&str; 2] = ["near", "far"];

impl Lane {
    fn new(link: usize, direction: DumbbellWay, path: Path<Frame>, transit: Option<HopWriter>) -> Self {
        let report = DirectionReport::default();
        let handover = Handover::new(path.foresight());
        let (read, out, travelled) = Default::default();
        Self {
            link,
            direction,
            path: path.keeping_dropped(),
            transit,
            wake: Wake::Ready,
            begin: Time::ZERO,
            time: Time::ZERO,
            report,
            read_now: 0,
            left_now: 0,
            drained: true,
            handover,
            read,
            out,
            travelled,
        }
    }

    /// When to begin to send what comes out next.
    fn due(&self) -> Time {
        match self.path.next() {
            Time::NEVER => Time::NEVER,
            due => due - self.handover.lead(due),
        }
    }

    /// Takes in what arrived, sends what is due.
    fn turn(&mut self, source: &mut dyn Port, sink: &mut dyn Port, watch: &mut Watch) -> Result<(), EmulatorError> {
        let complete = self.read(source, watch.clock)?;
        let mut read = std::mem::take(&mut self.read);
        read.drain(..).for_each(|frame| self.enter(frame, watch));
        self.read = read;
        self.deliver(complete, sink, watch)
    }

    /// Reads what came, and answers until when that is everything: the path may run up to there.
    fn read(&mut self, source: &mut dyn Port, clock: Clock) -> Result<Time, EmulatorError> {
        (self.read_now, self.drained) = (0, true);
        match self.wake {
            Wake::Due(now) => {
                self.begin = now;
                Ok(now)
            }
            Wake::Ready => {
                self.begin = clock.now();
                self.drained =
                    source.read(clock, &mut self.read).map_err(|error| self.failed(clock, SOURCES, error))?;
                self.read_now = self.read.len();
                Ok(if self.drained { self.begin } else { Time::ZERO })
            }
        }
    }

    /// Sends what is due by `complete`.
    fn deliver(&mut self, complete: Time, sink: &mut dyn Port, watch: &mut Watch) -> Result<(), EmulatorError> {
        self.time = self.time.max(complete);
        let due = self.path.next();
        let lead = self.handover.lead(due);
        while let Some(packet) = self.path.pop_ahead(self.time, lead) {
            self.leave(packet);
        }
        self.left_now = self.out.len();
        if !self.out.is_empty() {
            let refused = sink.write(&self.out).map_err(|error| self.failed(watch.clock, SINKS, error))?;
            self.report.refused += refused;
            let now = watch.clock.now();
            if self.left_now == 1 {
                self.handover.took(due, now - self.begin);
            }
            self.handover.done(now);
            self.released(now, watch);
        }
        self.note_dropped(watch);
        Ok(())
    }

    /// The port at one end of this lane failed; `sides` are its names, down and up.
    fn failed(&self, clock: Clock, sides: [&'static str; 2], source: io::Error) -> EmulatorError {
        EmulatorError::Port { at: clock.now(), side: sides[self.direction as usize], source }
    }

    fn enter(&mut self, mut frame: Frame, watch: &mut Watch) {
        self.time = self.time.max(frame.arrived);
        let flow = self.flow(&mut frame);
        let (ecn, size) = (frame.ecn(), frame.len() as u32);
        frame.entry = Entry { id: self.report.entered.packets, entered: self.time, ecn };
        self.report.entered.add(size);
        if !watch.taps.is_empty() {
            let bytes = frame.bytes();
            let passage = Passage::new((self.link, self.direction), &bytes, frame.entry, self.time);
            watch.taps.iter_mut().for_each(|tap| tap.entered(&passage));
        }
        self.path.push(self.time, Packet::new(flow, size, ecn, frame));
    }

    /// The number of the packet's flow on the path, where anything asks for it.
    fn flow(&mut self, frame: &mut Frame) -> u32 {
        if let Some(transit) = &mut self.transit {
            return transit.pass(self.time, frame, &mut self.path);
        }
        if self.path.tells_flows_apart() { frame::flow_number(&frame.bytes()) } else { 0 }
    }

    fn leave(&mut self, packet: Packet<Frame>) {
        let Contents { size, ecn, entered, delay, .. } = *packet;
        let mut frame = packet.into_body();
        let marked = ecn == Codepoint::Ce && ecn != frame.entry.ecn;
        frame.set_ecn(ecn);
        self.report.left.add(size);
        self.travelled.push(Travelled { left: entered, delay, marked });
        self.out.push(frame);
    }

    fn released(&mut self, now: Time, watch: &mut Watch) {
        for (frame, travelled) in self.out.drain(..).zip(self.travelled.drain(..)) {
            watch.lateness.record(travelled.left, now);
            if !watch.taps.is_empty() {
                let bytes = frame.bytes();
                let passage = Passage {
                    released: now,
                    delay: travelled.delay,
                    marked: travelled.marked,
                    ..Passage::new((self.link, self.direction), &bytes, frame.entry, travelled.left)
                };
                watch.taps.iter_mut().for_each(|tap| tap.left(&passage));
            }
        }
    }

    fn note_dropped(&mut self, watch: &mut Watch) {
        while let Some(DroppedPacket { at, packet, reason, .. }) = self.path.pop_dropped() {
            self.report.dropped.add(packet.size);
            if watch.taps.is_empty() {
                continue;
            }
            let bytes = packet.body.bytes();
            let passage = Passage {
                reason: Some(reason),
                ..Passage::new((self.link, self.direction), &bytes, packet.body.entry, at)
            };
            watch.taps.iter_mut().for_each(|tap| tap.dropped(&passage));
        }
    }

    fn finish(mut self, source: &dyn Port, end: Time) -> DirectionReport {
        self.report.overflowed = source.overflowed();
        self.report.link = self.path.stats(end.max(self.time)).cloned();
        self.report.schedule = self.path.schedule().cloned();
        self.report.air = self.path.air();
        self.report.policed = self.path.policed();
        self.report
    }
}

impl<'a> Passage<'a> {
    fn new((link, direction): (usize, DumbbellWay), bytes: &'a [u8], entry: Entry, at: Time) -> Self {
        let Entry { id, entered, .. } = entry;
        let (released, delay, marked, reason) = (Time::NEVER, DelaySplit::default(), false, None);
        Self { link, direction, id, bytes, entered, at, released, delay, marked, reason }
    }

    /// Its ECN field as it is now.
    pub fn ecn(&self) -> Codepoint {
        frame::ecn(self.bytes)
    }
}
