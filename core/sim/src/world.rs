//! The world: links, the flows over them, and one loop that moves time from event to event.

use std::collections::{BTreeMap, VecDeque};

use paceline_cc::observe::{Observed, both};
use paceline_cc::{Bytes, Codepoint, Env, Nanos, Rate, Spec, Time};
use paceline_experiment::{
    Flow, Frames, Layer, Moment, NewFlow, Outcome, Recorder, RunFailure, Sample, Seed, Subject, Tap, Workload,
    endpoints,
};

use paceline_telemetry::Trail;

use crate::body::{Body, Label};
use crate::ends::Ends;
use crate::families::{Family, Source};
use crate::hops::{Hops, Routes};
use crate::host::Hosts;
use crate::live::{Live, LiveFlows};
use crate::meters::Meters;
use crate::pool::Pool;
use crate::timers::{Armed, Target, Timers};
use application::hand_over_again;
use content::Content;
use nodes::Nodes;
use when::Whens;

mod application;
mod content;
mod nodes;
mod packets;
mod reports;
#[cfg(test)]
mod tests;
mod when;

/// Of the packets that leave at one moment, after so many each it is looked how much is in flight (our choice: it costs nothing
/// then, and so many more do no harm).
const OFTEN: u32 = 1024;

/// What the simulator runs.
pub type Config = paceline_experiment::Config<Body>;

/// Runs a world to its end.
///
/// # Panics
/// Where there is no way between the ends of a flow. And where nothing in the way of a flow that sends without end has a rate: nothing would ever hold it back, and it would fill the memory, or the present moment where there is no delay either.
pub fn run(config: Config, tap: Option<&mut dyn Tap>) -> Outcome {
    let mut world = World::new(config, tap);
    world.run_until(Time::NEVER);
    world.finish()
}

/// A world that is run piece by piece: [`World::run_until`] a moment, as often as one likes, then [`World::finish`]. What
/// comes out does not depend on the pieces.
///
/// A controller that asks for a tick right after such a moment takes in what was decided between two pieces.
pub struct World<'t> {
    now: Time,
    end: Time,
    seed: Seed,
    hops: Hops,
    routes: Routes,
    pool: Pool,
    timers: Timers,
    /// As configured.
    families: Vec<Family>,
    /// The end, before its time.
    failure: Option<RunFailure>,
    recorder: Recorder,
    live: LiveFlows,
    sources: Vec<Source>,
    /// Number of the first flow: those before are of cross traffic, which a tap does not count.
    first: u32,
    step: Option<Nanos>,
    snapshot_every: Option<Nanos>,
    nodes: Nodes,
    content: Content,
    /// What telemetry shows of the hops before each receiving node.
    trails: BTreeMap<u32, Trail>,
    whens: Whens,
    tap: Option<&'t mut dyn Tap>,
    events: u64,
}

impl<'t> World<'t> {
    /// The world before its first event.
    ///
    /// # Panics
    /// As [`run`].
    pub fn new(config: Config, tap: Option<&'t mut dyn Tap>) -> Self {
        for (index, flow) in config.flows.iter().enumerate() {
            let topology = &config.topology;
            let route = topology.graph().route(flow.way).expect("there is a way between the ends of every flow");
            let endless = matches!(flow.workload, Workload::Bulk | Workload::OnOff(_));
            let limited = topology.slowest(&route).is_some();
            assert!(!endless || limited, "flow {index} sends without end over a path without a link");
        }
        let mut timers = Timers::default();
        let flows = config.flows.len();
        for (index, flow) in (0..).zip(&config.flows) {
            timers.set(flow.start, Target::Start(index));
            if let Some(stop) = flow.stop {
                timers.set(stop, Target::Stop(index));
            }
        }
        for (index, cross) in (0..).zip(&config.cross) {
            timers.set(cross.start, Target::Cross(index));
        }
        let snapshot_every = tap.as_ref().and_then(|tap| tap.snapshot_every()).filter(|every| *every > Nanos::ZERO);
        if let Some(every) = snapshot_every {
            timers.set(Time::ZERO + every, Target::Snapshot);
        }
        let all = config.flows.iter().map(|flow| flow.way).chain(config.cross.iter().map(|cross| cross.way));
        let routers = config.topology.routers().to_vec();
        let (routes, mut ways) = Routes::new(&config.topology, all);
        let meters = Meters::new(config.topology.graph(), &config.flows);
        // Cross traffic takes the first numbers, so that counters by number can distinguish it.
        let cross_ways = ways.split_off(flows);
        let first = config.cross.len() as u32;
        let recorder = Recorder::new(&config.flows, config.sample_every);
        let family =
            |(index, (flow, way))| Family::new(index, flow, way, config.seed, &config.topology, config.duration);
        let source = |(index, (cross, way))| Source::new(index, cross, way, config.seed);
        let mut live = LiveFlows::default();
        (0..first).for_each(|_| _ = live.skip());
        let whens = Whens::new(&config.flows);
        let mut world = Self {
            now: Time::ZERO,
            end: Time::ZERO + config.duration,
            seed: config.seed,
            timers,
            recorder,
            live,
            first,
            families: config.flows.into_iter().zip(ways).enumerate().map(family).collect(),
            sources: config.cross.into_iter().zip(cross_ways).enumerate().map(source).collect(),
            failure: None,
            hops: Hops::new(config.topology, snapshot_every, meters),
            routes,
            snapshot_every,
            pool: Pool::default(),
            step: config.sample_every,
            nodes: Nodes::default(),
            content: Content::default(),
            trails: BTreeMap::new(),
            whens,
            tap,
            events: 0,
        };
        world.add_routers(&routers);
        world
    }

