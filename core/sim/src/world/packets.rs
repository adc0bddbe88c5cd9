//! Packets in the event loop: from the end of a hop to the ends of their flow.

use paceline_cc::Codepoint;
use paceline_experiment::{Fate, Node};
use paceline_path::{DroppedPacket, Packet};

use super::World;
use crate::body::{Body, Load};
use crate::ends::Ends;
use crate::timers::Target;

impl World<'_> {
    /// A packet has come to the end of a hop.
    pub(super) fn leave_hop(&mut self, hop: u32, packet: Packet<Body>) {
        if let Some(next) = self.routes.next(packet.body.label.way, hop) {
            self.hops.push(next, self.now, packet);
            return;
        }
        self.reach(packet);
    }

    /// A packet has come to the end of its way, of which its flow may have a little more.
    #[inline(always)]
    pub(super) fn reach(&mut self, mut packet: Packet<Body>) {
        let number = packet.flow;
        let Some(flow) = self.live.get_mut(number) else { return self.reach_node(packet) };
        packet.delay.propagation += flow.extra_delay;
        let arrives_at = self.now + flow.extra_delay;
        let forward = match &packet.body.load {
            Load::Cross => return self.pool.empty(packet),
            Load::Data(_) | Load::Traced(_) => true,
            Load::Ack(_) | Load::Request(_) => false,
            Load::Bytes(bytes) => self.nodes.flow_at(bytes.packet.to).is_some(),
        };
        if forward {
            let at = flow.hosts.as_mut().map_or(arrives_at, |hosts| hosts.receiver_takes_in_at(arrives_at));
            if at == self.now && flow.access.is_empty() {
                self.deliver(packet);
                return;
            }
            if flow.access.is_empty() {
                self.timers.set(at, Target::Access(number));
            }
            flow.access.push_back((at, packet));
        } else {
            self.recorder.acknowledged(flow.family as usize, &packet.delay);
            let at = flow.hosts.as_mut().map_or(arrives_at, |hosts| hosts.sender_takes_in_at(arrives_at));
            if at == self.now && flow.back.is_empty() {
                self.returned(packet);
                return;
            }
            if flow.back.is_empty() {
                self.timers.set(at, Target::Return(number));
            }
            flow.back.push_back((at, packet));
        }
    }

    /// Data reaches where it goes.
    #[inline]
    pub(super) fn deliver(&mut self, packet: Packet<Body>) {
        let number = packet.flow;
        let Some(flow) = self.live.get_mut(number) else { return };
        let Some(segment) = packet.body.load.segment() else { return self.deliver_word(packet) };
        let ce = packet.ecn == Codepoint::Ce;
        let delay = self.now.since(segment.sent_at);
        self.recorder.arrived(flow.family as usize, &packet, delay);
        if let Some(tap) = &mut self.tap {
            tap.on_arrival(self.now, number - self.first, segment, ce, &packet.delay);
        }
        match &mut flow.ends {
            Ends::Push(_, receiver) => receiver.on_segment(self.now, segment, ce),
            Ends::Pull(requester, _) => {
                if let Some(rtt) = requester.on_segment(self.now, segment, ce) {
                    self.recorder.rtt(flow.family as usize, rtt);
                }
            }
            Ends::Fetch(fetch) => {
                if let Load::Bytes(bytes) = &packet.body.load {
                    fetch.on_packet(self.now, bytes.arrived(packet.ecn));
                    fetch.take_rtt().into_iter().for_each(|rtt| self.recorder.rtt(flow.family as usize, rtt));
                }
            }
        }
        let family = &self.families[flow.family as usize];
        if let (Some(frames), Some(segment)) = (&family.frames, packet.body.load.segment()) {
            if family.flow.via.in_order() {
                frames.ready(self.now, flow.ends.bytes_ready());
            } else {
                frames.arrived(self.now, segment.seq, u64::from(segment.bytes));
            }
        }
        let done = flow.goal.is_some_and(|goal| flow.ends.bytes_ready() >= goal);
        if let Load::Traced(traced) = &packet.body.load {
            self.traced_arrived(number, traced);
        }
        self.pool.empty(packet);
        if done {
            self.complete(number);
        } else {
            self.acknowledge(number);
        }
    }

    /// What a router has to say beside data reaches where that goes: tokens and refusals.
    fn deliver_word(&mut self, packet: Packet<Body>) {
        let number = packet.flow;
        if let (Some(flow), Load::Bytes(bytes)) = (self.live.get_mut(number), &packet.body.load)
            && let Ends::Fetch(fetch) = &mut flow.ends
        {
            fetch.on_packet(self.now, bytes.arrived(packet.ecn));
        }
        self.pool.empty(packet);
        self.release(number);
    }

    /// Sends the acknowledgements that are due and sets the receiver's timer, or asks for more.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, number: u32) {
        let Some(flow) = self.live.get_mut(number) else { return };
        let [_, hop] = flow.hops;
        let Ends::Push(_, receiver) = &mut flow.ends else { return self.release(number) };
        let mut due = receiver.next_timeout();
        while due <= self.now
            && let Some(packet) = self.pool.ack(flow.label, self.now, receiver.as_mut())
        {
            self.hops.push(hop, self.now, packet);
            due = receiver.next_timeout();
        }
        let wakes_at = flow.hosts.as_mut().map_or(due, |hosts| hosts.receiver_wakes_at(due));
        flow.receiver_timer.arm(&mut self.timers, wakes_at, Target::Receiver(number));
    }

    /// An acknowledgement reaches its sender, or a request its router.
    #[inline]
    pub(super) fn returned(&mut self, packet: Packet<Body>) {
        let number = packet.flow;
        let Some(flow) = self.live.get_mut(number) else { return };
        let sender = match (&mut flow.ends, &packet.body.load) {
            (Ends::Push(sender, _), _) => sender,
            (Ends::Pull(_, router), Load::Request(asked)) => {
                let ([hop, _], family, label) = (flow.hops, flow.family as usize, flow.label);
                for unit in router.answer(self.now, asked) {
                    if let Some(tap) = &mut self.tap {
                        tap.on_sent(self.now, number - self.first, &unit);
                    }
                    self.recorder.entered(family);
                    self.hops.push(hop, self.now, self.pool.unit(label, unit));
                }
                return self.pool.empty(packet);
            }
            (Ends::Pull(..), _) => return,
            (Ends::Fetch(_), _) => return self.reach_node(packet),
        };
        let Load::Ack(ack) = &packet.body.load else { return };
        if let Some(rtt) = sender.on_ack(self.now, ack) {
            self.recorder.rtt(flow.family as usize, rtt);
        }
        if let Some(tap) = &mut self.tap {
            tap.on_ack(self.now, number - self.first, ack, sender.as_ref());
        }
        // Datagrams that were lost never arrive: such a flow is done when nothing of it is under way.
        let paused = || self.families[flow.family as usize].pause.is_some();
        let done = flow.goal.is_some() && sender.is_idle() && !paused();
        self.pool.empty(packet);
        if done {
            self.complete(number);
        } else {
            self.release(number);
        }
    }

    /// Counts what the hops have dropped.
    pub(super) fn note_dropped(&mut self) {
        while let Some((hop, DroppedPacket { at, reason, packet, .. })) = self.hops.pop_dropped() {
            if let (Some(_), Some(family)) = (packet.body.load.segment(), packet.body.label.family) {
                self.recorder.dropped(family as usize, &packet);
                self.traced_dropped(&packet, reason);
                let number = match &packet.body.load {
                    Load::Bytes(bytes) => self.nodes.flow_at(bytes.packet.to).unwrap_or(packet.flow),
                    _ => packet.flow,
                };
                if let Some(tap) = &mut self.tap {
                    let hop = &self.hops.graph().hops()[hop as usize].name;
                    tap.on_dropped(number - self.first, &Fate { at, hop, reason });
                }
            }
            if self.live.get(packet.flow).is_none() {
                self.hops.forget(packet.flow);
            }
            self.pool.empty(packet);
        }
    }
}
