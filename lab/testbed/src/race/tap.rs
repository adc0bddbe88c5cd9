//! Recording in the emulator's thread: every packet of every flow, by the emulator's own clock.

use std::sync::{Arc, Mutex, PoisonError};

use paceline_cc::{Nanos, Time};
use paceline_experiment::{Direction, Flow, Graph, HopOutcome, Outcome, Recorder, Sample, Way};
use paceline_path::{Packet, Schedule};

use super::FLOW_PORT;
use paceline_emulator::emulator::{Passage, Tap};
use paceline_emulator::frame::{self, FlowKey};

/// What a thread of a flow shows to the series.
pub(super) type Glimpse = Arc<Mutex<Option<Sample>>>;

/// Watches a race.
pub(super) struct RaceTap {
    pub(super) recorder: Recorder,
    flows: Vec<Watched>,
    end: Time,
    /// The downward link, for the series.
    schedule: Option<Schedule>,
    step: Nanos,
    /// Changes of the bytes that wait downwards, by point of the series.
    waiting: Vec<i64>,
}

struct Watched {
    direction: Direction,
    /// From here on its packets no longer count.
    stop: Time,
    glimpse: Glimpse,
}

enum Role {
    Data,
    Acknowledgement,
}

impl RaceTap {
    pub(super) fn new(
        flows: &[Flow],
        glimpses: &[Glimpse],
        schedule: Option<Schedule>,
        sample_every: Option<Nanos>,
        end: Time,
    ) -> Self {
        let watched = |(flow, glimpse): (&Flow, &Glimpse)| {
            let family = matches!(flow.workload, paceline_experiment::Workload::Poisson(_));
            let stop = flow.stop.filter(|_| !family).unwrap_or(end).min(end);
            let direction = if flow.way == Way::UP { Direction::Up } else { Direction::Down };
            Watched { direction, stop, glimpse: glimpse.clone() }
        };
        let step = sample_every.unwrap_or(Nanos::ZERO);
        let points = if step > Nanos::ZERO { (end.as_nanos() / step.as_nanos()) as usize } else { 0 };
        Self {
            recorder: Recorder::new(flows, sample_every),
            flows: flows.iter().zip(glimpses).map(watched).collect(),
            end,
            schedule,
            step,
            waiting: vec![0; points + 1],
        }
    }

    /// Whose packet this is, and which kind; `None` when it is not counted for any flow.
    fn whose(&self, passage: &Passage<'_>) -> Option<(usize, Role)> {
        let key = frame::flow_key(passage.bytes)?;
        let index = |port: u16| {
            let index = usize::from(port.checked_sub(FLOW_PORT)?);
            (index < self.flows.len()).then_some(index)
        };
        if let Some(flow) =
            index(key.destination.port()).filter(|flow| self.flows[*flow].direction == passage.direction)
        {
            return holds_data(passage.bytes, &key).then_some((flow, Role::Data));
        }
        let flow = index(key.source.port()).filter(|flow| self.flows[*flow].direction != passage.direction)?;
        Some((flow, Role::Acknowledgement))
    }

    /// Ends the steps of the series that are over at `now`.
    fn sample(&mut self, now: Time) {
        while self.recorder.next_sample() <= now.min(self.end) {
            let to = self.recorder.next_sample();
            let capacity = self.schedule.as_ref().map(|schedule| schedule.capacity(to - self.step, to));
            let flows = &self.flows;
            // What waits is known only when it has left: filled in at the end.
            self.recorder
                .sample(capacity, 0, |flow| flows[flow].glimpse.lock().unwrap_or_else(PoisonError::into_inner).clone());
        }
    }

    /// A packet waited from `from` to `to` at the downward link.
    fn waited(&mut self, from: Time, to: Time, size: usize) {
        let (step, last) = (self.step.as_nanos(), self.waiting.len() - 1);
        if step == 0 {
            return;
        }
        // Point i stands for the moment (i + 1) * step.
        let point = |at: Time| ((at.as_nanos().div_ceil(step)).saturating_sub(1) as usize).min(last);
        self.waiting[point(from)] += size as i64;
        self.waiting[point(to)] -= size as i64;
    }

    /// What is left when the run is over.
    pub(super) fn finish(mut self, hops: Vec<HopOutcome>) -> Outcome {
        self.sample(self.end);
        let mut outcome = self.recorder.finish(Graph::dumbbell(), hops, 0);
        if let Some(series) = &mut outcome.series {
            let mut bytes = 0_i64;
            for (point, change) in series.queue_bytes.iter_mut().zip(&self.waiting) {
                bytes += change;
                *point = u64::try_from(bytes).unwrap_or(0);
            }
        }
        outcome
    }
}

impl Tap for RaceTap {
    fn entered(&mut self, passage: &Passage<'_>) {
        self.sample(passage.at);
        if let Some((flow, Role::Data)) = self.whose(passage)
            && passage.at <= self.flows[flow].stop
        {
            self.recorder.entered(flow);
        }
    }

