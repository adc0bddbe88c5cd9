//! The flows of an agent: a controller for each, one list of timers for all.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use paceline_cc::datapath::TCP_AGENT;
use paceline_cc::observe::{Observed, Observer};
use paceline_cc::{Env, Nanos, Rate, Spec, Time};
use paceline_transport::{Counted, SenderConfig};

use super::answers::{Answer, Answers, BUDGET, DECLINED, FOLLOWS, GLIDES};
use super::figures::Counting;
use super::news::Item;
use super::report::{Kind, Report, SelectedFlow};

/// The least time between two reports of a flow. Our choice: less than the agent's own [`super::REST`], so that a report finds it
/// at the next look.
const INTERVAL_MIN: Nanos = Nanos::from_micros(100);
/// The most. Our choice: the time for which Linux lets a paced flow send at once (`tcp_tso_autosize`), which no controller resolves.
const INTERVAL_MAX: Nanos = Nanos::from_millis(1);
/// Reports of a round trip. Our choice, because controllers that look at a part of the last round trip (Copa: half of it) then
/// have a sample in it.
const REPORTS_PER_RTT: u64 = 4;
/// The clock of a controller stops when no report of the flow came for this long: it is idle, or its end was not reported. Our
/// choice: longer than the waits of a path that works, so that what is missed are ticks in the void.
const QUIET: Nanos = Nanos::from_secs(2);

/// Who decides what steers a flow.
pub(super) type Choose = Box<dyn FnMut(&SelectedFlow) -> Option<Spec> + Send>;

/// Who sees the controller of this flow, made with this.
pub(super) type Observe = Box<dyn FnMut(&SelectedFlow, &Env) -> Option<Box<dyn Observer>> + Send>;

/// Its own end, and the other.
type Ends = (SocketAddr, SocketAddr);

struct Flow {
    counted: Counted,
    answer: Answer,
    ends: Ends,
    /// The earliest timer set for it.
    armed: Time,
    /// The time of its last report.
    heard: Time,
}

/// What the agent's thread keeps.
pub(super) struct Flows {
    choose: Choose,
    observe: Observe,
    answers: Answers,
    counting: Arc<Counting>,
    /// By slot.
    flows: Vec<Option<Box<Flow>>>,
    /// Slots by ends; where namespaces have flows with the same ends, the newest.
    slots: HashMap<Ends, u32>,
    /// Time, slot and generation.
    timers: BinaryHeap<Reverse<(Time, u32, u32)>>,
    seed: u64,
}

impl Flows {
    pub(super) fn new(choose: Choose, observe: Observe, answers: Answers, slots: u32, counting: Arc<Counting>) -> Self {
        let flows = std::iter::repeat_with(|| None).take(slots as usize).collect();
        let (slots, timers) = (HashMap::new(), BinaryHeap::new());
        Self { choose, observe, answers, counting, flows, slots, timers, seed: 0 }
    }

