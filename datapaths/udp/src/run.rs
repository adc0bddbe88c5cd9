//! Endpoints of `paceline_transport` against the clock: one thread each, asleep unless something is due.
//!
//! A sender whose controller paces by gaps ([`Pacing::Gap`], chirps) is exact: it sleeps until shortly before the instant and
//! spins for the rest ([`Sleeper`]); one datagram per call, no segmentation offload. A packet that is late all the same shifts those
//! behind it, since a gap counts from when the packet before has left. Anything else wakes up at most once in
//! [`SenderTiming::batch`] and sends what is due in as few calls as may be.
//!
//! An acknowledgement counts from when the kernel received it, so a late wake-up adds nothing to an RTT; time never goes
//! backwards for the endpoint, so one that the kernel received before the endpoint's last instant counts from that. A packet counts
//! from the clock's reading before the call in which it leaves, so that an RTT is above 0.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use paceline_cc::{Distribution, Nanos, Pacing, Time};
use paceline_telemetry::ReportInbox;
use paceline_transport::{AckSegment, Receiver, Sender};
use rustix::event::{PollFd, PollFlags};

use paceline_linux::clock::{Clock, Lateness, Sleeper};
use paceline_linux::thread::cpu_time;

use super::channel::{Channel, Incoming};
use super::outcome::{EndReason, ReceiverOutcome, SenderOutcome, Trouble};
use super::wire::control::Close;

/// A packet paced by gaps that leaves later than this is counted as late. 50 µs: more than timers of an idle Linux host
/// come late in 99 of 100 cases.
pub const LATE: Nanos = Nanos::from_micros(50);

/// When a sender's timers ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderTiming {
    /// Least time between two wake-ups, so that what is due within it leaves together; never more than an eighth of the
    /// RTT. Zero: each packet has a wake-up of its own. It holds for nothing that is paced by gaps.
    pub batch: Nanos,
    /// Give up when a peer that owes an answer has been silent for this long.
    pub patience: Nanos,
}

impl SenderTiming {
    /// As exact as the host can do, for races: no batch, and no end but the deadline.
    pub const EXACT: Self = Self { batch: Nanos::ZERO, patience: Nanos::MAX };
}

/// What a sender sends.
pub trait ContentSource: Send {
    /// When [`ContentSource::act`] wants to be called.
    fn next(&self) -> Time {
        Time::NEVER
    }

    /// The time of [`ContentSource::next`] has come: writes to the sender, or cuts it.
    fn act(&mut self, _now: Time, _sender: &mut dyn Sender) {}

    /// Writes the bytes from position `seq` on into `payload`, which is zeros.
    ///
    /// # Errors
    /// What the system says when they cannot be had; it ends the run.
    fn fill(&mut self, seq: u64, payload: &mut [u8]) -> io::Result<()>;
}

/// Zeros.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zeros;

impl ContentSource for Zeros {
    fn fill(&mut self, _seq: u64, _payload: &mut [u8]) -> io::Result<()> {
        Ok(())
    }
}

/// What takes in what a receiver receives.
pub trait ContentSink: Send {
    /// Bytes from position `seq` on arrived; perhaps again, perhaps before those in front of them.
    ///
    /// # Errors
    /// What the system says when they cannot be kept; it ends the run.
    fn take(&mut self, seq: u64, payload: &[u8]) -> io::Result<()>;
}

/// Drops everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl ContentSink for Discard {
    fn take(&mut self, _seq: u64, _payload: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Watches a sender while it runs.
pub struct SenderWatch<'a> {
    /// How often.
    pub every: Nanos,
    /// Called then; instants are multiples of `every`, counted from the clock's zero.
    pub sample: &'a mut dyn FnMut(Time, &dyn Sender),
}

/// Watches a receiver while it runs.
pub struct Look<'a> {
    /// How often.
    pub every: Nanos,
    /// Called then with the payload bytes ready for the application; instants as in [`SenderWatch`].
    pub sample: &'a mut dyn FnMut(Time, u64),
}