    fn left(&mut self, passage: &Passage<'_>) {
        self.sample(passage.at);
        if passage.direction == Direction::Down {
            self.waited(passage.entered, passage.entered + passage.delay.queue, passage.bytes.len());
        }
        let Some((flow, role)) = self.whose(passage) else { return };
        if passage.at > self.flows[flow].stop {
            return;
        }
        match role {
            Role::Data => {
                let mut packet = Packet::new(0, passage.bytes.len() as u32, passage.ecn(), ());
                packet.delay = passage.delay;
                self.recorder.arrived(flow, &packet, passage.at - passage.entered);
            }
            Role::Acknowledgement => self.recorder.acknowledged(flow, &passage.delay),
        }
    }

    fn dropped(&mut self, passage: &Passage<'_>) {
        if passage.at <= self.end
            && let Some((flow, Role::Data)) = self.whose(passage)
            && passage.entered <= self.flows[flow].stop
        {
            self.recorder.dropped(flow, &Packet::new(0, passage.bytes.len() as u32, passage.ecn(), ()));
        }
    }
}

/// Whether a packet of a flow carries something: with TCP, bytes of the stream.
fn holds_data(packet: &[u8], key: &FlowKey) -> bool {
    const TCP: u8 = 6;
    if key.protocol != TCP {
        return true;
    }
    let Some(first) = packet.first() else { return false };
    let header = if first >> 4 == 4 { usize::from(first & 15) * 4 } else { 40 };
    let offset = packet.get(header + 12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    packet.len() > header + offset
}

#[cfg(test)]
mod tests {
    use paceline_experiment::Via;
    use paceline_path::Split;

    use super::*;

    fn flow(direction: Direction, stop: Option<Time>) -> Flow {
        Flow { way: direction.into(), stop, ..Flow::bulk("reno".parse().unwrap(), Via::Tcp) }
    }

    /// A TCP packet over IPv4 of `length` bytes.
    fn packet(from: u16, to: u16, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.max(40)];
        (bytes[0], bytes[9], bytes[32]) = (0x45, 6, 5 << 4);
        bytes[20..22].copy_from_slice(&from.to_be_bytes());
        bytes[22..24].copy_from_slice(&to.to_be_bytes());
        bytes
    }

    fn passage(direction: Direction, bytes: &[u8], entered: u64, at: u64) -> Passage<'_> {
        let (entered, at) = (Time::from_millis(entered), Time::from_millis(at));
        let delay = Split { queue: at - entered, ..Split::default() };
        Passage { link: 0, direction, id: 0, bytes, entered, at, released: at, delay, marked: false }
    }

    #[test]
    fn packets_count_for_their_flow_and_nothing_is_lost_on_the_way() {
        let flows = [flow(Direction::Down, None), flow(Direction::Up, Some(Time::from_millis(50)))];
        let glimpses: Vec<Glimpse> = vec![Arc::default(), Arc::default()];
        *glimpses[0].lock().unwrap() = Some(Sample { window: 14_480, ..Sample::default() });
        let end = Time::from_millis(100);
        let mut tap = RaceTap::new(&flows, &glimpses, None, Some(Nanos::from_millis(10)), end);
        let data = packet(40_000, FLOW_PORT, 1500);
        let ack = packet(FLOW_PORT, 40_000, 40);
        let upward = packet(40_001, FLOW_PORT + 1, 1000);
        let stranger = packet(40_000, FLOW_PORT + 2, 1000);
        // One arrives after 15 ms, one is dropped, one is still under way; what is no data does not count.
        for at in [0, 1, 2] {
            tap.entered(&passage(Direction::Down, &data, at, at));
        }
        tap.entered(&passage(Direction::Down, &packet(40_000, FLOW_PORT, 40), 3, 3));
        tap.entered(&passage(Direction::Up, &upward, 4, 4));
        tap.entered(&passage(Direction::Up, &stranger, 4, 4));
        tap.dropped(&passage(Direction::Down, &data, 1, 5));
        tap.left(&passage(Direction::Down, &data, 0, 15));
        tap.left(&passage(Direction::Up, &ack, 15, 16));
        // Comes when its flow has stopped.
        tap.left(&passage(Direction::Up, &upward, 4, 60));
        let outcome = tap.finish(Vec::new());

        let counts = |index: usize| {
            let flow = &outcome.flows[index];
            (flow.packets_entered, flow.packets_arrived, flow.packets_dropped, flow.wire_bytes_arrived)
        };
        assert_eq!((counts(0), counts(1)), ((3, 1, 1, 1500), (1, 0, 0, 0)));
        assert_eq!(outcome.flows[0].delay.max_ms(), Some(15.0));
        assert_eq!(outcome.flows[0].ack_split.count, 1);
        let series = outcome.series.unwrap();
        // It waited from 0 to 15 ms: at the end of the first step it was there.
        assert_eq!(series.queue_bytes, [1500, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(series.flows[0].window_packets, [10.0; 10]);
        assert_eq!(series.flows[0].throughput_mbps[1], 1.2);
    }
}
