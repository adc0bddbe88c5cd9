//! The world: two paths, the flows over them, and one loop that moves time from event to event.

use std::collections::VecDeque;

use paceline_cc::{Ecn, Env, Nanos, Time};
use paceline_path::{Codepoint, Packet, Path};
use paceline_transport::{AckSegment, Receiver, Segment, Sender};
use rand_pcg::Pcg64;

use crate::config::{Config, Cross, Direction, Flow, Timing, Workload};
use crate::draw;
use crate::endpoints;
use crate::host::Host;
use crate::outcome::{Distribution, Outcome, Series};
use crate::record::Recorder;
use crate::seed::Seed;
use crate::tap::Tap;
use crate::timers::{Armed, Target, Timers};

/// What a packet of the simulator carries.
#[derive(Clone, Debug)]
pub enum Body {
    /// Data.
    Data(Segment),
    /// An acknowledgement.
    Ack(AckSegment),
    /// Cross traffic.
    Cross,
}

/// A flow that is alive.
struct Live {
    /// Index of the configured flow it belongs to.
    family: u32,
    down: bool,
    began: Time,
    sender: Box<dyn Sender>,
    receiver: Box<dyn Receiver>,
    sender_timer: Armed,
    /// Where the sender's host is not exact.
    host: Option<Host>,
    receiver_timer: Armed,
    /// The flow ends when so many bytes have arrived.
    goal: Option<u64>,
    /// Busy part of an on/off application.
    busy: bool,
    extra_delay: Nanos,
    access: VecDeque<(Time, Packet<Body>)>,
    back: VecDeque<(Time, AckSegment)>,
}

impl Live {
    /// From when on its host can send the next packet.
    fn ready_at(&self) -> Time {
        self.host.as_ref().map_or(Time::ZERO, |host| host.ready_at(self.sender.controller().pacing()))
    }
}

/// Random streams of one configured flow.
struct Streams {
    arrivals: Pcg64,
    sizes: Pcg64,
    application: Pcg64,
}

/// Runs a world to its end.
pub fn run(config: Config, tap: Option<&mut dyn Tap>) -> Outcome {
    World::new(config, tap).run()
}

struct World<'t> {
    now: Time,
    end: Time,
    seed: Seed,
    down: Path<Body>,
    up: Path<Body>,
    timers: Timers,
    configured: Vec<Flow>,
    recorders: Vec<Recorder>,
    streams: Vec<Streams>,
    /// Arrivals so far, for families.
    arrived: Vec<u64>,
    /// Number of the flow that a configured flow (not a family) started.
    number: Vec<Option<u32>>,
    /// By number; `None` once it has ended.
    live: Vec<Option<Box<Live>>>,
    /// By number: the configured flow it belongs to; `None` for cross traffic.
    families: Vec<Option<u32>>,
    cross: Vec<Cross>,
    cross_streams: Vec<Pcg64>,
    delay: Distribution,
    queue: Distribution,
    rtt: Distribution,
    series: Option<Series>,
    next_sample: Time,
    tap: Option<&'t mut dyn Tap>,
    events: u64,
}

