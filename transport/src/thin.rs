//! Thin stand-in.
use crate::{endpoint::*, segment::*};
use paceline_cc::*;
use std::collections::VecDeque;

#[derive(Clone, Copy)]
struct Rec {
    seq: u64,
    bytes: u32,
    sent_at: Time,
    tag: u64,
    retx: bool,
    sacked: bool,
    lost: bool,
    delivered: u64,
    dt: Time,
    fs: Time,
}
pub struct Thin {
    c: Box<dyn Controller>,
    mss: u32,
    limit: u64,
    next: u64,
    una: u64,
    q: VecDeque<Rec>,
    infl: u64,
    delivered: u64,
    dt: Time,
    fs: Time,
    srtt: Nanos,
    var: Nanos,
    minrtt: Nanos,
    last_rtt: Option<Nanos>,
    last_dep: Time,
    last_bytes: u32,
    rto_at: Time,
    recover: u64,
    phase: Phase,
    stats: SenderStats,
    reliable: bool,
    ce: u64,
    ceb: u64,
    echo_until: u64,
    count: u32,
    high: u64,
}
impl Thin {
    pub fn new(c: Box<dyn Controller>, mss: u32, reliable: bool) -> Self {
        Self {
            c,
            mss,
            limit: 0,
            next: 0,
            una: 0,
            q: VecDeque::new(),
            infl: 0,
            delivered: 0,
            dt: Time::ZERO,
            fs: Time::ZERO,
            srtt: Nanos::ZERO,
            var: Nanos::ZERO,
            minrtt: Nanos::MAX,
            last_rtt: None,
            last_dep: Time::ZERO,
            last_bytes: 0,
            rto_at: Time::NEVER,
            recover: 0,
            phase: Phase::Open,
            stats: SenderStats::default(),
            reliable,
            ce: 0,
            ceb: 0,
            echo_until: 0,
            count: 0,
            high: 0,
        }
    }
    fn depart(&self) -> Time {
        if self.stats.packets_sent == 0 {
            return Time::ZERO;
        }
        match self.c.pacing() {
            Pacing::Free => Time::ZERO,
            Pacing::Rate(r) => self.last_dep + r.time_for(u64::from(self.last_bytes)),
            Pacing::Gap(g) => {
                if g == Nanos::MAX {
                    Time::NEVER
                } else {
                    self.last_dep + g
                }
            }
        }
    }
    fn rto(&self) -> Nanos {
        if self.srtt == Nanos::ZERO {
            Nanos::from_secs(1)
        } else {
            self.srtt + self.var.mul_div(4, 1).max(Nanos::from_millis(200))
        }
    }
    fn emit(&mut self, now: Time, seq: u64, bytes: u32, retx: bool) -> Segment {
        if self.infl == 0 {
            self.fs = now;
            self.dt = now;
        }
        self.infl += u64::from(bytes);
        let s =
            self.c.on_sent(&Sent { now, seq, bytes, in_flight: self.infl, retransmission: retx, app_limited: false });
        let dep = self.depart();
        self.last_dep = if matches!(self.c.pacing(), Pacing::Rate(_))
            && dep + Nanos::from_millis(1) > now
            && self.stats.packets_sent > 0
        {
            dep.min(now)
        } else {
            now
        };
        self.last_bytes = bytes;
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += u64::from(bytes);
        if retx {
            self.stats.retransmits += 1;
        }
        let rec = Rec {
            seq,
            bytes,
            sent_at: now,
            tag: s.tag,
            retx,
            sacked: false,
            lost: false,
            delivered: self.delivered,
            dt: self.dt,
            fs: self.fs,
        };
        if retx {
            let i = self.q.partition_point(|r| r.seq < seq);
            self.q[i] = rec;
        } else {
            self.q.push_back(rec);
        }
        if self.rto_at == Time::NEVER {
            self.rto_at = now + self.rto();
        }
        Segment { seq, bytes, sent_at: now, retransmission: retx, cwr: false, ecn: self.c.ecn(), note: s.note }
    }
}
impl Sender for Thin {
    fn write(&mut self, b: u64) {
        self.limit = self.limit.saturating_add(b);
    }
    fn cut(&mut self) {
        self.limit = self.next;
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if self.depart() > now {
            return None;
        }
        if self.infl + u64::from(self.mss) > self.c.window() && self.infl > 0 {
            return None;
        }
        if self.reliable {
            if let Some(r) = self.q.iter().find(|r| r.lost) {
                let r = *r;
                return Some(self.emit(now, r.seq, r.bytes, true));
            }
        }
        if self.next >= self.limit {
            return None;
        }
        let b = (self.limit - self.next).min(u64::from(self.mss)) as u32;
        let seq = self.next;
        self.next += u64::from(b);
        Some(self.emit(now, seq, b, false))
    }
    fn on_ack(&mut self, now: Time, ack: &AckSegment) {
        if let Some(f) = &ack.feedback {
            let _ = self.c.on_feedback(now, f);
        }
        let prior = self.infl;
        let mut acked = Vec::new();
        let mut best: Option<Rec> = None;
        let mut rtt = None;
        let una = ack.cumulative;
        let mut take = |r: &mut Rec, infl: &mut u64, delivered: &mut u64| {
            if !r.sacked {
                r.sacked = true;
                if !r.lost {
                    *infl -= u64::from(r.bytes);
                }
                r.lost = false;
                *delivered += u64::from(r.bytes);
                if !r.retx {
                    rtt = Some(now - r.sent_at);
                }
                if best.is_none_or(|b| r.delivered >= b.delivered) {
                    best = Some(*r);
                }
                acked.push(Acked {
                    seq: r.seq,
                    bytes: r.bytes,
                    sent_at: r.sent_at,
                    tag: r.tag,
                    retransmitted: r.retx,
                    app_limited: false,
                    ce: false,
                    received_at: Some(ack.received_at),
                });
            }
        };
        if self.reliable {
            for r in self.q.iter_mut().take_while(|r| r.seq < una) {
                take(r, &mut self.infl, &mut self.delivered);
            }
        }
        for s in ack.sacks() {
            let i = self.q.partition_point(|r| r.seq < s.start);
            for r in self.q.iter_mut().skip(i).take_while(|r| r.seq < s.end) {
                take(r, &mut self.infl, &mut self.delivered);
            }
            self.high = self.high.max(s.end);
        }
        self.high = self.high.max(una);
        if self.reliable {
            self.una = self.una.max(una);
            while self.q.front().is_some_and(|r| r.seq < self.una) {
                self.q.pop_front();
            }
        } else {
            while self.q.front().is_some_and(|r| r.sacked || r.lost) {
                self.q.pop_front();
            }
            self.una = self.q.front().map_or(self.next, |r| r.seq);
        }
        let bytes: u64 = acked.iter().map(|a| u64::from(a.bytes)).sum();
        self.stats.bytes_delivered = self.delivered;
        if bytes > 0 {
            self.dt = now;
            self.count = 0;
            self.rto_at = Time::NEVER;
        }
        if let Some(x) = rtt {
            self.last_rtt = Some(x);
            self.minrtt = self.minrtt.min(x);
            if self.srtt == Nanos::ZERO {
                self.srtt = x;
                self.var = x.mul_div(1, 2);
            } else {
                let d = if x > self.srtt { x - self.srtt } else { self.srtt - x };
                self.var = self.var.mul_div(3, 4) + d.mul_div(1, 4);
                self.srtt = self.srtt.mul_div(7, 8) + x.mul_div(1, 8);
            }
        }
        let rate = best.and_then(|b| {
            self.fs = b.sent_at;
            let i = (b.sent_at - b.fs).max(now - b.dt);
            (i >= self.minrtt && i > Nanos::ZERO).then(|| RateSample {
                delivered: self.delivered - b.delivered,
                interval: i,
                prior_delivered: b.delivered,
                app_limited: false,
                retransmission: b.retx,
            })
        });
        if self.phase != Phase::Open && self.una >= self.recover {
            self.phase = Phase::Open;
        }
        let mut lost = Vec::new();
        let high = self.high;
        let thr = 3 * u64::from(self.mss);
        let bt = best.map_or(Time::ZERO, |b| b.sent_at);
        if !acked.is_empty() {
            for r in self.q.iter_mut().take_while(|r| r.seq + thr < high) {
                if !r.sacked && !r.lost && r.sent_at < bt {
                    r.lost = true;
                    self.infl -= u64::from(r.bytes);
                    lost.push(Lost { seq: r.seq, bytes: r.bytes, sent_at: r.sent_at, tag: r.tag });
                }
            }
        }
        let lb: u64 = lost.iter().map(|l| u64::from(l.bytes)).sum();
        if !lost.is_empty() {
            let ne = self.phase == Phase::Open;
            if ne {
                self.phase = Phase::Recovery;
                self.recover = self.next;
                self.stats.recoveries += 1;
            }
            self.stats.packets_lost += lost.len() as u64;
            self.c.on_loss(&Loss {
                now,
                packets: &lost,
                bytes: lb,
                prior_in_flight: prior,
                in_flight: self.infl,
                new_episode: ne,
                cause: Cause::Unknown,
            });
        }
        let cp = ack.ce_packets - self.ce;
        let cb = ack.ce_bytes - self.ceb;
        self.ce = ack.ce_packets;
        self.ceb = ack.ce_bytes;
        self.stats.ce_packets = self.ce;
        let echo = cp > 0 && self.una >= self.echo_until;
        if echo {
            self.echo_until = self.next;
        }
        self.c.on_ack(&Ack {
            now,
            packets: &acked,
            bytes,
            rtt,
            srtt: self.srtt,
            min_rtt: self.minrtt,
            rate,
            prior_in_flight: prior,
            in_flight: self.infl,
            lost_bytes: lb,
            ce_bytes: cb,
            ce_packets: cp as u32,
            echo,
            delivered: self.delivered,
            una: self.una,
            next: self.next,
            phase: self.phase,
            window_limited: true,
        });
        if self.rto_at == Time::NEVER && !self.q.is_empty() {
            self.rto_at = now + self.rto();
        }
    }
    fn next_timeout(&self) -> Time {
        let mut t = self.c.next_tick().min(self.rto_at);
        if self.infl + u64::from(self.mss) <= self.c.window() && (self.next < self.limit) {
            t = t.min(self.depart());
        }
        t
    }
    fn on_timeout(&mut self, now: Time) {
        if self.c.next_tick() <= now {
            self.c.on_tick(now);
        }
        if self.rto_at <= now {
            self.count += 1;
            self.stats.timeouts += 1;
            self.c.on_timeout(&Timeout { now, prior_in_flight: self.infl, count: self.count });
            self.infl = 0;
            for r in &mut self.q {
                if !r.sacked {
                    r.lost = true;
                }
            }
            if !self.reliable {
                self.q.clear();
                self.una = self.next;
            }
            self.phase = Phase::Loss;
            self.recover = self.next;
            self.rto_at = now + self.rto().mul_div(1 << self.count.min(6), 1);
        }
    }
    fn is_idle(&self) -> bool {
        self.next >= self.limit && self.q.is_empty()
    }
    fn in_flight(&self) -> u64 {
        self.infl
    }
    fn window(&self) -> u64 {
        self.c.window()
    }
    fn srtt(&self) -> Option<Nanos> {
        (self.srtt > Nanos::ZERO).then_some(self.srtt)
    }
    fn take_rtt(&mut self) -> Option<Nanos> {
        self.last_rtt.take()
    }
    fn stats(&self) -> SenderStats {
        self.stats
    }
    fn controller(&self) -> &dyn Controller {
        self.c.as_ref()
    }
}
pub struct ThinRx {
    half: Option<Box<dyn ReceiverHalf>>,
    cum: u64,
    ranges: Vec<Range>,
    pend: Option<AckSegment>,
    ce: u64,
    ceb: u64,
    ready: u64,
    reliable: bool,
    now: Time,
}
impl ThinRx {
    pub fn new(reliable: bool, half: Option<Box<dyn ReceiverHalf>>) -> Self {
        Self { half, cum: 0, ranges: vec![], pend: None, ce: 0, ceb: 0, ready: 0, reliable, now: Time::ZERO }
    }
}
impl Receiver for ThinRx {
    fn on_segment(&mut self, now: Time, s: &Segment, ce: bool) {
        self.now = now;
        let end = s.seq + u64::from(s.bytes);
        if ce {
            self.ce += 1;
            self.ceb += u64::from(s.bytes);
        }
        if let Some(h) = &mut self.half {
            h.on_arrival(&Arrival { now, seq: s.seq, bytes: s.bytes, note: s.note, ce });
        }
        let mut sacks = [Range::default(); 3];
        let mut n = 0;
        if self.reliable {
            if end > self.cum {
                let mut r = Range { start: s.seq, end };
                self.ranges.retain(|x| {
                    let hit = x.start <= r.end && r.start <= x.end;
                    if hit {
                        r.start = r.start.min(x.start);
                        r.end = r.end.max(x.end);
                    }
                    !hit
                });
                if r.start <= self.cum {
                    self.cum = r.end;
                } else {
                    self.ranges.insert(0, r);
                }
            }
            for r in self.ranges.iter().take(3) {
                sacks[n] = *r;
                n += 1;
            }
            self.ready = self.cum;
        } else {
            self.ready += u64::from(s.bytes);
            sacks[0] = Range { start: s.seq, end };
            n = 1;
            self.cum = self.cum.max(end);
        }
        self.pend = Some(AckSegment {
            cumulative: self.cum,
            sacks,
            sack_count: n as u8,
            duplicate: None,
            echo_sent_at: s.sent_at,
            received_at: now,
            ece: ce,
            ce_bytes: self.ceb,
            ce_packets: self.ce,
            feedback: None,
        });
    }
    fn poll_ack(&mut self, now: Time) -> Option<AckSegment> {
        let mut b = Vec::new();
        let fb = self.half.as_mut().is_some_and(|h| h.feedback(now, &mut b));
        let mut a = self.pend.take();
        if fb {
            let x = a.get_or_insert_with(|| AckSegment {
                cumulative: self.cum,
                sacks: [Range::default(); 3],
                sack_count: 0,
                duplicate: None,
                echo_sent_at: Time::ZERO,
                received_at: now,
                ece: false,
                ce_bytes: self.ceb,
                ce_packets: self.ce,
                feedback: None,
            });
            x.feedback = Some(b.into());
        }
        a
    }
    fn next_timeout(&self) -> Time {
        self.half.as_ref().map_or(Time::NEVER, |h| h.next_tick())
    }
    fn bytes_ready(&self) -> u64 {
        self.ready
    }
}
