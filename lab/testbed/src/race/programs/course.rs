//! The course of a flow of a program, from its start to the end of both sides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paceline_cc::{Distribution, Nanos, Time};
use paceline_emulator::command::tree::{ProcessTree, TreeEnd, TreeSetting};
use paceline_emulator::world::Site;
use paceline_experiment::program::{ProgramEnd, ProgramOutcome, Side, StopSignal};
use paceline_linux::clock::{Clock, Sleeper, span};
use paceline_linux::namespace::NamespaceError;
use paceline_transport::SenderStats;
use rustix::process::Signal;

use super::failure::{Ending, LastLines, ProgramFailure};
use super::{KILLED, Staged, leavings};
use crate::race::{Ended, FlowError};

/// How often both sides, and whether the run has failed elsewhere, are looked after (our choice).
const ROUND: Nanos = Nanos::from_millis(20);
/// How long the end of one side by itself waits for that of the other (our choice: more than a round trip of most paths).
const MOMENT: Duration = Duration::from_millis(200);
/// A bulk flow may end this much before its time, or this share of it (our choice: a program's own clock starts late).
const EARLY: Nanos = Nanos::from_secs(1);
const EARLY_SHARE: u64 = 20;

/// A side that was started.
pub(super) struct Half {
    pub(super) side: Side,
    pub(super) tree: ProcessTree,
    pub(super) begun: Instant,
    /// How it ended, and when.
    ended: Option<(TreeEnd, Time)>,
    /// It was asked to end.
    asked: bool,
}

impl Half {
    pub(super) fn start(side: Side, setting: TreeSetting, site: &Site) -> Result<Self, NamespaceError> {
        let tree = ProcessTree::start(setting, &site.namespace)?;
        Ok(Self { side, tree, begun: Instant::now(), ended: None, asked: false })
    }

    /// Ends it; the last that it said.
    pub(super) fn kill(&mut self) -> LastLines {
        self.asked = true;
        self.tree.signal(Signal::KILL);
        LastLines(self.tree.wait(KILLED).map(|end| end.last_lines.clone()).unwrap_or_default())
    }

    /// Waits for its end, at most this long.
    fn ends_within(&mut self, longest: Duration, clock: Clock) {
        if self.ended.is_none() {
            self.ended = self.tree.wait(longest).map(|end| (end.clone(), clock.of_monotonic(end.at)));
        }
    }

    /// Waits for its end until then; whether it has ended.
    fn ends_until(&mut self, until: Time, clock: Clock, abort: &AtomicBool) -> bool {
        while self.ended.is_none() && clock.now() < until && !abort.load(Ordering::Relaxed) {
            self.ends_within(span((until - clock.now()).min(ROUND)), clock);
        }
        self.ended.is_some()
    }

    /// Asks it to end, and makes it after a while.
    fn stop(&mut self, signal: Signal, grace: Nanos, clock: Clock, abort: &AtomicBool) {
        if self.ended.is_some() {
            return;
        }
        self.asked = true;
        if !abort.load(Ordering::Relaxed) {
            self.tree.signal(signal);
        }
        if !self.ends_until(clock.now() + grace, clock, abort) {
            self.tree.signal(Signal::KILL);
            self.ends_within(KILLED, clock);
        }
    }

    fn outcome(&self) -> ProgramEnd {
        let Some((end, ended)) = &self.ended else { return ProgramEnd::default() };
        ProgramEnd { status: end.status, signal: end.signal, ended: *ended, cpu: end.cpu, cut: end.cut }
    }
}