impl<'t> World<'t> {
    fn new(config: Config, tap: Option<&'t mut dyn Tap>) -> Self {
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
        let series = config.sample_every.filter(|step| *step > Nanos::ZERO);
        let recorder = |(index, flow): (usize, &Flow)| {
            let single = !matches!(flow.workload, Workload::Poisson { .. });
            Recorder::new(index, flow.start, flows, series.is_some() && single)
        };
        let streams = |index: usize| Streams {
            arrivals: config.seed.stream(&format!("flow {index} arrivals")),
            sizes: config.seed.stream(&format!("flow {index} sizes")),
            application: config.seed.stream(&format!("flow {index} application")),
        };
        Self {
            now: Time::ZERO,
            end: Time::ZERO + config.duration,
            seed: config.seed,
            timers,
            recorders: config.flows.iter().enumerate().map(recorder).collect(),
            streams: (0..flows).map(streams).collect(),
            arrived: vec![0; flows],
            number: vec![None; flows],
            // Cross traffic takes the first numbers, so that counters by number can tell it apart.
            live: config.cross.iter().map(|_| None).collect(),
            families: config.cross.iter().map(|_| None).collect(),
            cross_streams: (0..config.cross.len()).map(|index| config.seed.stream(&format!("cross {index}"))).collect(),
            cross: config.cross,
            configured: config.flows,
            down: config.down,
            up: config.up,
            delay: Distribution::new(3),
            queue: Distribution::new(3),
            rtt: Distribution::new(3),
            next_sample: series.map_or(Time::NEVER, |step| Time::ZERO + step),
            series: series.map(|step| Series { step, ..Series::default() }),
            tap,
            events: 0,
        }
    }

    fn run(mut self) -> Outcome {
        loop {
            let (down, up, timer) = (self.down.next(), self.up.next(), self.timers.next());
            let next = down.min(up).min(timer);
            if self.next_sample < next && self.next_sample <= self.end {
                self.sample();
                continue;
            }
            if next > self.end {
                break;
            }
            self.now = next;
            self.events += 1;
            // Ties: packets before timers, downward before upward, timers in the order in which they were set.
            if down == next {
                while let Some(packet) = self.down.pop(next) {
                    self.leave_path(packet);
                }
            } else if up == next {
                while let Some(packet) = self.up.pop(next) {
                    self.leave_path(packet);
                }
            } else if let Some((at, target)) = self.timers.pop() {
                self.wake(at, target);
            }
        }
        self.finish()
    }

    fn wake(&mut self, at: Time, target: Target) {
        match target {
            Target::Start(index) => self.start(index),
            Target::Stop(index) => self.stop(index),
            Target::Arrival(index) => self.arrive(index),
            Target::Sender(number) => {
                let Some(flow) = &mut self.live[number as usize] else { return };
                if !flow.sender_timer.fire(at) {
                    return;
                }
                if flow.sender.next_timeout() <= at {
                    flow.sender.on_timeout(at);
                    if let Some(tap) = &mut self.tap {
                        tap.on_timer(at, number, flow.sender.as_ref());
                    }
                }
                self.pump(number);
            }
            Target::Receiver(number) => {
                let Some(flow) = &mut self.live[number as usize] else { return };
                if flow.receiver_timer.fire(at) {
                    self.acknowledge(number);
                }
            }
            Target::Application(number) => self.application(number),
            Target::Access(number) => {
                let Some(flow) = &mut self.live[number as usize] else { return };
                if let Some((_, packet)) = flow.access.pop_front() {
                    if let Some((at, _)) = flow.access.front() {
                        self.timers.set(*at, target);
                    }
                    self.deliver(&packet);
                }
            }
            Target::Return(number) => {
                let Some(flow) = &mut self.live[number as usize] else { return };
                if let Some((_, ack)) = flow.back.pop_front() {
                    if let Some((at, _)) = flow.back.front() {
                        self.timers.set(*at, target);
                    }
                    self.acknowledged(number, &ack);
                }
            }
            Target::Cross(index) => self.send_cross(index),
        }
    }

    fn start(&mut self, index: u32) {
        let flow = &self.configured[index as usize];
        match flow.workload {
            Workload::Poisson { .. } => self.arrive(index),
            Workload::Bytes(bytes) => {
                self.number[index as usize] = Some(self.begin(index, Some(bytes)));
            }
            Workload::Bulk | Workload::OnOff { .. } | Workload::Rate(_) => {
                let number = self.begin(index, None);
                self.number[index as usize] = Some(number);
                if flow_writes_in_turns(&self.configured[index as usize]) {
                    self.timers.set(self.now, Target::Application(number));
                }
            }
        }
    }

