//! The picture while it moves: what flows and queues do, in 300 steps of a run.

use std::sync::{Arc, Mutex};

use paceline_cc::observe::Observer;
use paceline_cc::{Nanos, Time};
use paceline_experiment::{Graph, Layer, SharedTap, Subject, Tap};
use paceline_lab::contestant::Contestant;
use paceline_lab::record::rounded;
use paceline_lab::scenario::Plan;
use paceline_path::{DelaySplit, Snapshot};
use paceline_transport::{AckSegment, Segment, Sender};
use serde_json::{Value, json};

use crate::browser;

/// Steps of a run: what a plot of some hundred points shows (our choice).
const STEPS: u64 = 300;
/// Flows that are shown (our choice, as of the series in `paceline_experiment::record`).
const MOST: usize = 16;

/// Tells the page at the end of each step.
struct Moving {
    every: Nanos,
    contestant: Contestant,
    run: u32,
    flows: Vec<Shown>,
}

/// A flow in the present step.
#[derive(Default)]
struct Shown {
    controller: String,
    /// Its controller is the contestant's.
    own: bool,
    mss: u32,
    window: Option<u64>,
    srtt: Option<Nanos>,
    bytes: u64,
    packets: u32,
    delay: Nanos,
    queue: Nanos,
}

/// Sees a run of this plan.
pub(crate) fn tap(plan: &Plan, contestant: &Contestant) -> SharedTap {
    let nanos = Nanos::from_secs_f64(plan.scenario.seconds).as_nanos();
    let every = Nanos::from_nanos((nanos / STEPS).max(1));
    Arc::new(Mutex::new(Moving { every, contestant: contestant.clone(), run: plan.number, flows: Vec::new() }))
}

impl Moving {
    fn flow(&mut self, number: u32) -> Option<&mut Shown> {
        self.flows.get_mut(number as usize)
    }
}

impl Shown {
    /// The step is over, which was so long.
    fn told(&mut self, number: usize, step: Nanos) -> Value {
        let mean = |sum: Nanos| (self.packets > 0).then(|| rounded(sum.as_millis_f64() / f64::from(self.packets)));
        let told = json!({
            "flow": number + 1,
            "name": self.controller,
            "own": self.own,
            "window_packets": self.window.map(|bytes| rounded(bytes as f64 / f64::from(self.mss.max(1)))),
            "throughput_mbps": rounded(self.bytes as f64 * 8e-6 / step.as_secs_f64()),
            "queue_ms": mean(self.queue),
            "delay_ms": mean(self.delay),
            "srtt_ms": self.srtt.map(|span| rounded(span.as_millis_f64())),
        });
        (self.bytes, self.packets, self.delay, self.queue) = (0, 0, Nanos::ZERO, Nanos::ZERO);
        told
    }
}

impl Tap for Moving {
    fn observer(&mut self, of: &Subject<'_>) -> Option<Box<dyn Observer>> {
        let number = of.flow as usize;
        if number < MOST {
            if self.flows.len() <= number {
                self.flows.resize_with(number + 1, Shown::default);
            }
            let own = self.contestant.controller.clone().over(self.contestant.via.datapath()) == *of.spec;
            let flow = &mut self.flows[number];
            flow.own |= own;
            flow.mss = of.env.mss;
            // Of two controllers of a flow the upper one is the contestant's.
            if flow.controller.is_empty() || of.layer == Layer::Above {
                flow.controller = of.spec.to_string();
            }
        }
        None
    }

    fn on_arrival(&mut self, now: Time, flow: u32, segment: &Segment, _ce: bool, delay: &DelaySplit) {
        let Some(flow) = self.flow(flow) else { return };
        flow.bytes += u64::from(segment.wire_bytes());
        flow.packets += 1;
        flow.delay += now.since(segment.sent_at);
        flow.queue += delay.queue;
    }

    fn on_ack(&mut self, _now: Time, flow: u32, _ack: &AckSegment, sender: &dyn Sender) {
        if let Some(flow) = self.flow(flow) {
            flow.window = Some(sender.window());
            flow.srtt = sender.srtt();
        }
    }

    fn snapshot_every(&self) -> Option<Nanos> {
        Some(self.every)
    }

    fn on_snapshot(&mut self, now: Time, graph: &Graph, hops: &[Option<Snapshot>]) {
        let step = self.every;
        let flows: Vec<Value> =
            self.flows.iter_mut().enumerate().map(|(number, flow)| flow.told(number, step)).collect();
        let links = graph.hops().iter().zip(hops).filter_map(|(hop, seen)| {
            let seen = seen.as_ref()?;
            Some(json!({
                "name": hop.name,
                "link_queue_packets": seen.queued.packets,
                "link_queue_bytes": seen.queued.bytes,
                "capacity_mbps": rounded(seen.capacity.as_mbps()),
            }))
        });
        browser::tell(&json!({
            "told": "points",
            "contestant": self.contestant.to_string(),
            "run": self.run,
            "at_s": rounded((now - Time::ZERO).as_secs_f64()),
            "flows": flows,
            "links": links.collect::<Vec<_>>(),
        }));
    }
}