/// A sender and its channel.
pub struct SendingEnd {
    channel: Channel,
    clock: Clock,
    sender: Box<dyn Sender>,
    source: Box<dyn ContentSource>,
    timing: SenderTiming,
    /// Reports of the path's hops.
    reports: Option<ReportInbox>,
    /// The endpoint's last instant.
    now: Time,
    /// When the peer last said something, or the first run began.
    heard_at: Option<Time>,
    rtt: Distribution,
    late: Lateness,
    cpu: Nanos,
}

impl SendingEnd {
    /// `sender` sends what `source` gives through `channel`. What is to be written before the first [`ContentSource::act`], the
    /// caller writes.
    pub fn new(
        channel: Channel,
        clock: Clock,
        sender: Box<dyn Sender>,
        source: Box<dyn ContentSource>,
        timing: SenderTiming,
    ) -> Self {
        Self {
            channel,
            clock,
            sender,
            source,
            timing,
            reports: None,
            now: Time::ZERO,
            heard_at: None,
            rtt: Distribution::new(3),
            late: Lateness::new(LATE),
            cpu: Nanos::ZERO,
        }
    }

    /// The same, informed of what the path's hops report: at the first turn of the loop after a report has come, which is an
    /// acknowledgement's, a packet's or a timer's.
    #[must_use]
    pub fn informed(self, reports: Option<ReportInbox>) -> Self {
        Self { reports, ..self }
    }

    /// Runs until `until`, until everything has been delivered, or until the peer closes.
    ///
    /// # Errors
    /// [`Trouble`] when it cannot go on.
    pub fn run(&mut self, until: Time, mut watch: Option<SenderWatch<'_>>) -> Result<EndReason, Trouble> {
        let cpu = cpu_time();
        let end = self.drive(until, watch.as_mut());
        self.cpu += cpu_time() - cpu;
        end
    }

    fn drive(&mut self, until: Time, mut watch: Option<&mut SenderWatch<'_>>) -> Result<EndReason, Trouble> {
        let mut sleeper = Sleeper::new(self.clock);
        self.now = self.clock.now().max(self.now);
        let mut heard_at = *self.heard_at.get_or_insert(self.now);
        let mut sample_at = watch.as_ref().map_or(Time::NEVER, |watch| after(self.now, watch.every));
        loop {
            let now = self.clock.now().max(self.now);
            self.now = now;
            if let Some(watch) = watch.as_mut().filter(|_| sample_at <= now) {
                (watch.sample)(sample_at, self.sender.as_ref());
                sample_at += watch.every;
                continue;
            }
            if now >= until {
                return Ok(EndReason::Deadline);
            }
            if self.source.next() <= now {
                self.source.act(now, self.sender.as_mut());
            }
            if let Some(reports) = &mut self.reports {
                let srtt = self.sender.srtt().unwrap_or(Nanos::ZERO);
                reports.take_in(now, srtt, |telemetry| self.sender.on_telemetry(telemetry));
            }
            let due = self.sender.next_timeout();
            if due <= now {
                self.sender.on_timeout(now);
            }
            self.pump(due)?;
            if self.sender.is_idle() && self.source.next() == Time::NEVER {
                return Ok(EndReason::Idle);
            }
            let owed = if !self.sender.is_idle() { heard_at + self.timing.patience } else { Time::NEVER };
            if owed <= now {
                let (peer, seconds) = (self.channel.peer(), now.since(heard_at).as_secs_f64());
                return Err(Trouble::Silent { peer, seconds });
            }
            let timer = self.sender.next_timeout();
            let wake = timer.min(self.source.next()).min(until).min(sample_at).min(owed);
            self.sleep(&mut sleeper, timer, wake)?;
            if let Some(close) = self.receive(&mut heard_at)? {
                return Ok(EndReason::Closed(close));
            }
            self.heard_at = Some(heard_at);
        }
    }