    /// A family's next flow arrives; the one after it is drawn.
    fn arrive(&mut self, index: u32) {
        let flow = &self.configured[index as usize];
        let Workload::Poisson { mean_gap, size, count } = &flow.workload else { return };
        let at = index as usize;
        if self.arrived[at] >= *count || flow.stop.is_some_and(|stop| self.now >= stop) {
            return;
        }
        self.arrived[at] += 1;
        let bytes = draw::pareto(&mut self.streams[at].sizes, size);
        let gap = draw::exponential(&mut self.streams[at].arrivals, *mean_gap);
        self.timers.set(self.now + gap, Target::Arrival(index));
        self.begin(index, Some(bytes));
    }

    /// A flow comes alive; the answer is its number.
    fn begin(&mut self, index: u32, goal: Option<u64>) -> u32 {
        let number = self.live.len() as u32;
        let flow = &self.configured[index as usize];
        let seed = self.seed.derive(&format!("controller {number}"));
        let env = Env { mss: flow.mss, seed, paced: flow.paced };
        let host = match flow.timers {
            Timing::Exact => None,
            Timing::Host => Some(Host::new(self.seed.stream(&format!("timers {number}")))),
        };
        let (mut sender, receiver) = endpoints::make(flow, &env);
        match (&flow.workload, goal) {
            (_, Some(bytes)) => sender.write(bytes),
            (Workload::Bulk, None) => sender.write(u64::MAX),
            _ => {}
        }
        self.families.push(Some(index));
        self.live.push(Some(Box::new(Live {
            family: index,
            down: flow.direction == Direction::Down,
            began: self.now,
            sender,
            receiver,
            sender_timer: Armed::default(),
            host,
            receiver_timer: Armed::default(),
            goal,
            busy: false,
            extra_delay: flow.extra_delay,
            access: VecDeque::new(),
            back: VecDeque::new(),
        })));
        self.pump(number);
        number
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
        let flow = &self.configured[live.family as usize];
        let rng = &mut self.streams[live.family as usize].application;
        let wait = match &flow.workload {
            Workload::Rate(rate) => {
                live.sender.write(u64::from(flow.mss));
                rate.time_for(u64::from(flow.mss))
            }
            Workload::OnOff { on, off, random } => {
                live.busy = !live.busy;
                if live.busy {
                    live.sender.write(u64::MAX);
                } else {
                    live.sender.cut();
                }
                let mean = if live.busy { *on } else { *off };
                if *random { draw::exponential(rng, mean) } else { mean }
            }
            Workload::Bulk | Workload::Bytes(_) | Workload::Poisson { .. } => return,
        };
        self.timers.set(self.now + wait, Target::Application(number));
        self.pump(number);
    }

    fn send_cross(&mut self, index: u32) {
        let cross = &self.cross[index as usize];
        if cross.stop.is_some_and(|stop| self.now >= stop) {
            return;
        }
        let gap = cross.rate.time_for(u64::from(cross.packet));
        let gap = if cross.poisson { draw::exponential(&mut self.cross_streams[index as usize], gap) } else { gap };
        let packet = Packet::new(index, cross.packet, Codepoint::NotEct, Body::Cross);
        let path = if cross.direction == Direction::Down { &mut self.down } else { &mut self.up };
        path.push(self.now, packet);
        self.timers.set(self.now + gap.max(Nanos::from_nanos(1)), Target::Cross(index));
    }

