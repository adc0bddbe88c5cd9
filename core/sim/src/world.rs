//! The world: links, the flows over them, and one loop that moves time from event to event.

use std::collections::VecDeque;

use paceline_cc::observe::Observed;
use paceline_cc::{Bytes, Codepoint, Env, Nanos, Rate, Spec, Time};
use paceline_experiment::{
    AppTurn, Application, Arrivals, Cross, Excess, Flow, Gaps, Layer, Moment, NewFlow, Outcome, Recorder, Sample, Seed,
    Subject, Tap, Workload, endpoints,
};

use crate::body::Body;
use crate::ends::Ends;
use crate::hops::{Hops, Routes};
use crate::host::Hosts;
use crate::live::Live;
use crate::pool::Pool;
use crate::room::Room;
use crate::timers::{Armed, Target, Timers};
use content::Content;
use nodes::Nodes;

mod content;
mod nodes;
mod packets;
mod reports;

/// Of the packets that leave at one moment, after so many each it is looked how much is in flight (our choice: it costs nothing
/// then, and so many more do no harm).
const OFTEN: u32 = 1024;

/// What the simulator runs.
pub type Config = paceline_experiment::Config<Body>;

/// Runs a world to its end.
///
/// # Panics
/// Where [`endpoints::check`] refuses a flow, or there is no way between its ends. And where nothing in the way of a flow that sends without end has a rate:
/// nothing would ever hold it back, and it would fill the memory, or the present moment where there is no delay either.
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
    /// The way of each configured flow, among the distinct ones.
    ways: Vec<u32>,
    pool: Pool,
    timers: Timers,
    configured: Vec<Flow>,
    /// What the path of each holds.
    rooms: Vec<Room>,
    /// A flow had more in flight than that: the end.
    excess: Option<Excess>,
    recorder: Recorder,
    /// Of configured flows that are families.
    arrivals: Vec<Option<Arrivals>>,
    /// Of configured flows whose application writes in turns.
    applications: Vec<Option<Application>>,
    /// Number of the flow that a configured flow (not a family) started.
    number: Vec<Option<u32>>,
    /// By number; `None` once it has ended.
    live: Vec<Option<Box<Live>>>,
    /// By number: the configured flow it belongs to; `None` for cross traffic.
    families: Vec<Option<u32>>,
    /// By number: its way, among the distinct ones.
    way_of: Vec<u32>,
    cross: Vec<Cross>,
    /// Number of the first flow: those before are of cross traffic, which a tap does not count.
    first: u32,
    gaps: Vec<Gaps>,
    step: Option<Nanos>,
    snapshot_every: Option<Nanos>,
    nodes: Nodes,
    content: Content,
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
        let telemetry = config.flows.iter().any(|flow| flow.telemetry.is_some());
        // Cross traffic takes the first numbers, so that counters by number can distinguish it.
        let way_of = ways.split_off(flows);
        let indexed = || config.flows.iter().enumerate();
        let arrivals = |(index, flow): (usize, &Flow)| Arrivals::new(&flow.workload, config.seed, index);
        let application =
            |(index, flow): (usize, &Flow)| Application::new(&flow.workload, flow.mss, config.seed, index);
        let mut world = Self {
            now: Time::ZERO,
            end: Time::ZERO + config.duration,
            seed: config.seed,
            timers,
            recorder: Recorder::new(&config.flows, config.sample_every),
            arrivals: indexed().map(arrivals).collect(),
            applications: indexed().map(application).collect(),
            number: vec![None; flows],
            live: config.cross.iter().map(|_| None).collect(),
            families: config.cross.iter().map(|_| None).collect(),
            gaps: config.cross.iter().enumerate().map(|(index, cross)| Gaps::new(cross, config.seed, index)).collect(),
            first: config.cross.len() as u32,
            cross: config.cross,
            rooms: config.flows.iter().map(|flow| Room::new(flow, &config.topology, config.duration)).collect(),
            configured: config.flows,
            excess: None,
            hops: Hops::new(config.topology, snapshot_every, telemetry),
            routes,
            ways,
            way_of,
            snapshot_every,
            pool: Pool::default(),
            step: config.sample_every,
            nodes: Nodes::default(),
            content: Content::default(),
            tap,
            events: 0,
        };
        world.add_routers(&routers);
        world
    }

    /// Runs every event up to `until`, the events of that moment included; answers whether the world has reached its end, or
    /// cannot go on ([`Outcome::excess`]).
    pub fn run_until(&mut self, until: Time) -> bool {
        let until = until.min(self.end);
        while self.excess.is_none() {
            let ((due, hop), timer) = (self.hops.next(), self.timers.next());
            let next = due.min(timer);
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
        if self.excess.is_none() {
            self.now = until.max(self.now);
        }
        until == self.end || self.excess.is_some()
    }

    /// Whether the configured flow of this index has begun and come to its end: all its bytes have arrived, or it was stopped. Families
    /// do not.
    pub fn has_ended(&self, index: usize) -> bool {
        let number = self.number.get(index).copied().flatten();
        number.is_some_and(|number| self.live[number as usize].is_none())
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
            Target::Sender(number) => {
                let Some(flow) = &mut self.live[number as usize] else { return };
                if !flow.steering_timer.fire(&mut self.timers, at, target) {
                    return;
                }
                let steering = flow.ends.steering_mut();
                if steering.next_timeout() <= at {
                    steering.on_timeout(at);
                }
                self.pump(number);
            }
            Target::Receiver(number) => {
                let Some(flow) = &mut self.live[number as usize] else { return };
                if flow.receiver_timer.fire(&mut self.timers, at, target) {
                    self.acknowledge(number);
                }
            }
            Target::Application(number) => self.application(number),
            Target::Access(number) => {
                while let Some(flow) = &mut self.live[number as usize] {
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
                while let Some(flow) = &mut self.live[number as usize] {
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
        let flow = &self.configured[index as usize];
        match flow.workload {
            Workload::Poisson(_) => self.arrive(index),
            Workload::Bytes(Bytes(bytes)) => {
                self.number[index as usize] = Some(self.begin(index, Some(bytes)));
            }
            Workload::Bulk | Workload::OnOff(_) | Workload::Rate(_) => {
                let number = self.begin(index, None);
                self.number[index as usize] = Some(number);
                if self.applications[index as usize].is_some() {
                    self.timers.set(self.now, Target::Application(number));
                }
            }
        }
    }

    /// A family's next flow arrives; the one after it is drawn.
    fn arrive(&mut self, index: u32) {
        if self.configured[index as usize].stop.is_some_and(|stop| self.now >= stop) {
            return;
        }
        let Some(NewFlow { bytes, gap }) = self.arrivals[index as usize].as_mut().and_then(Iterator::next) else {
            return;
        };
        self.timers.set(self.now + gap, Target::Arrival(index));
        self.begin(index, Some(bytes));
    }

    /// A flow comes alive; the answer is its number.
    fn begin(&mut self, index: u32, goal: Option<u64>) -> u32 {
        let number = self.live.len() as u32;
        let flow = &self.configured[index as usize];
        let seed = self.seed.derive(&format!("controller {number}"));
        let env = Env { mss: flow.mss, seed, paced: flow.paced };
        let way = self.ways[index as usize];
        let hosts = Hosts::new(flow.timers, self.seed, number, self.packet_time(flow, way));
        let first = self.first;
        let mut observer = |spec: &Spec, layer| {
            self.tap.as_mut().and_then(|tap| {
                tap.observer(&Subject { flow: number - first, layer, spec, env: &env, moment: Moment::default() })
            })
        };
        let mut first_source = None;
        let mut ends = if self.content.is_fetched(flow) {
            let observer = observer(&flow.controller, Layer::Packets);
            first_source = Some(Observed::wrap(flow.controller.build(&env), observer));
            self.fetch(index, number, goal.expect("an object has an end"))
        } else {
            let ends = endpoints::make(flow, &env, observer);
            Ends::from(ends.unwrap_or_else(|refused| panic!("{refused}")))
        };
        let flow = &self.configured[index as usize];
        let extra_delay = flow.extra_delay;
        match (&flow.workload, goal) {
            (_, Some(bytes)) => ends.write(bytes),
            (Workload::Bulk, None) => ends.write(u64::MAX),
            _ => {}
        }
        let telemetry = self.carried(index, number);
        self.families.push(Some(index));
        self.way_of.push(way);
        self.live.push(Some(Box::new(Live {
            family: index,
            hops: self.routes.first(way),
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
        })));
        if let Some(controller) = first_source {
            self.open_sources(index, number, controller);
        }
        self.release(number);
        number
    }

    /// How long the slowest link of its data takes for a full packet of this flow; nothing where there is no link.
    fn packet_time(&self, flow: &Flow, way: u32) -> Nanos {
        let rate = self.routes.rate(way);
        if rate == Rate::ZERO { Nanos::ZERO } else { rate.time_for(u64::from(flow.packet_bytes())) }
    }

    /// The application of a configured flow stops writing: the flow ends here, what is in flight is not waited for.
    fn stop(&mut self, index: u32) {
        if let Some(number) = self.number[index as usize] {
            self.retire(number);
        }
    }

    /// An application's turn: a packet at a constant rate, or the other half of on/off.
    fn application(&mut self, number: u32) {
        let Some(live) = &mut self.live[number as usize] else { return };
        let Some(application) = &mut self.applications[live.family as usize] else { return };
        let (turn, wait) = application.turn();
        match turn {
            AppTurn::Write(bytes) => live.ends.write(bytes),
            AppTurn::Cut => live.ends.steering_mut().cut(),
        }
        self.timers.set(self.now + wait, Target::Application(number));
        self.release(number);
    }

    fn send_cross(&mut self, index: u32) {
        let cross = &self.cross[index as usize];
        if cross.stop.is_some_and(|stop| self.now >= stop) {
            return;
        }
        let packet = self.pool.cross(index, cross.packet);
        let [hop, _] = self.routes.first(self.way_of[index as usize]);
        self.hops.push(hop, self.now, packet);
        let gap = self.gaps[index as usize].draw();
        self.timers.set(self.now + gap, Target::Cross(index));
    }

    /// Something from outside the end that has the controller may let it send: its host takes a moment, unless pacing sets the
    /// time.
    #[inline]
    fn release(&mut self, number: u32) {
        if let Some(flow) = &mut self.live[number as usize]
            && let Some(hosts) = &mut flow.hosts
            && flow.ends.steering().paced_until() <= self.now
        {
            hosts.release(self.now);
        }
        self.pump(number);
    }

    /// Lets the end that has the controller send what it may, data or requests, and sets its timer.
    #[inline]
    fn pump(&mut self, number: u32) {
        let Some(flow) = &mut self.live[number as usize] else { return };
        let [data, back] = flow.hops;
        let family = flow.family as usize;
        let mut count = 0_u32;
        while flow.ready_at() <= self.now {
            count += 1;
            if count.is_multiple_of(OFTEN) && self.rooms[family].is_exceeded(flow.ends.steering()) {
                break;
            }
            let (sender, segment) = match &mut flow.ends {
                Ends::Push(sender, _) => match sender.poll_transmit(self.now) {
                    Some(segment) => (sender, segment),
                    None => break,
                },
                Ends::Pull(requester, _) => match requester.poll_request(self.now) {
                    Some(asked) => {
                        if let Some(hosts) = &mut flow.hosts {
                            hosts.sent(self.now);
                        }
                        self.hops.push(back, self.now, self.pool.request(number, asked));
                        continue;
                    }
                    None => break,
                },
                Ends::Fetch(_) => return self.pump_fetch(number),
            };
            if let Some(hosts) = &mut flow.hosts {
                hosts.sent(self.now);
            }
            if let Some(tap) = &mut self.tap {
                tap.on_sent(self.now, number - self.first, &segment);
            }
            self.recorder.entered(family);
            let ecn = Codepoint::from(segment.ecn);
            let traced = flow.telemetry.as_mut().and_then(|telemetry| {
                telemetry.leave(self.now, &segment, sender.as_ref(), self.configured[family].mss)
            });
            let packet = match traced {
                Some(traced) => self.pool.traced(number, ecn, traced),
                None => self.pool.data(number, ecn, segment),
            };
            self.hops.push(data, self.now, packet);
        }
        if count > 0 && self.rooms[family].is_exceeded(flow.ends.steering()) {
            self.excess = Some(self.rooms[family].excess(&self.configured[family], flow.ends.steering()));
        }
        let wakes_at = flow.wakes_at(self.now);
        flow.steering_timer.arm(&mut self.timers, wakes_at, Target::Sender(number));
    }

    fn complete(&mut self, number: u32) {
        let Some(flow) = &self.live[number as usize] else { return };
        let (family, goal, took) = (flow.family as usize, flow.goal, self.now.since(flow.began));
        self.recorder.completed(family, goal.unwrap_or(0), took);
        self.retire(number);
    }

    fn retire(&mut self, number: u32) {
        if let Some(flow) = self.live[number as usize].take() {
            let (stats, ready) = (flow.ends.steering().stats(), flow.ends.bytes_ready());
            if let Some(telemetry) = flow.telemetry {
                self.recorder.telemetry(flow.family as usize, &telemetry.finish());
            }
            if let Ends::Fetch(fetch) = &flow.ends {
                self.fetched(flow.family, fetch);
            }
            self.recorder.retired(flow.family as usize, self.now, &stats, ready);
        }
    }

    fn sample(&mut self) {
        let Some(step) = self.step else { return };
        let to = self.recorder.next_sample();
        let (capacity, queued) = self.hops.shown(to - step, to);
        self.recorder.sample(capacity, queued, |index| {
            let live = self.live[self.number[index]? as usize].as_ref()?;
            Some(Sample::of(live.ends.steering()))
        });
    }

    /// Ends the world and gives what it left, after [`World::run_until`] has answered that it has reached its end; before that, what
    /// of a run that was cut short.
    pub fn finish(mut self) -> Outcome {
        self.now = self.end;
        let (graph, hops) = self.hops.finish(self.end);
        self.note_dropped();
        for number in 0..self.live.len() as u32 {
            self.retire(number);
        }
        let routers = self.content.outcomes(&self.nodes);
        Outcome { excess: self.excess, routers, ..self.recorder.finish(graph, hops, self.events) }
    }
}