    /// Sends what may leave; `due` is when the next packet was to.
    fn pump(&mut self, mut due: Time) -> Result<(), Trouble> {
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            let (source, mut filled) = (&mut self.source, Ok(()));
            self.channel.push_data(&segment, |payload| filled = source.fill(segment.seq, payload))?;
            filled.map_err(Trouble::Content)?;
            if self.is_exact() {
                self.channel.flush();
                if due <= self.now {
                    self.late.record(due, self.now);
                }
                // The next one is not late because this one took time.
                self.now = self.clock.now().max(self.now);
                due = self.sender.next_timeout();
            } else if self.channel.is_full() {
                // Packets of one call leave together, those of the next one later.
                self.channel.flush();
                self.now = self.clock.now().max(self.now);
            }
        }
        self.channel.flush();
        Ok(())
    }

    fn is_exact(&self) -> bool {
        matches!(self.sender.controller().pacing(), Pacing::Gap(_))
    }

    /// Takes in acknowledgements until `wake`, or until one has come; `timer` is the sender's own.
    fn sleep(&mut self, sleeper: &mut Sleeper, timer: Time, wake: Time) -> Result<(), Trouble> {
        if self.is_exact() && timer == wake {
            sleeper.wait(wake, &mut [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN)])?;
            return Ok(());
        }
        let batch = self.sender.srtt().map_or(Nanos::ZERO, |srtt| srtt.mul_div(1, 8)).min(self.timing.batch);
        let rest = self.now + batch;
        if batch > Nanos::ZERO && wake > self.now {
            // What arrives meanwhile is taken in together.
            let left = rest.min(wake).since(self.clock.now());
            std::thread::sleep(Duration::from_nanos(left.as_nanos()));
        }
        if wake > rest {
            self.channel.wait(self.clock, wake)?;
        }
        Ok(())
    }

    fn receive(&mut self, heard_at: &mut Time) -> Result<Option<Close>, Trouble> {
        let Self { channel, clock, sender, now, rtt, .. } = self;
        let mut closed = None;
        let got = channel.receive(*clock, |at, incoming| {
            *now = at.max(*now);
            match incoming {
                Incoming::Ack(ack) => {
                    *now = came(*now, ack.echo_sent_at, || clock.now());
                    *heard_at = *now;
                    if let Some(sample) = sender.on_ack(*now, &ack) {
                        rtt.record(sample);
                    }
                }
                Incoming::Close(close) => closed = Some(close),
                Incoming::Data(..) => {}
            }
        });
        heard(got, self.timing.patience, self.channel.peer())?;
        Ok(closed)
    }

    /// The sender, for a look.
    pub fn sender(&self) -> &dyn Sender {
        self.sender.as_ref()
    }

    /// What it leaves behind, and its channel, which the end of a session still needs.
    pub fn finish(self) -> (SenderOutcome, Channel) {
        let outcome = SenderOutcome {
            stats: self.sender.stats(),
            rtt: self.rtt,
            late: self.late,
            cpu: self.cpu,
            strays: self.channel.strays(),
            lost_in_sending: self.channel.lost_in_sending(),
            remembered: self.sender.controller().remember(self.clock.now()),
        };
        (outcome, self.channel)
    }
}

/// A receiver and its channel.
pub struct ReceivingEnd {
    channel: Channel,
    clock: Clock,
    receiver: Box<dyn Receiver>,
    sink: Box<dyn ContentSink>,
    patience: Nanos,
    now: Time,
    acks: Vec<AckSegment>,
    outcome: ReceiverOutcome,
}

impl ReceivingEnd {
    /// `receiver` acknowledges what arrives through `channel`, and `sink` takes it. It gives up after a silence of
    /// `patience`.
    pub fn new(
        channel: Channel,
        clock: Clock,
        receiver: Box<dyn Receiver>,
        sink: Box<dyn ContentSink>,
        patience: Nanos,
    ) -> Self {
        Self {
            channel,
            clock,
            receiver,
            sink,
            patience,
            now: Time::ZERO,
            acks: Vec::new(),
            outcome: ReceiverOutcome::default(),
        }
    }

    /// Runs until `until`, or until the peer closes.
    ///
    /// # Errors
    /// [`Trouble`] when it cannot go on.
    pub fn run(&mut self, until: Time, mut look: Option<Look<'_>>) -> Result<EndReason, Trouble> {
        let cpu = cpu_time();
        let end = self.drive(until, look.as_mut());
        self.outcome.cpu += cpu_time() - cpu;
        end
    }

