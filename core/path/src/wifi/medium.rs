//! The medium of one channel: who contends for it, who is on the air, and what happens next.

use paceline_cc::{Nanos, Time};

use super::contention::{CW_MAX, CW_MIN, Contender, Contention, Interference};
use super::keys::{SharedChannel, Turns};
use super::phy::{ACK, CTS, RTS, SIFS};
use super::radio::WifiRole;
use super::sender::Sender;
use crate::packet::Packet;
use crate::random::{Purpose, Stream};
use crate::snapshot::LATELY;

/// While no one who is looked at has anything to send, competitors and interference are followed for this long before the next
/// packet (our choice: many exchanges; an hour of silence must not take long to pass).
const FOLLOWED: Nanos = Nanos::from_millis(1000);

/// Everything on one channel.
pub(super) struct Medium<P> {
    /// What was due by then has happened.
    now: Time,
    contention: Contention,
    /// Who the contenders are, by number.
    who: Vec<Who>,
    pub(super) senders: Vec<Sender<P>>,
    interference: Option<Interference>,
    shared: SharedChannel,
    /// On the air.
    exchange: Option<Exchange>,
    /// When a station sends, if nothing comes in between; [`Time::NEVER`] while something is on the air, or no one wants to.
    access: Time,
    /// When interference begins before that, or an outage ends that holds a station up.
    change: Time,
    usage: Usage,
    /// Scratch: who sends.
    winners: Vec<usize>,
}

enum Who {
    /// Always has full packets; how long an exchange of it lasts.
    Competitor { air: Nanos, rest: Nanos },
    /// A node of the topology.
    Node(Node),
}

struct Node {
    node: u32,
    /// Its directions, and how long each was on the air, for [`Turns::Airtime`] (start-time fair queueing: Goyal et al., SIGCOMM 1996).
    members: Vec<(usize, Nanos)>,
    /// Which had its turn last.
    last: usize,
    /// The time on the air of the one that had it, when it began.
    start: Nanos,
}

struct Exchange {
    began: Time,
    /// End of the data.
    ends: Time,
    /// End of the answer.
    idle: Time,
    /// Who was alone on the air; of several, none.
    winners: Vec<usize>,
    /// The senders whose frames are on the air.
    flying: Vec<usize>,
}

/// How much of the time the medium was busy, and for whom.
#[derive(Default)]
struct Usage {
    total: Nanos,
    own: Vec<Nanos>,
    /// At the two latest times of measuring, the older first.
    marks: [Mark; 2],
}

#[derive(Clone, Default)]
struct Mark {
    at: Time,
    total: Nanos,
    own: Vec<Nanos>,
}

impl<P: Send> Medium<P> {
    /// A channel with its competitors, of which each takes `full` for an exchange: data, and what follows.
    pub(super) fn new(shared: SharedChannel, full: (Nanos, Nanos), seed: u64) -> Self {
        let mut medium = Self {
            now: Time::ZERO,
            contention: Contention::default(),
            who: Vec::new(),
            senders: Vec::new(),
            interference: (shared.interference > 0.0).then(|| {
                Interference::new(shared.interference_on, shared.interference, Stream::new(seed, Purpose::Interference))
            }),
            shared,
            exchange: None,
            access: Time::NEVER,
            change: Time::NEVER,
            usage: Usage::default(),
            winners: Vec::new(),
        };
        let (air, rest) = full;
        for number in 0..u64::from(shared.competitors) {
            let stream = Stream::new(seed.wrapping_add(number), Purpose::Competitor);
            let who = medium.contention.add(Contender::new([CW_MIN, CW_MAX[0]], stream));
            medium.who.push(Who::Competitor { air, rest });
            medium.contention.want(who, Time::ZERO);
        }
        medium.plan(Time::ZERO);
        medium
    }

    /// A direction is added, which this node sends.
    pub(super) fn join(&mut self, sender: Sender<P>, node: u32, role: WifiRole, seed: u64) -> usize {
        let number = self.senders.len();
        self.senders.push(sender);
        self.usage.own.push(Nanos::ZERO);
        let known = self.who.iter_mut().find_map(|who| match who {
            Who::Node(known) if known.node == node => Some(known),
            _ => None,
        });
        if let Some(known) = known {
            known.members.push((number, Nanos::ZERO));
            return number;
        }
        let most = CW_MAX[usize::from(role == WifiRole::AccessPoint)];
        self.contention.add(Contender::new([CW_MIN, most], Stream::new(seed, Purpose::Backoff)));
        let members = vec![(number, Nanos::ZERO)];
        self.who.push(Who::Node(Node { node, members, last: 0, start: Nanos::ZERO }));
        number
    }