    /// Runs every event up to `until`, the events of that moment included; answers whether the world has reached its end, or
    /// cannot go on ([`Outcome::failure`]).
    pub fn run_until(&mut self, until: Time) -> bool {
        let until = until.min(self.end);
        while self.failure.is_none() {
            let ((due, hop), timer) = (self.hops.next(), self.timers.next());
            let changes = self.whens.next();
            let next = due.min(timer).min(changes);
            if next > self.now && self.whens.is_stirred() {
                self.look();
                continue;
            }
            let next_sample = self.recorder.next_sample();
            if next_sample < next && next_sample <= until {
                self.sample();
                continue;
            }
            if next > until {
                break;
            }
            self.now = next;
            self.events += 1;
            if changes == next {
                self.change();
                continue;
            }
            // Ties: packets before timers, hops in their order (downward before upward), timers in that in which they were set.
            if due == next {
                while let Some(packet) = self.hops.pop(hop, next) {
                    self.leave_hop(hop, packet);
                }
            } else if let Some((at, target)) = self.timers.pop() {
                self.wake(at, target);
            }
            if self.hops.has_dropped() {
                self.note_dropped();
            }
        }
        if self.failure.is_none() {
            self.now = until.max(self.now);
        }
        until == self.end || self.failure.is_some()
    }

    /// Whether the configured flow of this index has begun and come to its end: all its bytes have arrived, or it was stopped. Families
    /// do not.
    pub fn has_ended(&self, index: usize) -> bool {
        let number = self.families.get(index).and_then(|family| family.number);
        number.is_some_and(|number| self.live.get(number).is_none())
    }

    /// Bytes that the link that is shown could have carried from one moment to another, both past; `None` where nothing limits
    /// it.
    pub fn capacity(&mut self, from: Time, to: Time) -> Option<u64> {
        self.hops.shown(from, to).0
    }

    fn wake(&mut self, at: Time, target: Target) {
        match target {
            Target::Start(index) => self.start(index),
            Target::Stop(index) => self.stop(index),
            Target::Arrival(index) => self.arrive(index),
            Target::Sender(number) => self.pump(number, Some(at)),
            Target::Receiver(number) => {
                let Some(flow) = self.live.get_mut(number) else { return };
                if flow.receiver_timer.fire(&mut self.timers, at, target) {
                    self.acknowledge(number);
                }
            }
            Target::Application(number) => self.application(number, at),
            Target::Access(number) => {
                while let Some(flow) = self.live.get_mut(number) {
                    match flow.access.pop_front_if(|(due, _)| *due <= at) {
                        Some((_, packet)) => self.deliver(packet),
                        None => {
                            self.timers.set(flow.access.front().map_or(Time::NEVER, |(due, _)| *due), target);
                            return;
                        }
                    }
                }
            }
            Target::Return(number) => {
                while let Some(flow) = self.live.get_mut(number) {
                    match flow.back.pop_front_if(|(due, _)| *due <= at) {
                        Some((_, packet)) => self.returned(packet),
                        None => {
                            self.timers.set(flow.back.front().map_or(Time::NEVER, |(due, _)| *due), target);
                            return;
                        }
                    }
                }
            }
            Target::Cross(index) => self.send_cross(index),
            Target::Node(index) => self.node_wakes(index, at),
            Target::Sink(number) => self.sink_wakes(number, at),
            Target::Report(number) => self.take_reports(number),
            Target::Snapshot => {
                let Some(every) = self.snapshot_every else { return };
                self.timers.set(at + every, target);
                let snapshots = self.hops.snapshots(at);
                if let Some(tap) = &mut self.tap {
                    tap.on_snapshot(at, self.hops.graph(), &snapshots);
                }
            }
        }
    }

    fn start(&mut self, index: u32) {
        match self.families[index as usize].flow.workload {
            Workload::Poisson(_) => self.arrive(index),
            Workload::Bytes(Bytes(bytes)) => self.begin_alone(index, Some(bytes)),
            _ => self.begin_alone(index, None),
        }
    }

