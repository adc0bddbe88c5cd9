//! A flow's side of telemetry: the source that puts a header on its packets, the sink at its receiver, reports on their way back,
//! and what its sender believes of them.

use std::collections::VecDeque;

use paceline_cc::{Nanos, Time};
use paceline_experiment::{FlowTelemetry, Seed, TelemetryOutcome, Truth};
use paceline_path::DropReason;
use paceline_telemetry::wire::WIDE_NAMESPACE;
use paceline_telemetry::{Edge, FlowReport, FlowSink, ReportReader, SinkConfig, TelemetryHeader, Trail};
use paceline_transport::{Segment, Sender};
use rand::RngExt;
use rand_pcg::Pcg64;

use crate::timers::Armed;

/// Hop limit of a packet that leaves its host (Linux include/net/ipv6.h, `IPV6_DEFAULT_HOPLIMIT`).
const HOP_LIMIT: u8 = 64;
/// Without a report for so long after a header a source stops, if so many have left since (our choice: the path drops headers, or
/// there is no sink; ten are not all lost on a radio, while a flow waits for its timeouts) ...
const GIVES_UP_AFTER: (Nanos, u32) = (Nanos::from_secs(1), 10);
/// ... and asks again with one header so long after that, twice as long each next time: where reports have come before, who sends them may
/// only have stopped for a moment; and where none has come ever (our choices, as of the source in the kernel).
const ASKS_AGAIN_AFTER: (Nanos, Nanos) = (Nanos::from_secs(1), Nanos::from_secs(30));
/// The time becomes twice as long so often.
const DOUBLINGS: u32 = 4;
/// Nodes report their queues so often (our choice: their limits hardly change).
const NODES_EVERY: Nanos = Nanos::from_millis(100);

/// A packet of data with telemetry.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    pub(crate) segment: Segment,
    /// Its header as on the wire; hops write into it.
    pub(crate) header: Vec<u8>,
    /// Number of the packet among those of its flow that carry telemetry.
    pub(crate) number: u32,
    pub(crate) hop_limit: u8,
}

/// A source that has given up.
#[derive(Clone, Copy, Debug)]
struct Pause {
    /// When it asks again.
    until: Time,
    /// How often it has asked, and when it did last.
    asked: u32,
    asked_at: Time,
}

impl Pause {
    /// A report that comes now answers what was asked; one that is later would have been refused.
    fn is_answered(&self, now: Time) -> bool {
        self.asked > 0 && now.since(self.asked_at) <= GIVES_UP_AFTER.0
    }
}

/// Telemetry of a flow that is alive.
pub(crate) struct Carried {
    config: FlowTelemetry,
    /// How long a report takes to the sender.
    delay: Nanos,
    /// Hops of its data.
    pub(crate) route: Vec<u32>,
    /// Number of the next header.
    next: u32,
    /// When the first header left without a report since, and how many have.
    unanswered: Option<(Time, u32)>,
    pause: Option<Pause>,
    answered: bool,
    sink: FlowSink,
    pub(crate) sink_timer: Armed,
    nodes_due: Time,
    /// Reports on their way, with the time at which each arrives.
    on_way: VecDeque<(Time, FlowReport)>,
    losses: Pcg64,
    reader: ReportReader,
    /// What the path has dropped, until the sink has named it.
    truth: Truth,
    outcome: TelemetryOutcome,
}

impl Carried {
    /// Of the flow with this number, whose data takes `route`; a report takes `back` where nothing else is said.
    pub(crate) fn new(
        config: &FlowTelemetry,
        seed: Seed,
        number: u32,
        route: Vec<u32>,
        back: Nanos,
        now: Time,
    ) -> Self {
        let sink = SinkConfig { flow: number, synced: true, ..SinkConfig::default() };
        Self {
            delay: config.delay.unwrap_or(back) + config.faults.late,
            config: config.clone(),
            route,
            next: 0,
            unanswered: None,
            pause: None,
            answered: false,
            sink: FlowSink::new(sink, now).every(config.interval),
            sink_timer: Armed::default(),
            nodes_due: now,
            on_way: VecDeque::new(),
            losses: seed.stream(&format!("reports {number}")),
            reader: ReportReader::new(),
            truth: Truth::default(),
            outcome: TelemetryOutcome::default(),
        }
    }

