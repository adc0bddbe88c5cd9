//! Telemetry in the event loop: from the packets that carry it to the reports that senders hear.

use paceline_cc::Time;
use paceline_experiment::topology;
use paceline_path::{DropReason, Packet};

use super::World;
use crate::body::{Body, Load};
use crate::ends::Ends;
use crate::telemetry::{Carried, Traced};
use crate::timers::Target;

impl World<'_> {
    /// Telemetry of a flow that is about to live, where the configured one carries it.
    pub(super) fn carried(&self, index: u32, number: u32) -> Option<Box<Carried>> {
        let flow = &self.families[index as usize].flow;
        let config = flow.telemetry.as_ref()?;
        let route = self.hops.graph().route(flow.way)?;
        let back = self.hops.least(&topology::back(&route)) + flow.extra_delay;
        Some(Box::new(Carried::new(config, self.seed, number, route, back, self.now)))
    }

    /// A packet of data with telemetry reaches its receiver.
    pub(super) fn traced_arrived(&mut self, number: u32, traced: &Traced) {
        let Some(flow) = self.live.get_mut(number) else { return };
        let receiver = self.families[flow.family as usize].flow.way.to;
        let Some(telemetry) = &mut flow.telemetry else { return };
        if telemetry.nodes_due(self.now) {
            for index in 0..telemetry.route.len() {
                if let Some(report) = self.hops.node_report(telemetry.route[index], self.now) {
                    telemetry.sink().node(&report);
                }
            }
        }
        telemetry.arrived(self.now, traced, self.trails.entry(receiver).or_default());
        self.report(number);
    }

    /// A packet of data was dropped.
    pub(super) fn traced_dropped(&mut self, packet: &Packet<Body>, reason: DropReason) {
        if let (Load::Traced(traced), Some(flow), false) =
            (&packet.body.load, self.live.get_mut(packet.flow), packet.copy)
            && let Some(telemetry) = &mut flow.telemetry
        {
            telemetry.dropped(traced, reason);
        }
    }

    /// The sink's timer has come.
    pub(super) fn sink_wakes(&mut self, number: u32, at: Time) {
        let Some(flow) = self.live.get_mut(number) else { return };
        let Some(telemetry) = &mut flow.telemetry else { return };
        if telemetry.sink_timer.fire(&mut self.timers, at, Target::Sink(number)) {
            self.report(number);
        }
    }

    /// A sink reports what is due, and sets its timer.
    fn report(&mut self, number: u32) {
        let Some(flow) = self.live.get_mut(number) else { return };
        let Some(telemetry) = &mut flow.telemetry else { return };
        if let Some(at) = telemetry.report(self.now) {
            self.timers.set(at, Target::Report(number));
        }
        let due = telemetry.sink_timeout();
        telemetry.sink_timer.arm(&mut self.timers, due, Target::Sink(number));
    }

    /// Reports reach a sender, which may send more afterwards.
    pub(super) fn take_reports(&mut self, number: u32) {
        let Some(flow) = self.live.get_mut(number) else { return };
        let Some(telemetry) = &mut flow.telemetry else { return };
        let Ends::Push(sender, _) = &mut flow.ends else { return };
        let next = telemetry.take_in(self.now, sender.as_mut());
        self.timers.set(next, Target::Report(number));
        self.release(number);
    }
}
