//! What the agent writes for the module: one answer for each slot of the array that both have in memory.

use std::sync::atomic::Ordering;

use crate::mapped::Mapped;

/// What the agent wants of a flow: `struct answer` of `agent.h`, but for what this writes itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Bytes a second; 0: the window alone limits the flow.
    pub(super) rate: u64,
    /// Which flow of its slot.
    pub(super) generation: u32,
    /// In packets.
    pub(super) window: u32,
    /// Time between reports in microseconds.
    pub(super) interval: u32,
    /// Packets delivered by the report that it answers.
    pub(super) delivered: u32,
    /// Recoveries, echoes and timeouts that are known.
    pub(super) episodes: u32,
    /// `ANSWER_*`.
    pub(super) flags: u32,
}

pub(super) const DECLINED: u32 = 1;
pub(super) const GLIDES: u32 = 2;
pub(super) const FOLLOWS: u32 = 4;
pub(super) const BUDGET: u32 = 8;

/// Bytes of `struct answer`, `struct control` and `struct counts`.
pub(super) const ANSWER_BYTES: usize = 40;
pub(super) const CONTROL_BYTES: usize = 16;
pub(super) const COUNTS_BYTES: usize = 24;

/// The answers of all slots.
pub(super) struct Answers(pub(super) Mapped);

impl Answers {
    /// Writes what the module reads at the flow's next event.
    pub(super) fn write(&self, slot: u32, answer: &Answer) {
        let start = slot as usize * ANSWER_BYTES;
        let put = |offset: usize, value: u32| self.0.word(start + offset).store(value, Ordering::Relaxed);
        self.0.wide(start).store(answer.rate, Ordering::Relaxed);
        put(16, answer.window);
        put(20, answer.interval);
        put(24, answer.delivered);
        put(28, answer.episodes);
        put(32, answer.flags);
        self.0.word(start + 8).store(answer.generation, Ordering::Release);
        self.0.word(start + 12).fetch_add(1, Ordering::Release);
    }
}