    /// Lets a sender send what it may, and sets its timer.
    fn pump(&mut self, number: u32) {
        let Some(flow) = &mut self.live[number as usize] else { return };
        let path = if flow.down { &mut self.down } else { &mut self.up };
        let recorder = &mut self.recorders[flow.family as usize];
        while flow.ready_at() <= self.now
            && let Some(segment) = flow.sender.poll_transmit(self.now)
        {
            if let Some(host) = &mut flow.host {
                host.sent(self.now);
            }
            if let Some(tap) = &mut self.tap {
                tap.on_sent(self.now, number, &segment);
            }
            recorder.outcome.packets_entered += 1;
            let packet = Packet::new(number, segment.wire_bytes(), codepoint(segment.ecn), Body::Data(segment));
            path.push(self.now, packet);
        }
        let (ready_at, due) = (flow.ready_at(), flow.sender.next_timeout());
        let wakes_at = match &mut flow.host {
            Some(_) if ready_at > self.now => ready_at,
            Some(host) => host.wakes_at(due),
            None => due,
        };
        flow.sender_timer.arm(&mut self.timers, wakes_at, Target::Sender(number));
    }

    /// A packet has come to the end of a path.
    fn leave_path(&mut self, packet: Packet<Body>) {
        match packet.body {
            Body::Cross => {}
            Body::Data(_) => {
                let number = packet.flow;
                let Some(flow) = &mut self.live[number as usize] else {
                    if let Some(family) = self.families[number as usize] {
                        self.recorders[family as usize].under_way += 1;
                    }
                    return;
                };
                if flow.extra_delay == Nanos::ZERO {
                    self.deliver(&packet);
                    return;
                }
                let mut packet = packet;
                packet.delay.propagation += flow.extra_delay;
                let at = self.now + flow.extra_delay;
                if flow.access.is_empty() {
                    self.timers.set(at, Target::Access(number));
                }
                flow.access.push_back((at, packet));
            }
            Body::Ack(ack) => {
                let number = packet.flow;
                let Some(flow) = &mut self.live[number as usize] else { return };
                let mut split = packet.delay;
                split.propagation += flow.extra_delay;
                self.recorders[flow.family as usize].outcome.ack_split.record(&split);
                if flow.extra_delay == Nanos::ZERO {
                    self.acknowledged(number, &ack);
                    return;
                }
                let at = self.now + flow.extra_delay;
                if flow.back.is_empty() {
                    self.timers.set(at, Target::Return(number));
                }
                flow.back.push_back((at, ack));
            }
        }
    }

    /// Data reaches its receiver.
    fn deliver(&mut self, packet: &Packet<Body>) {
        let number = packet.flow;
        let Some(flow) = &mut self.live[number as usize] else { return };
        let Body::Data(segment) = &packet.body else { return };
        let ce = packet.ecn == Codepoint::Ce;
        let delay = self.now.since(segment.sent_at);
        self.recorders[flow.family as usize].data_arrived(packet, delay);
        self.delay.record(delay);
        self.queue.record(packet.delay.queue);
        if let Some(tap) = &mut self.tap {
            tap.on_arrival(self.now, number, segment, ce, &packet.delay);
        }
        flow.receiver.on_segment(self.now, segment, ce);
        let done = flow.goal.is_some_and(|goal| flow.receiver.bytes_ready() >= goal);
        if done {
            self.complete(number);
        } else {
            self.acknowledge(number);
        }
    }

    /// Sends the acknowledgements that are due, and sets the receiver's timer.
    fn acknowledge(&mut self, number: u32) {
        let Some(flow) = &mut self.live[number as usize] else { return };
        let path = if flow.down { &mut self.up } else { &mut self.down };
        while let Some(ack) = flow.receiver.poll_ack(self.now) {
            path.push(self.now, Packet::new(number, ack.wire_bytes(), Codepoint::NotEct, Body::Ack(ack)));
        }
        flow.receiver_timer.arm(&mut self.timers, flow.receiver.next_timeout(), Target::Receiver(number));
    }

    /// An acknowledgement reaches its sender.
    fn acknowledged(&mut self, number: u32, ack: &AckSegment) {
        let Some(flow) = &mut self.live[number as usize] else { return };
        flow.sender.on_ack(self.now, ack);
        if let Some(rtt) = flow.sender.take_rtt() {
            self.recorders[flow.family as usize].outcome.rtt.record(rtt);
            self.rtt.record(rtt);
        }
        if let Some(tap) = &mut self.tap {
            tap.on_ack(self.now, number, ack, flow.sender.as_ref());
        }
        // Datagrams that were lost never arrive: such a flow is done when nothing of it is under way.
        if flow.goal.is_some() && flow.sender.is_idle() {
            self.complete(number);
        } else {
            self.pump(number);
        }
    }