    /// When something happens next on the medium, or at a receiver; [`Time::NEVER`] when nothing does.
    pub(super) fn next(&self) -> Time {
        let air = self.exchange.as_ref().map_or(self.access.min(self.change), |exchange| exchange.ends);
        self.senders.iter().map(Sender::deadline).min().unwrap_or(Time::NEVER).min(air)
    }

    /// Does what is due by `now`.
    pub(super) fn advance(&mut self, now: Time) {
        while self.next() <= now {
            self.step(self.next());
        }
        self.now = self.now.max(now);
    }

    /// Does what is due by `now`, if anything waits that it could matter for.
    pub(super) fn look(&mut self, now: Time) {
        if self.senders.iter().any(Sender::is_busy) {
            self.advance(now);
        }
    }

    /// A packet comes to this sender. A time before what has happened already counts as that.
    pub(super) fn push(&mut self, number: usize, now: Time, packet: Packet<P>) {
        if !self.senders.iter().any(Sender::is_busy) {
            self.skip_to(now - FOLLOWED);
        }
        self.advance(now);
        let now = self.now;
        let waited = self.senders[number].has_frames();
        self.senders[number].arrive(now, packet);
        if !waited {
            self.catch_up(number);
        }
        if self.exchange.is_none() && !waited {
            self.gather(now);
        }
    }

    /// Nothing of what happens until then can be seen.
    fn skip_to(&mut self, to: Time) {
        if to <= self.now {
            return;
        }
        if self.exchange.as_ref().is_some_and(|exchange| exchange.ends < to) {
            self.step(self.next());
        }
        if self.exchange.is_some() {
            return;
        }
        if let Some(interference) = &mut self.interference {
            interference.skip_to(to);
        }
        self.now = to;
        self.contention.resume(to);
        self.plan(to);
    }

    /// A direction that had nothing to send owes its node nothing, and is owed nothing.
    fn catch_up(&mut self, number: usize) {
        for who in &mut self.who {
            let Who::Node(Node { members, start, .. }) = who else { continue };
            if let Some((_, used)) = members.iter_mut().find(|(member, _)| *member == number) {
                *used = (*used).max(*start);
            }
        }
    }

    fn step(&mut self, at: Time) {
        self.now = at;
        self.senders.iter_mut().for_each(|sender| sender.expire(at));
        if let Some(exchange) = self.exchange.take_if(|exchange| exchange.ends <= at) {
            self.end(exchange);
        } else if self.exchange.is_none() && self.change <= at {
            self.interrupt(at);
        } else if self.exchange.is_none() && self.access <= at {
            self.begin(at);
        }
    }

    /// All who have something to send contend from `now` on, or from when the medium is idle.
    fn gather(&mut self, now: Time) {
        for (who, kind) in self.who.iter().enumerate() {
            let wants = match kind {
                Who::Competitor { .. } => true,
                Who::Node(node) => {
                    let ready = |number: usize| {
                        let sender = &self.senders[number];
                        sender.has_frames() && sender.may_send(now) == now
                    };
                    node.members.iter().any(|(number, _)| ready(*number))
                }
            };
            if wants {
                self.contention.want(who, now);
            }
        }
        self.plan(now);
    }

    /// Looks up who sends when, and what comes before that.
    fn plan(&mut self, now: Time) {
        self.access = self.contention.access();
        let waits = self.senders.iter().filter(|sender| sender.has_frames());
        let outage = waits.map(|sender| sender.may_send(now)).filter(|end| *end > now).min();
        self.change = outage.unwrap_or(Time::NEVER);
        if self.access < Time::NEVER
            && let Some(interference) = &mut self.interference
        {
            let (from, _) = interference.at(now);
            if from < self.access {
                self.change = self.change.min(from.max(now));
            }
        }
    }

    /// Interference begins, or an outage ends.
    fn interrupt(&mut self, at: Time) {
        let free = self.free_from(at);
        if free > at {
            self.contention.freeze(at);
            self.contention.resume(free);
        }
        self.gather(free);
    }

    /// The end of interference that is there at `at`.
    fn free_from(&mut self, at: Time) -> Time {
        let Some(interference) = &mut self.interference else { return at };
        let (from, to) = interference.at(at);
        let free = if from <= at { to } else { at };
        self.usage.total += free - at;
        free
    }