/// Nothing of it is left running, however its flow came to an end.
impl Drop for Half {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A flow that is about to start. [`Course::run`] in a thread of its own.
pub(super) struct Course {
    pub(super) index: usize,
    pub(super) staged: Arc<Staged>,
    pub(super) server: Half,
    /// The other side, once the flow has started.
    pub(super) active: Option<Half>,
    pub(super) clock: Clock,
    pub(super) start: Time,
    pub(super) stop: Time,
    pub(super) abort: Arc<AtomicBool>,
}

impl Course {
    /// Runs the flow to its end.
    ///
    /// # Errors
    /// When a side ends by itself as it must not. Nothing of the flow is left running.
    pub(super) fn run(mut self) -> Result<Ended, FlowError> {
        let program = self.staged.program.clone();
        let (clock, abort, stop) = (self.clock, self.abort.clone(), self.stop);
        let aborted = || abort.load(Ordering::Relaxed);
        clock.wait_for_zero();
        let mut sleeper = Sleeper::new(clock);
        while sleeper.sleep_until(self.start.min(clock.now() + ROUND)) < self.start && !aborted() {
            self.server.ends_within(Duration::ZERO, clock);
            self.judge()?;
        }
        let started = clock.now();
        let side = if program.server == Side::Sender { Side::Receiver } else { Side::Sender };
        self.active = Some(self.staged.begin(side)?);
        while clock.now() < stop && !aborted() {
            let rest = span((stop - clock.now()).min(ROUND));
            match self.halves_mut().find(|half| half.ended.is_none()) {
                Some(half) => half.ends_within(rest, clock),
                None => std::thread::sleep(rest),
            }
            self.halves_mut().for_each(|half| half.ends_within(Duration::ZERO, clock));
            self.judge()?;
        }
        if let Some(active) = &mut self.active {
            active.ends_until(stop + program.linger, clock, &abort);
        }
        self.judge()?;
        // Where one side has ended by itself the other is about to, and writes what it counted.
        if self.active.as_ref().is_some_and(|active| active.ended.is_some()) {
            self.server.ends_within(MOMENT, clock);
        }
        let signal = signal(program.stop);
        self.halves_mut().for_each(|half| half.stop(signal, program.grace, clock, &abort));
        Ok(self.ended(started))
    }

    /// The side that starts with the flow, then the server.
    fn halves_mut(&mut self) -> impl Iterator<Item = &mut Half> {
        self.active.iter_mut().chain([&mut self.server])
    }

    /// Fails with the side that failed first.
    fn judge(&mut self) -> Result<(), FlowError> {
        let fails = |this: &Self| this.active.iter().chain([&this.server]).any(|half| this.failure(half).is_some());
        if !fails(self) {
            return Ok(());
        }
        let clock = self.clock;
        // Where one side fails the other has often failed before, and is yet to be heard of.
        self.halves_mut().for_each(|half| half.ends_within(MOMENT, clock));
        let halves = self.active.iter().chain([&self.server]);
        let failed = halves.filter_map(|half| Some((half.ended.as_ref()?.1, self.failure(half)?)));
        failed.min_by_key(|(at, _)| *at).map_or(Ok(()), |(_, failure)| Err(self.staged.failed(failure)))
    }

    /// Why a side that has ended by itself must not have.
    fn failure(&self, half: &Half) -> Option<ProgramFailure> {
        let (end, at) = half.ended.as_ref()?;
        let program = &self.staged.program;
        let accepted = end.status.is_some_and(|status| program.exit.contains(&status));
        // A server may see that there is nothing more to do, and what has an end may reach it.
        let may_end = program.early || self.staged.surroundings.bytes.is_some() || half.side == program.server;
        let length = self.stop.since(self.start);
        let earliest = self.stop - EARLY.max(length.mul_div(1, EARLY_SHARE));
        if half.asked || accepted && (may_end || *at >= earliest) {
            return None;
        }
        Some(ProgramFailure::Ended {
            side: half.side,
            how: Ending::of(end),
            at: at.since(self.start),
            of: length,
            last: LastLines(end.last_lines.clone()),
        })
    }

    fn ended(&self, started: Time) -> Ended {
        let (program, folder) = (&self.staged.program, &self.staged.surroundings.folder);
        let outcome = |side: Side| {
            let half = self.active.iter().chain([&self.server]).find(|half| half.side == side);
            half.map(Half::outcome).unwrap_or_default()
        };
        let [sender, receiver] = [Side::Sender, Side::Receiver].map(outcome);
        let end = self.active.as_ref().map_or(self.start, |active| active.outcome().ended);
        let outcome = ProgramOutcome {
            version: self.staged.surroundings.version.clone(),
            addresses: self.staged.addresses(),
            start: started,
            sender,
            receiver,
            figures: leavings::figures(&program.figures, folder),
            qlog: leavings::qlogs(folder),
            ..ProgramOutcome::default()
        };
        Ended {
            index: self.index,
            // What the sender did is not seen from outside.
            stats: vec![SenderStats::default()],
            rtt: Distribution::new(3),
            bytes_ready: 0,
            completions: Vec::new(),
            end: end.max(self.start).min(self.stop),
            cpu: sender.cpu + receiver.cpu,
            frames: Vec::new(),
            program: Some(outcome),
        }
    }
}

fn signal(stop: StopSignal) -> Signal {
    match stop {
        StopSignal::Hup => Signal::HUP,
        StopSignal::Int => Signal::INT,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::Usr1 => Signal::USR1,
        StopSignal::Usr2 => Signal::USR2,
        StopSignal::Term => Signal::TERM,
        StopSignal::Kill => Signal::KILL,
    }
}