    fn drive(&mut self, until: Time, mut look: Option<&mut Look<'_>>) -> Result<EndReason, Trouble> {
        self.now = self.clock.now().max(self.now);
        let mut heard_at = self.now;
        let mut sample_at = look.as_ref().map_or(Time::NEVER, |look| after(self.now, look.every));
        loop {
            let now = self.clock.now().max(self.now);
            self.now = now;
            if let Some(look) = look.as_mut().filter(|_| sample_at <= now) {
                (look.sample)(sample_at, self.receiver.bytes_ready());
                sample_at += look.every;
                continue;
            }
            if now >= until {
                return Ok(EndReason::Deadline);
            }
            let silent_at = heard_at + self.patience;
            if silent_at <= now {
                let (peer, seconds) = (self.channel.peer(), now.since(heard_at).as_secs_f64());
                return Err(Trouble::Silent { peer, seconds });
            }
            while let Some(ack) = self.receiver.poll_ack(now) {
                self.acks.push(ack);
            }
            for ack in self.acks.drain(..) {
                self.channel.push_ack(&ack)?;
            }
            self.channel.flush();
            let wake = self.receiver.next_timeout().min(until).min(silent_at).min(sample_at);
            self.channel.wait(self.clock, wake)?;
            if let Some(close) = self.receive(&mut heard_at)? {
                return Ok(EndReason::Closed(close));
            }
        }
    }

    fn receive(&mut self, heard_at: &mut Time) -> Result<Option<Close>, Trouble> {
        let Self { channel, clock, receiver, sink, now, acks, outcome, .. } = self;
        let mut closed = None;
        let mut taken = Ok(());
        let got = channel.receive(*clock, |at, incoming| {
            *now = at.max(*now);
            match incoming {
                Incoming::Data(segment, payload, ce) => {
                    *heard_at = *now;
                    outcome.packets += 1;
                    outcome.bytes += payload.len() as u64;
                    outcome.ce_packets += u64::from(ce);
                    if taken.is_ok() {
                        taken = sink.take(segment.seq, payload);
                    }
                    receiver.on_segment(*now, &segment, ce);
                    while let Some(ack) = receiver.poll_ack(*now) {
                        acks.push(ack);
                    }
                }
                Incoming::Close(close) => closed = Some(close),
                Incoming::Ack(_) => {}
            }
        });
        taken.map_err(Trouble::Content)?;
        heard(got, self.patience, self.channel.peer())?;
        Ok(closed)
    }

    /// What it leaves behind, and its channel and sink, which the end of a session still needs.
    pub fn finish(self) -> (ReceiverOutcome, Channel, Box<dyn ContentSink>) {
        let (bytes_ready, strays) = (self.receiver.bytes_ready(), self.channel.strays());
        let outcome = ReceiverOutcome { bytes_ready, strays, ..self.outcome };
        (outcome, self.channel, self.sink)
    }
}

/// A host that says that no program listens ends a run that has any end but its deadline.
fn heard(got: io::Result<usize>, patience: Nanos, peer: SocketAddr) -> Result<(), Trouble> {
    match got.map_err(|error| Trouble::hearing(peer, error)) {
        Err(Trouble::Refused { .. }) if patience == Nanos::MAX => Ok(()),
        result => result.map(drop),
    }
}

/// When an acknowledgement came that the kernel received at `at`. No answer comes before its packet has left: then the wall clock was
/// set, by which the kernel stamps, and the time now is nearer.
fn came(at: Time, left: Time, now: impl FnOnce() -> Time) -> Time {
    if at > left { at } else { now().max(at) }
}

/// The first multiple of `step` after `now`.
fn after(now: Time, step: Nanos) -> Time {
    if step == Nanos::ZERO {
        return Time::NEVER;
    }
    Time::from_nanos((now.as_nanos() / step.as_nanos() + 1).saturating_mul(step.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_comes_before_its_packet_has_left() {
        let (early, left, late) = (Time::from_millis(7), Time::from_millis(9), Time::from_millis(10));
        for (at, expected) in [(late, late), (left, late), (early, late)] {
            assert_eq!(came(at, left, || late), expected, "{at:?}");
        }
        // A stamp of the peer's own making moves nothing but to now.
        assert_eq!(came(early, Time::NEVER, || late), late);
    }
}