    /// A station sends.
    fn begin(&mut self, at: Time) {
        let mut winners = std::mem::take(&mut self.winners);
        self.contention.win(at, &mut winners);
        let mut flying = Vec::new();
        let silent = self.shared.rts && winners.len() > 1;
        let mut longest: Option<(Nanos, Nanos)> = None;
        winners.retain(|who| {
            let on_air = match &mut self.who[*who] {
                Who::Competitor { air, rest } => Some((*air, *rest)),
                // The request alone is on the air; who had something to send still has.
                Who::Node(_) if silent => Some((RTS, SIFS)),
                Who::Node(node) => node.send(&mut self.senders, self.shared.turns, at).map(|(number, aggregate)| {
                    flying.push(number);
                    let ahead = if self.shared.rts { RTS + SIFS + CTS + SIFS } else { Nanos::ZERO };
                    (ahead + aggregate.air, aggregate.rest)
                }),
            };
            longest = longest.max(on_air);
            on_air.is_some()
        });
        let Some((air, rest)) = longest else {
            // Its queue dropped all that it had.
            self.winners = winners;
            self.contention.freeze(at);
            self.contention.resume(at);
            self.gather(at);
            return;
        };
        // After a collision the answer does not come.
        let (air, rest) = match winners.len() {
            1 => (air, rest),
            _ if silent => (RTS, SIFS + CTS),
            _ => (air, SIFS + ACK),
        };
        let ends = at + air;
        self.exchange = Some(Exchange { began: at, ends, idle: ends + rest, winners, flying });
        (self.access, self.change) = (Time::NEVER, Time::NEVER);
    }

    /// The data of an exchange end.
    fn end(&mut self, exchange: Exchange) {
        let Exchange { began, ends, idle, winners, flying } = exchange;
        let collided = winners.len() > 1;
        let (air, whole) = (ends - began, idle - began);
        let mut arrived = !collided;
        for number in &flying {
            let sender = &mut self.senders[*number];
            arrived = sender.end(ends, air, collided);
            sender.air.collisions += u64::from(collided);
            sender.air.time += whole;
            if !collided {
                self.usage.own[*number] += whole;
            }
        }
        self.usage.total += whole;
        self.usage.mark(idle);
        for who in &winners {
            self.contention.settle(*who, arrived && !collided);
            if let Who::Node(node) = &mut self.who[*who] {
                node.charge(&flying, whole);
            }
        }
        self.winners = winners;
        if let Some(interference) = &mut self.interference {
            interference.wait(idle);
        }
        let free = self.free_from(idle);
        self.contention.resume(free);
        self.gather(free);
    }

    /// Which share of the time up to `now` the medium was busy for others than this sender.
    pub(super) fn others(&self, number: usize, now: Time) -> f64 {
        let Usage { total, own, marks: [mark, _] } = &self.usage;
        let before = mark.own.get(number).copied().unwrap_or(Nanos::ZERO);
        let busy = (*total - mark.total) - (own[number] - before);
        let span = now - mark.at;
        if span == Nanos::ZERO { 0.0 } else { (busy.as_secs_f64() / span.as_secs_f64()).min(1.0) }
    }
}

impl Node {
    /// The next of its directions that has something to send puts it on the air.
    fn send<P: Send>(
        &mut self,
        senders: &mut [Sender<P>],
        turns: Turns,
        at: Time,
    ) -> Option<(usize, super::sender::Aggregate)> {
        let count = self.members.len();
        let mut order: Vec<usize> = (1..=count).map(|step| (self.last + step) % count).collect();
        if turns == Turns::Airtime {
            order.sort_by_key(|member| self.members[*member].1);
        }
        for member in order {
            let (number, used) = self.members[member];
            let sender = &mut senders[number];
            if !sender.has_frames() || sender.may_send(at) > at {
                continue;
            }
            if let Some(aggregate) = sender.send(at) {
                (self.last, self.start) = (member, used);
                return Some((number, aggregate));
            }
        }
        None
    }

    /// Its direction was on the air for this long.
    fn charge(&mut self, flying: &[usize], time: Nanos) {
        for (_, used) in self.members.iter_mut().filter(|(number, _)| flying.contains(number)) {
            *used += time;
        }
    }
}

impl Usage {
    /// Measures from then on, if it is time.
    fn mark(&mut self, at: Time) {
        if at - self.marks[1].at >= LATELY {
            self.marks.swap(0, 1);
            let Self { total, own, .. } = self;
            self.marks[1] = Mark { at, total: *total, own: own.clone() };
        }
    }
}