    /// A packet leaves: with a header, unless it has no data (a handshake, as at the source in the kernel) or the source has given up
    /// for now.
    pub(crate) fn leave(&mut self, now: Time, segment: &Segment, sender: &dyn Sender, mss: u32) -> Option<Box<Traced>> {
        if segment.bytes == 0 || !self.may_insert(now) {
            return None;
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let edge = Edge {
            segs: 1,
            seq: number,
            sent_us: (now.as_nanos() / 1_000) as u32,
            cwnd: u32::try_from(sender.window() / u64::from(mss)).ok(),
            ..Edge::default()
        };
        let trace = self.config.trace;
        let namespace = WIDE_NAMESPACE;
        let header = TelemetryHeader { namespace, ..TelemetryHeader::new(trace.profile, trace.hops, edge) }.encode();
        Some(Box::new(Traced { segment: *segment, header, number, hop_limit: HOP_LIMIT }))
    }

    /// Whether a packet may have a header, as reports come or do not.
    fn may_insert(&mut self, now: Time) -> bool {
        let again = if self.answered { ASKS_AGAIN_AFTER.0 } else { ASKS_AGAIN_AFTER.1 };
        if let Some(pause) = &mut self.pause {
            if now < pause.until {
                return false;
            }
            (pause.asked, pause.asked_at) = (pause.asked + 1, now);
            pause.until = now + again.mul_div(1 << pause.asked.min(DOUBLINGS), 1);
            return true;
        }
        let (since, headers) = self.unanswered.get_or_insert((now, 0));
        if now.since(*since) > GIVES_UP_AFTER.0 && *headers >= GIVES_UP_AFTER.1 {
            self.pause = Some(Pause { until: now + again, asked: 0, asked_at: now });
            return false;
        }
        *headers += 1;
        true
    }

    /// The path dropped a packet.
    pub(crate) fn dropped(&mut self, traced: &Traced, reason: DropReason) {
        self.truth.dropped(traced.number, reason);
    }

    /// Whether the nodes' own reports are due.
    pub(crate) fn nodes_due(&mut self, now: Time) -> bool {
        let due = self.nodes_due <= now;
        if due {
            self.nodes_due = now + NODES_EVERY;
        }
        due
    }

    pub(crate) fn sink(&mut self) -> &mut FlowSink {
        &mut self.sink
    }

    /// A packet reaches the receiver, at the end of this trail.
    pub(crate) fn arrived(&mut self, now: Time, traced: &Traced, trail: &mut Trail) {
        if let Ok((header, _)) = TelemetryHeader::decode(&traced.header) {
            self.sink.header(now, &header, 1, trail);
        }
    }

    /// The sink makes the reports that are due. Answers when the first of those on their way arrives, if none was before.
    pub(crate) fn report(&mut self, now: Time) -> Option<Time> {
        let none = self.on_way.is_empty();
        while let Some(mut report) = self.sink.poll(now) {
            self.sink.judged().iter().for_each(|judged| self.truth.judged(judged));
            if let Some(cause) = self.config.faults.forge {
                report.verdict = cause;
            }
            let lost = self.losses.random::<f64>() < self.config.faults.drop;
            if !lost && self.config.faults.passes(now) {
                self.on_way.push_back((now + self.delay, report));
            }
        }
        self.on_way.front().filter(|_| none).map(|(at, _)| *at)
    }

    /// When the sink wants to be asked again.
    pub(crate) fn sink_timeout(&self) -> Time {
        self.sink.next_timeout()
    }

    /// Reports reach the sender. Answers when the next one does.
    pub(crate) fn take_in(&mut self, now: Time, sender: &mut dyn Sender) -> Time {
        while let Some((_, report)) = self.on_way.pop_front_if(|(at, _)| *at <= now) {
            self.outcome.reports += 1;
            if self.reader.take(now, &report, sender.srtt().unwrap_or(Nanos::ZERO)).is_err() {
                self.outcome.refused += 1;
                continue;
            }
            (self.unanswered, self.answered) = (None, true);
            self.pause = self.pause.filter(|pause| !pause.is_answered(now));
            if let Some(telemetry) = self.reader.telemetry(now) {
                sender.on_telemetry(&telemetry);
            }
        }
        self.on_way.front().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// What became of it.
    pub(crate) fn finish(self) -> TelemetryOutcome {
        let mut outcome = self.truth.finish();
        outcome += &self.outcome;
        outcome
    }
}
