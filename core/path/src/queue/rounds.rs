//! Deficit round robin among flows, those that were silent first: what FQ-CoDel (RFC 8290 section 4.2) and Linux `sch_fq.c` share.

use std::collections::VecDeque;

use crate::packet::Packet;

/// Whose turn it is. Flows are numbers from 0.
pub(super) struct Rounds {
    /// Bytes that a flow may send in a round, and in its first.
    quantum: i64,
    first: i64,
    /// By flow, as many as were seen.
    turns: Vec<Turn>,
    /// Flows with packets: those that were silent, and the others.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

#[derive(Clone, Copy, Default)]
struct Turn {
    deficit: i64,
    listed: bool,
}

/// What a flow has when it is its turn.
pub(super) enum Taken<P> {
    /// Its next packet.
    Packet(Packet<P>),
    /// Nothing.
    Nothing,
    /// Packets that may not leave yet: [`Rounds::resume`] puts it back.
    Held,
}

impl<P> From<Option<Packet<P>>> for Taken<P> {
    fn from(packet: Option<Packet<P>>) -> Self {
        packet.map_or(Self::Nothing, Self::Packet)
    }
}

impl Rounds {
    pub(super) fn new(quantum: u64, first: u64) -> Self {
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX / 2);
        let (turns, new, old) = Default::default();
        Self { quantum: bytes(quantum), first: bytes(first), turns, new, old }
    }

    /// A flow has a packet.
    pub(super) fn arrived(&mut self, flow: usize) {
        if self.turns.len() <= flow {
            self.turns.resize(flow + 1, Turn::default());
        }
        let turn = &mut self.turns[flow];
        if !turn.listed {
            *turn = Turn { deficit: self.first, listed: true };
            self.new.push_back(flow);
        }
    }

    /// A flow that was held may send again, behind the others.
    pub(super) fn resume(&mut self, flow: usize) {
        self.old.push_back(flow);
    }

    /// The next packet, which `take` takes from a flow.
    pub(super) fn pop<P>(&mut self, mut take: impl FnMut(usize) -> Taken<P>) -> Option<Packet<P>> {
        loop {
            let fresh = !self.new.is_empty();
            let list = if fresh { &mut self.new } else { &mut self.old };
            let flow = *list.front()?;
            let turn = &mut self.turns[flow];
            if turn.deficit <= 0 {
                turn.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(flow);
                continue;
            }
            match take(flow) {
                Taken::Packet(packet) => {
                    turn.deficit -= i64::from(packet.size);
                    return Some(packet);
                }
                Taken::Held => _ = list.pop_front(),
                Taken::Nothing => {
                    list.pop_front();
                    if fresh {
                        // Behind the others once, so that it cannot stay ahead of them by being silent for a moment.
                        self.old.push_back(flow);
                    } else {
                        turn.listed = false;
                    }
                }
            }
        }
    }
}