    /// The one flow of a configured one comes alive.
    fn begin_alone(&mut self, index: u32, goal: Option<u64>) {
        let Some(number) = self.begin(index, goal) else { return };
        let family = &mut self.families[index as usize];
        family.number = Some(number);
        if family.application.is_some() {
            family.turn = self.now;
            self.timers.set(self.now, Target::Application(number));
        }
    }

    /// A family's next flow arrives; the one after it is drawn.
    fn arrive(&mut self, index: u32) {
        let family = &mut self.families[index as usize];
        if family.flow.stop.is_some_and(|stop| self.now >= stop) {
            return;
        }
        let Some(NewFlow { bytes, gap }) = family.arrivals.as_mut().and_then(Iterator::next) else { return };
        self.timers.set(self.now + gap, Target::Arrival(index));
        self.begin(index, Some(bytes));
    }

    /// A flow comes alive; the answer is its number. One that the simulator does not have ends the run.
    fn begin(&mut self, index: u32, goal: Option<u64>) -> Option<u32> {
        let number = self.live.next_number();
        let remembered = self.families[index as usize].memory.lend(self.now);
        let Family { flow, way, frames, .. } = &self.families[index as usize];
        let frames = frames.as_ref();
        let label = Label { number, way: *way, family: Some(index) };
        let seed = self.seed.derive(&format!("controller {number}"));
        let env = Env::new(flow.mss).with_seed(seed).with_paced(flow.paced).with_remembered(remembered);
        let hosts = Hosts::new(flow.timers, self.seed, number, self.packet_time(flow, label.way));
        let first = self.first;
        let mut observer = |spec: &Spec, layer| {
            let tapped = self.tap.as_mut().and_then(|tap| {
                tap.observer(&Subject { flow: number - first, layer, spec, env: &env, moment: Moment::default() })
            });
            let losses = frames.filter(|_| !flow.via.in_order()).map(Frames::observer);
            both(both(tapped, self.whens.observer(index, flow, layer)), losses)
        };
        let mut first_source = None;
        let mut ends = if self.content.is_fetched(flow) {
            let spec = flow.controller.clone().over(flow.via.datapath());
            first_source = Some(Observed::wrap(spec.build(&env), observer(&spec, Layer::Packets)));
            self.fetch(index, number, goal.expect("an object has an end"))
        } else {
            match endpoints::make(flow, &env, observer) {
                Ok(ends) => Ends::from(ends),
                Err(refused) => {
                    self.failure = Some(refused.into());
                    return None;
                }
            }
        };
        let flow = &self.families[index as usize].flow;
        let extra_delay = flow.extra_delay;
        match (&flow.workload, goal) {
            (_, Some(bytes)) => ends.write(bytes),
            (Workload::Bulk, None) => ends.write(u64::MAX),
            _ => {}
        }
        let telemetry = self.carried(index, number);
        self.live.begin(Box::new(Live {
            family: index,
            label,
            hops: self.routes.first(label.way),
            began: self.now,
            ends,
            steering_timer: Armed::default(),
            receiver_timer: Armed::default(),
            hosts,
            goal,
            extra_delay,
            telemetry,
            access: VecDeque::new(),
            back: VecDeque::new(),
        }));
        if let Some(controller) = first_source {
            self.open_sources(index, number, controller);
        }
        self.release(number);
        Some(number)
    }

    /// How long the slowest link of its data takes for a full packet of this flow; nothing where there is no link.
    fn packet_time(&self, flow: &Flow, way: u32) -> Nanos {
        let rate = self.routes.rate(way);
        if rate == Rate::ZERO { Nanos::ZERO } else { rate.time_for(u64::from(flow.packet_bytes())) }
    }

    fn send_cross(&mut self, index: u32) {
        let Source { cross, label, gaps } = &mut self.sources[index as usize];
        if cross.stop.is_some_and(|stop| self.now >= stop) {
            return;
        }
        let [hop, _] = self.routes.first(label.way);
        (0..cross.burst).for_each(|_| self.hops.push(hop, self.now, self.pool.cross(*label, cross.packet)));
        self.timers.set(self.now + gaps.draw(), Target::Cross(index));
    }

    /// Something from outside the end that has the controller may let it send.
    #[inline]
    fn release(&mut self, number: u32) {
        self.pump(number, None);
    }