    fn complete(&mut self, number: u32) {
        let Some(flow) = &self.live[number as usize] else { return };
        let (family, goal, took) = (flow.family as usize, flow.goal, self.now.since(flow.began));
        self.recorders[family].completed(goal.unwrap_or(0), took);
        self.retire(number);
    }

    fn retire(&mut self, number: u32) {
        if let Some(flow) = self.live[number as usize].take() {
            let recorder = &mut self.recorders[flow.family as usize];
            recorder.retire(self.now, flow.sender.as_ref(), flow.receiver.bytes_ready());
        }
    }

    /// What entered and neither arrived nor is still under way was dropped. The paths are emptied to find out.
    fn count_drops(&mut self) {
        let mut inside = vec![0; self.live.len()];
        for path in [&mut self.down, &mut self.up] {
            while path.next() < Time::NEVER {
                while let Some(packet) = path.pop(path.next()) {
                    inside[packet.flow as usize] += u64::from(matches!(packet.body, Body::Data(_)));
                }
            }
        }
        for (family, inside) in self.families.iter().zip(inside) {
            if let Some(family) = family {
                self.recorders[*family as usize].under_way += inside;
            }
        }
    }

    fn sample(&mut self) {
        let Some(series) = &mut self.series else { return };
        let (from, to, points) = (self.next_sample - series.step, self.next_sample, series.capacity_mbps.len());
        let capacity = capacity(&self.down, from, to);
        series.capacity_mbps.push(capacity.map_or(0.0, |bytes| bytes as f64 * 8e3 / series.step.as_nanos() as f64));
        series.queue_bytes.push(self.down.queued(to).bytes);
        for (recorder, number) in self.recorders.iter_mut().zip(&self.number) {
            let live = number.and_then(|number| self.live[number as usize].as_ref());
            let mss = self.configured[recorder.outcome.index].mss;
            recorder.sample(live.map(|live| live.sender.as_ref()), mss, series.step, points);
        }
        self.next_sample += series.step;
    }

    fn finish(mut self) -> Outcome {
        self.now = self.end;
        let down = self.down.stats(self.end).cloned().unwrap_or_default();
        let up = self.up.stats(self.end).cloned().unwrap_or_default();
        self.count_drops();
        for number in 0..self.live.len() as u32 {
            self.retire(number);
        }
        let mut series = self.series;
        let mut flows = Vec::with_capacity(self.recorders.len());
        for recorder in self.recorders {
            let (outcome, points) = recorder.finish();
            flows.push(outcome);
            if let (Some(series), Some(points)) = (&mut series, points) {
                series.flows.push(points);
            }
        }
        Outcome {
            flows,
            delay: self.delay,
            queue: self.queue,
            rtt: self.rtt,
            down_capacity_bytes: capacity(&self.down, Time::ZERO, self.end),
            up_capacity_bytes: capacity(&self.up, Time::ZERO, self.end),
            down,
            up,
            series,
            events: self.events,
        }
    }
}

fn capacity(path: &Path<Body>, from: Time, to: Time) -> Option<u64> {
    path.first_link().map(|link| link.schedule().capacity(from, to))
}

fn flow_writes_in_turns(flow: &Flow) -> bool {
    matches!(flow.workload, Workload::OnOff { .. } | Workload::Rate(_))
}

fn codepoint(ecn: Ecn) -> Codepoint {
    match ecn {
        Ecn::Off => Codepoint::NotEct,
        Ecn::Classic | Ecn::Exact => Codepoint::Ect0,
        Ecn::L4s => Codepoint::Ect1,
    }
}
