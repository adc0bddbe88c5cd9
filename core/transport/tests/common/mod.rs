//! A loop-back path for tests: a fixed delay each way, and loss, duplication and reordering drawn from a seed.

pub(crate) mod spy;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paceline_cc::{Controller, Env, Nanos, Spec, Time};
use paceline_transport::{AckSegment, Receiver, Segment, Sender};

/// Payload of a full packet.
pub(crate) const MSS: u64 = 1448;

/// A controller by name.
pub(crate) fn controller(spec: &str) -> Box<dyn Controller> {
    spec.parse::<Spec>().expect("a registered controller").build(&Env::default())
}

/// A small generator (splitmix64), so that a run is a function of its seed.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && (self.next() >> 11) as f64 / ((1u64 << 53) as f64) < share
    }
}

/// What the path does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) seed: u64,
    /// Each way.
    pub(crate) delay: Nanos,
    pub(crate) data_loss: f64,
    pub(crate) ack_loss: f64,
    pub(crate) duplicate: f64,
    /// Share of packets that arrive later by up to `late`.
    pub(crate) reorder: f64,
    pub(crate) late: Nanos,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            seed: 1,
            delay: Nanos::from_millis(10),
            data_loss: 0.0,
            ack_loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            late: Nanos::ZERO,
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Data(Segment, bool),
    Ack(AckSegment),
}

/// What the tester decides about a data packet: lost, marked, later by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fate {
    pub(crate) lost: bool,
    pub(crate) ce: bool,
    pub(crate) later: Nanos,
}

/// Decides about the n-th packet sent (from 0), retransmissions included.
pub(crate) type Decide = Box<dyn FnMut(usize, &Segment) -> Fate>;

/// A sender and a receiver on a path.
pub(crate) struct Loop {
    pub(crate) now: Time,
    pub(crate) sender: Box<dyn Sender>,
    pub(crate) receiver: Box<dyn Receiver>,
    pub(crate) path: Path,
    /// Every packet that left, with its time.
    pub(crate) sent: Vec<(Time, Segment)>,
    /// Every acknowledgement that arrived.
    pub(crate) acks: Vec<(Time, AckSegment)>,
    /// The newest that the sender learned.
    pub(crate) rtt: Option<Nanos>,
    pub(crate) fate: Decide,
    pub(crate) data_arrived: u64,
    draw: Draw,
    events: BinaryHeap<Reverse<(Time, u64, usize)>>,
    store: Vec<Option<Event>>,
    count: u64,
    packets: usize,
}

impl Loop {
    pub(crate) fn new(path: Path, sender: Box<dyn Sender>, receiver: Box<dyn Receiver>) -> Self {
        Self {
            now: Time::ZERO,
            sender,
            receiver,
            path,
            sent: Vec::new(),
            acks: Vec::new(),
            rtt: None,
            fate: Box::new(|_, _| Fate::default()),
            data_arrived: 0,
            draw: Draw(path.seed),
            events: BinaryHeap::new(),
            store: Vec::new(),
            count: 0,
            packets: 0,
        }
    }

    fn post(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.store.push(Some(event));
        self.events.push(Reverse((at, self.count, self.store.len() - 1)));
    }

    fn copies(&mut self, loss: f64) -> Vec<Nanos> {
        let mut copies = Vec::new();
        if self.draw.chance(loss) {
            return copies;
        }
        let count = if self.draw.chance(self.path.duplicate) { 2 } else { 1 };
        for _ in 0..count {
            let late = self.path.late.as_nanos();
            let extra = if late > 0 && self.draw.chance(self.path.reorder) { self.draw.next() % late } else { 0 };
            copies.push(self.path.delay + Nanos::from_nanos(extra));
        }
        copies
    }

    fn pump(&mut self) {
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            self.sent.push((self.now, segment));
            let fate = (self.fate)(self.packets, &segment);
            self.packets += 1;
            assert!(self.packets < 10_000_000, "the sender never stops");
            for delay in self.copies(self.path.data_loss) {
                if !fate.lost {
                    self.post(self.now + delay + fate.later, Event::Data(segment, fate.ce));
                }
            }
        }
        while let Some(ack) = self.receiver.poll_ack(self.now) {
            for delay in self.copies(self.path.ack_loss) {
                self.post(self.now + delay, Event::Ack(ack.clone()));
            }
        }
    }

    /// Runs until `end`, or until the sender is idle if that is wanted. Says whether it is idle.
    pub(crate) fn run(&mut self, end: Time, until_idle: bool) -> bool {
        let mut stuck = 0;
        loop {
            self.pump();
            if until_idle && self.sender.is_idle() {
                return true;
            }
            let event = self.events.peek().map_or(Time::NEVER, |Reverse((at, _, _))| *at);
            let next = event.min(self.sender.next_timeout()).min(self.receiver.next_timeout());
            if next > end {
                self.now = end;
                return self.sender.is_idle();
            }
            stuck = if next <= self.now { stuck + 1 } else { 0 };
            assert!(stuck < 100_000, "time stands still at {}", self.now);
            self.now = self.now.max(next);
            if event <= self.now {
                let Some(Reverse((_, _, index))) = self.events.pop() else { continue };
                match self.store[index].take() {
                    Some(Event::Data(segment, ce)) => {
                        self.data_arrived += u64::from(segment.bytes);
                        self.receiver.on_segment(self.now, &segment, ce);
                    }
                    Some(Event::Ack(ack)) => {
                        self.rtt = self.sender.on_ack(self.now, &ack).or(self.rtt);
                        self.acks.push((self.now, ack));
                    }
                    None => {}
                }
            }
            if self.sender.next_timeout() <= self.now {
                self.sender.on_timeout(self.now);
            }
        }
    }

    /// Runs until everything written has been delivered.
    pub(crate) fn finish(&mut self, limit: Time) {
        assert!(self.run(limit, true), "not done at {limit}: {:?}", self.sender.stats());
    }
}