    /// Lets the end that has the controller send what it may, data or requests, and sets its timer, which may have come. What else sets
    /// packets free comes from outside: its host takes a moment then, unless pacing sets the time.
    fn pump(&mut self, number: u32, timer: Option<Time>) {
        let Some(flow) = self.live.get_mut(number) else { return };
        if let Some(at) = timer {
            if !flow.steering_timer.fire(&mut self.timers, at, Target::Sender(number)) {
                return;
            }
            let steering = flow.ends.steering_mut();
            if steering.next_timeout() <= at {
                steering.on_timeout(at);
            }
        } else if let Some(hosts) = &mut flow.hosts
            && flow.ends.steering().paced_until() <= self.now
        {
            hosts.release(self.now);
        }
        let Live { label, hops: [data, back], .. } = *flow;
        let family = &self.families[flow.family as usize];
        if let Some(frames) = &family.frames {
            hand_over_again(&mut flow.ends, frames);
        }
        let mut count = 0_u32;
        while flow.ready_at() <= self.now {
            count += 1;
            if count.is_multiple_of(OFTEN) && family.room.is_exceeded(flow.ends.steering()) {
                break;
            }
            let Ends::Push(sender, _) = &mut flow.ends else {
                match &mut flow.ends {
                    Ends::Pull(requester, _) => {
                        let Some(asked) = requester.poll_request(self.now) else { break };
                        if let Some(hosts) = &mut flow.hosts {
                            hosts.sent(self.now);
                        }
                        self.hops.push(back, self.now, self.pool.request(label, asked));
                        continue;
                    }
                    _ => return self.pump_fetch(number),
                }
            };
            let Some(segment) = sender.poll_transmit(self.now) else { break };
            if let Some(hosts) = &mut flow.hosts {
                hosts.sent(self.now);
            }
            if let Some(tap) = &mut self.tap {
                tap.on_sent(self.now, number - self.first, &segment);
            }
            if let Some(frames) = family.frames.as_ref().filter(|_| !segment.retransmission) {
                frames.sent(segment.seq, u64::from(segment.bytes));
            }
            self.recorder.entered(flow.family as usize);
            let ecn = Codepoint::from(segment.ecn);
            let traced = match &mut flow.telemetry {
                Some(telemetry) => telemetry.leave(self.now, &segment, sender.as_ref(), family.flow.mss),
                None => None,
            };
            let packet = match traced {
                Some(traced) => self.pool.traced(label, ecn, traced),
                None => self.pool.data(label, ecn, &segment),
            };
            self.hops.push(data, self.now, packet);
        }
        if count > 0 && family.room.is_exceeded(flow.ends.steering()) {
            self.failure = Some(family.room.excess(&family.flow, flow.ends.steering()).into());
        }
        let wakes_at = flow.wakes_at(self.now);
        flow.steering_timer.arm(&mut self.timers, wakes_at, Target::Sender(number));
    }

    fn complete(&mut self, number: u32) {
        let Some(flow) = self.live.get(number) else { return };
        let (family, goal, took) = (flow.family as usize, flow.goal, self.now.since(flow.began));
        self.recorder.completed(family, goal.unwrap_or(0), took);
        self.retire(number);
    }

    fn retire(&mut self, number: u32) {
        if let Some(flow) = self.live.end(number) {
            self.hops.forget(number);
            let (stats, ready) = (flow.ends.steering().stats(), flow.ends.bytes_ready());
            if let Some(telemetry) = flow.telemetry {
                self.recorder.telemetry(flow.family as usize, &telemetry.finish());
            }
            if let Ends::Fetch(fetch) = &flow.ends {
                self.fetched(flow.family, fetch);
            }
            self.recorder.retired(flow.family as usize, self.now, &stats, ready);
            let family = &mut self.families[flow.family as usize];
            family.memory.learn(self.now, flow.ends.steering().controller().remember(self.now));
            if let Some(frames) = &family.frames {
                self.recorder.frames(flow.family as usize, frames.outcome());
            }
        }
    }

    fn sample(&mut self) {
        let Some(step) = self.step else { return };
        let to = self.recorder.next_sample();
        let (capacity, queued) = self.hops.shown(to - step, to);
        self.recorder.sample(capacity, queued, |index| {
            let live = self.live.get(self.families[index].number?)?;
            Some(Sample::of(live.ends.steering()))
        });
    }

    /// Ends the world and gives what it left, after [`World::run_until`] has answered that it has reached its end; before that, what
    /// of a run that was cut short.
    pub fn finish(mut self) -> Outcome {
        self.now = self.end;
        let (graph, hops) = self.hops.finish(self.end);
        self.note_dropped();
        for number in self.live.numbers() {
            self.retire(number);
        }
        let routers = self.content.outcomes(&self.nodes);
        let fired = self.whens.fired().to_vec();
        let whole = self.recorder.finish(graph, hops, self.events);
        let mut outcome = Outcome { failure: self.failure, routers, fired, ..whole };
        let flows: Vec<Flow> = self.families.into_iter().map(|family| family.flow).collect();
        outcome.note_capacities(&flows, |hop, from, to| self.hops.capacity(hop, from, to));
        outcome
    }
}