    /// Takes in what the module wrote into the ring, and answers it.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        let Some(report) = Report::read(bytes).filter(|report| (report.slot as usize) < self.flows.len()) else {
            return;
        };
        self.counting.note(|figures| figures.reports += 1);
        match report.kind {
            Kind::New => {
                self.end(report.slot);
                if let Some(flow) = SelectedFlow::read(bytes) {
                    self.begin(&report, &flow);
                }
            }
            Kind::State => self.hear(&report),
            Kind::Closed => {
                if self.flow(report.slot, report.generation).is_some() {
                    self.end(report.slot);
                }
            }
        }
    }

    fn flow(&mut self, slot: u32, generation: u32) -> Option<&mut Flow> {
        let flow = self.flows.get_mut(slot as usize)?.as_deref_mut()?;
        (flow.answer.generation == generation).then_some(flow)
    }

    fn end(&mut self, slot: u32) {
        if let Some(flow) = self.flows[slot as usize].take() {
            if self.slots.get(&flow.ends) == Some(&slot) {
                self.slots.remove(&flow.ends);
            }
            self.counting.note(|figures| figures.steered -= 1);
        }
    }

    fn begin(&mut self, report: &Report, flow: &SelectedFlow) {
        let answer = Answer { generation: report.generation, window: 1, ..Answer::default() };
        let chosen = (self.choose)(flow);
        let spec = chosen.and_then(|spec| match TCP_AGENT.carries(&spec) {
            Ok(()) => Some(spec),
            Err(_) => {
                self.counting.note(|figures| figures.refused += 1);
                None
            }
        });
        let Some(spec) = spec else {
            self.counting.note(|figures| figures.declined += 1);
            self.answers.write(report.slot, &Answer { flags: DECLINED, ..answer });
            return;
        };
        let counters = report.counters(None);
        self.seed += 1;
        let env = Env::new(counters.mss.max(1)).with_seed(self.seed);
        let controller = Observed::wrap(spec.build(&env), (self.observe)(flow, &env));
        let counted = Counted::new(&SenderConfig::default(), controller, &counters);
        let ends = (flow.local, flow.remote);
        self.slots.insert(ends, report.slot);
        let flow = Flow { counted, answer, ends, armed: Time::NEVER, heard: counters.at };
        self.flows[report.slot as usize] = Some(Box::new(flow));
        self.counting.note(|figures| figures.steered += 1);
        self.answer(report.slot, Some(report));
    }

    fn hear(&mut self, report: &Report) {
        let Some(flow) = self.flow(report.slot, report.generation) else { return };
        let counters = report.counters(Some(flow.counted.last()));
        flow.heard = counters.at;
        flow.counted.report(&counters);
        self.answer(report.slot, Some(report));
    }

    /// Informs a flow's controller of what the hops of its path reported.
    pub(super) fn inform(&mut self, item: &Item, now: Time) {
        let flow = self.slots.get(&(item.local, item.remote)).copied();
        let Some((slot, flow)) = flow.and_then(|slot| Some((slot, self.flows[slot as usize].as_deref_mut()?))) else {
            return;
        };
        if let Some(telemetry) = item.telemetry(now) {
            flow.counted.telemetry(&telemetry);
            self.counting.note(|figures| figures.telemetry += 1);
            self.answer(slot, None);
        }
    }

    /// Writes what the controller says, after a report or a tick, and sets its timer.
    fn answer(&mut self, slot: u32, report: Option<&Report>) {
        let Some(flow) = self.flows.get_mut(slot as usize).and_then(Option::as_deref_mut) else { return };
        let counted = &flow.counted;
        let mss = u64::from(counted.last().mss.max(1));
        let packets = (counted.window() / mss).clamp(1, u64::from(u32::MAX)) as u32;
        let mut answer = Answer {
            rate: counted
                .pacing()
                .map_or(0, |rate| rate.as_bytes_per_sec().clamp(1, Rate::INFINITY.as_bytes_per_sec() - 1)),
            window: packets,
            interval: interval(counted.rtt().min()).as_micros() as u32,
            flags: u32::from(counted.glides()) * GLIDES
                + u32::from(counted.follows()) * FOLLOWS
                + u32::from(counted.is_budget()) * BUDGET,
            ..flow.answer
        };
        if let Some(report) = report {
            answer.delivered = report.delivered;
            answer.episodes = report.episodes();
        }
        // A report is always answered: a flow that the agent had left alone goes on by it.
        if report.is_some() || answer != flow.answer {
            flow.answer = answer;
            self.answers.write(slot, &answer);
        }
        let due = flow.counted.next_tick();
        if due < flow.armed {
            flow.armed = due;
            self.timers.push(Reverse((due, slot, answer.generation)));
        }
    }

    /// Runs the clocks that are due.
    pub(super) fn tick(&mut self, now: Time) {
        while let Some(&Reverse((due, slot, generation))) = self.timers.peek() {
            if due > now {
                return;
            }
            self.timers.pop();
            let Some(flow) = self.flow(slot, generation).filter(|flow| flow.armed == due) else { continue };
            flow.armed = Time::NEVER;
            if now - flow.heard > QUIET {
                continue;
            }
            flow.counted.tick(now);
            self.answer(slot, None);
        }
    }

    /// When [`Flows::tick`] has something to do.
    pub(super) fn next_tick(&self) -> Time {
        self.timers.peek().map_or(Time::NEVER, |Reverse((due, _, _))| *due)
    }
}

/// The time between two reports of a flow with this smallest RTT.
fn interval(least: Nanos) -> Nanos {
    if least == Nanos::MAX {
        return Nanos::ZERO;
    }
    least.mul_div(1, REPORTS_PER_RTT).clamp(INTERVAL_MIN, INTERVAL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_four_times_in_a_round_trip_within_bounds() {
        assert_eq!(interval(Nanos::MAX), Nanos::ZERO);
        assert_eq!(interval(Nanos::from_micros(50)), INTERVAL_MIN);
        assert_eq!(interval(Nanos::from_millis(2)), Nanos::from_micros(500));
        assert_eq!(interval(Nanos::from_millis(40)), INTERVAL_MAX);
    }
}
