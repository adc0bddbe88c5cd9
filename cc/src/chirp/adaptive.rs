//! Paced chirping past the paper (`start=chirp`).
use std::collections::VecDeque;

use crate::controller::{Ack, Acked, Env, Pacing, Sent};
use crate::units::{Nanos, Time};
use crate::window::{INITIAL_WINDOW, MINIMUM_WINDOW, Signal, SlowStart, StartUp, Window};

use super::Settings;
use super::flight::{tag, untag};
use super::geometry::{Chirp, Divisor, LONGEST};
use super::train::{Arrival, Train};

/// Packets of each of the two opening bursts: half the initial window.
const BURST: u64 = 5;
const FIRST_GUARD: Nanos = Nanos::from_millis(5);
const UNPACED: u64 = INITIAL_WINDOW as u64;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Burst(usize),
    Chirp(Chirp),
    /// What is left of the data, at the gap found.
    Run(usize),
}

impl Shape {
    fn packets(&self) -> usize {
        match self {
            Self::Burst(packets) | Self::Run(packets) => *packets,
            Self::Chirp(chirp) => chirp.packets(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Chirping,
    Transition { gap: Nanos, left: u64 },
    Over,
}

/// ours
#[derive(Clone, Debug)]
pub struct Adaptive {
    mss: u32,
    settings: Settings,
    slow: SlowStart,
    stage: Stage,
    gap: Option<Nanos>,
    scatter: f64,
    srtt: Nanos,
    min_rtt: Nanos,
    /// Packets that may be in flight.
    load: f64,
    in_flight: u64,
    next: u64,
    read: u64,
    plan: Option<(Shape, usize)>,
    flying: VecDeque<(Train, Shape, u64)>,
    /// Acknowledgements have been shared: a lone one may have waited.
    shared: bool,
    capacity: Option<Nanos>,
    full: u64,
    streak: f64,
    rounds: f64,
    marks: u64,
    short: bool,
}

impl Adaptive {
    /// n
    pub fn new(env: &Env, settings: &Settings) -> Self {
        Self {
            mss: env.mss,
            settings: *settings,
            slow: SlowStart::new(env),
            stage: Stage::Chirping,
            gap: None,
            scatter: 1.0,
            srtt: Nanos::ZERO,
            min_rtt: Nanos::MAX,
            load: INITIAL_WINDOW,
            in_flight: 0,
            next: 0,
            read: 0,
            plan: None,
            flying: VecDeque::new(),
            shared: false,
            capacity: None,
            full: 0,
            streak: 0.0,
            rounds: 0.0,
            marks: 0,
            short: false,
        }
    }

    /// The gap about which chirps are sent.
    fn centre(&self) -> Nanos {
        let gap = self.found();
        if self.srtt > Nanos::ZERO { gap.min(self.srtt.mul_f64(1.0 / self.load)) } else { gap }
    }

    fn found(&self) -> Nanos {
        let fallback = if self.srtt > Nanos::ZERO { self.srtt.mul_div(1, 64) } else { Nanos::from_micros(200) };
        self.gap.unwrap_or(fallback)
    }

    fn plan(&mut self, sent: &Sent) -> (Shape, usize) {
        if let Some((shape, gone)) = self.plan
            && gone < shape.packets()
        {
            return (shape, gone);
        }
        let left = 1 + sent.unsent.div_ceil(u64::from(self.mss));
        if self.next == 0 {
            self.short = left <= UNPACED;
        }
        let shape = if self.next < 2 {
            Shape::Burst(left.min(BURST) as usize)
        } else {
            let full = self.settings.packets;
            let size = ((self.load / 2.0) as usize).min(full).max(5);
            if left < size as u64 {
                Shape::Run(left as usize)
            } else {
                Shape::Chirp(Chirp::new(size, self.centre(), self.settings.geometry, Divisor::Gaps))
            }
        };
        self.flying.push_back((Train::new(self.next, shape.packets()), shape, 0));
        self.next += 1;
        (shape, 0)
    }

    /// Share of the capacity found that is used while sending.
    fn share(&self) -> f64 {
        (self.load / self.target().max(1.0)).clamp(env("LOAD", 0.2), 1.0)
    }

    fn target(&self) -> f64 {
        self.packets_at(self.found())
    }

    fn packets_at(&self, gap: Nanos) -> f64 {
        self.srtt.as_nanos() as f64 / gap.as_nanos().max(1) as f64
    }

    fn guard(&self, shape: &Shape) -> Nanos {
        match shape {
            Shape::Burst(_) if self.short => {
                if self.srtt > Nanos::ZERO { self.srtt.mul_div(1, 16) } else { Nanos::from_millis(1) }
            }
            Shape::Burst(_) if self.next == 2 => self.centre(),
            Shape::Burst(_) if self.srtt > Nanos::ZERO => self.srtt.mul_div(1, 2),
            Shape::Burst(_) => FIRST_GUARD,
            Shape::Run(_) => self.centre(),
            Shape::Chirp(chirp) => {
                let whole = self.centre().mul_f64(chirp.packets() as f64 / self.share());
                (whole - chirp.length()).max(self.centre())
            }
        }
    }

    fn grow(&mut self, packets: usize, reading: Nanos, marked: f64) {
        self.streak = if marked > 0.0 { 0.0 } else { self.streak + packets as f64 / self.load };
        let target = self.target();
        let here = self.packets_at(reading);
        let n = packets as f64;
        let busy = marked > 0.0 || self.capacity.is_some_and(|capacity| reading > capacity.mul_f64(env("BUSY", 1.25)));
        let add = if busy {
            (env("STEP", 2.0) + env("ACC", 1.0) * self.streak) * n / self.load * (1.0 - marked)
        } else {
            let gain = self.settings.gain + if self.scatter < 0.125 && self.read > 2 && self.load < env("FREE", 0.2) * target { env("GPLUS", 1.0) } else { 0.0 };
            (n * (gain - 1.0)).min((env("DRHO", 0.0) * target + env("APPR", 0.25) * (target - self.load)).max(env("MIN", 0.0)) * n / self.load)
        };
        let room = if busy && self.marks > 0 { f64::INFINITY } else { (target.min(here) - self.load).max(0.0) };
        self.load += add.min(room);
        if busy && self.marks > 0 {
            self.rounds += n / self.load;
            if self.rounds > env("BX", 16.0) && marked == 0.0 { self.full = u64::MAX / 2; }
        } else if self.load >= env("FULL", 0.9) * target {
            self.full += packets as u64 * 1000;
        } else if self.full < u64::MAX / 4 {
            self.full = 0;
        }
        if std::env::var("TRACE").is_ok() {
            eprintln!("  read {n} {}us gap {} load {:.1} target {target:.0} busy {busy} marked {marked:.2} full {} flight {}", reading.as_micros(), self.centre().as_micros(), self.load, self.full, self.in_flight);
        }
    }

    fn on_acked(&mut self, packet: &Acked, arrival: Arrival) -> bool {
        let Some((number, index)) = untag(packet.tag) else { return false };
        if packet.ce {
            self.marks += 1;
            self.load = (self.load - env("CUT", 0.5)).max(env("LOW", 5.0));
        }
        let Some(at) = self.flying.iter().position(|(train, ..)| train.number == number) else { return false };
        let (train, shape, marks) = &mut self.flying[at];
        *marks += u64::from(packet.ce);
        train.on_acked(index, packet, arrival);
        if !train.is_back() {
            return false;
        }
        let marked = *marks as f64 / shape.packets() as f64;
        let shape = *shape;
        let reading = match shape {
            Shape::Burst(_) => train.read_burst(),
            Shape::Chirp(_) => train.read_chirp(),
            Shape::Run(_) => None,
        };
        // Trains before this one that are not back by now have lost their order.
        self.flying.drain(..=at);
        if let Some(reading) = reading {
            if let Shape::Burst(_) = shape {
                self.capacity = Some(self.capacity.map_or(reading.gap, |c| c.min(reading.gap)));
            }
            self.read += 1;
            match self.gap {
                None => self.gap = Some(reading.gap),
                Some(gap) => {
                    let (a, b) = (gap.as_nanos() as f64, reading.gap.as_nanos() as f64);
                    let off = (a - b).abs() / a;
                    self.scatter = 0.5 * self.scatter + 0.5 * off;
                    self.gap = Some((gap + reading.gap).mul_div(1, 2));
                }
            }
            self.grow(shape.packets(), reading.gap, marked);
        }
        true
    }

    fn touching(&self) -> bool {
        self.full as f64 >= 1000.0 * self.load * env("HOLD", 0.5) && self.full > 0
    }
}

impl StartUp for Adaptive {
    fn on_sent(&mut self, sent: &Sent, window: &mut Window) -> u64 {
        if self.stage != Stage::Chirping || sent.bytes == 0 {
            return 0;
        }
        self.in_flight = sent.in_flight.div_ceil(u64::from(self.mss));
        if sent.retransmission {
            return 0;
        }
        let (shape, index) = self.plan(sent);
        self.plan = Some((shape, index + 1));
        window.cwnd = window.cwnd.max(self.in_flight as f64 + LONGEST as f64);
        let Some((train, ..)) = self.flying.back_mut() else { return 0 };
        if sent.bytes != self.mss {
            train.spoil();
        }
        tag(train.number, index)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        self.srtt = ack.srtt;
        self.min_rtt = ack.min_rtt;
        self.in_flight = ack.in_flight.div_ceil(u64::from(self.mss));
        match self.stage {
            Stage::Over => self.slow.on_ack(ack, window),
            Stage::Transition { gap, left } => {
                let acked = ack.packets.len() as u64;
                if acked <= left {
                    self.stage = Stage::Transition { gap, left: left - acked };
                    return;
                }
                self.stage = Stage::Over;
                let drain = ack.min_rtt.as_nanos() as f64 / ack.rtt.unwrap_or(ack.srtt).as_nanos().max(1) as f64;
                window.cwnd = (ack.in_flight as f64 / f64::from(self.mss) * drain).max(MINIMUM_WINDOW);
                window.ssthresh = window.cwnd;
            }
            Stage::Chirping => {
                self.shared |= ack.packets.len() > 1;
                for (place, packet) in ack.packets.iter().enumerate() {
                    let newest = place + 1 == ack.packets.len();
                    let arrival = match packet.received_at {
                        Some(at) => Arrival::Receiver(at),
                        None if newest && (place > 0 || !self.shared) => Arrival::Sender(ack.now),
                        None => Arrival::Unknown,
                    };
                    let back = self.on_acked(packet, arrival);
                    if back && self.touching() {
                        let target = self.load as u64;
                        let gap = self.srtt.mul_div(1, target);
                        if std::env::var("TRACE").is_ok() {
                            eprintln!("exit {} gap {} target {target} flight {}", ack.now.as_millis_f64(), gap.as_micros(), ack.in_flight / 1448);
                        }
                        self.stage = Stage::Transition { gap, left: target };
                        window.cwnd = (env("EXIT", 1.0) * target as f64).max(INITIAL_WINDOW);
                        self.flying = VecDeque::new();
                        return;
                    }
                }
            }
        }
    }

    fn on_congestion(&mut self, _signal: Signal, window: &mut Window) {
        if self.stage == Stage::Over {
            return;
        }
        self.stage = Stage::Over;
        self.flying = VecDeque::new();
        let found = self.min_rtt.as_nanos() as f64 / self.centre().as_nanos().max(1) as f64;
        window.cwnd = window.cwnd.min(found.max(INITIAL_WINDOW));
    }

    fn holds_against_marks(&self) -> bool {
        self.stage != Stage::Over
    }

    fn pacing(&self) -> Option<Pacing> {
        match (self.stage, &self.plan) {
            (Stage::Over, _) | (Stage::Chirping, None) => None,
            (Stage::Transition { gap, .. }, _) => Some(Pacing::Gap(gap)),
            (Stage::Chirping, Some((shape, gone))) if *gone < shape.packets() => Some(match shape {
                Shape::Burst(_) => Pacing::Gap(Nanos::ZERO),
                Shape::Chirp(chirp) => Pacing::Gap(chirp.gap(gone - 1)),
                Shape::Run(_) => Pacing::Gap(self.centre()),
            }),
            (Stage::Chirping, Some(_)) if self.next >= 2 && self.in_flight > 0 && self.in_flight as f64 + env("NEED", 1.0) > self.load => Some(Pacing::Gap(Nanos::MAX)),
            (Stage::Chirping, Some((shape, _))) => Some(Pacing::Gap(self.guard(shape))),
        }
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("chirping", f64::from(u8::from(self.stage == Stage::Chirping)));
        report("chirp_gap_us", self.centre().as_nanos() as f64 / 1e3);
        report("chirps", self.next as f64);
        report("chirp_load_packets", self.load);
        report("chirp_scatter", self.scatter);
    }
}

fn env(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|x| x.parse().ok()).unwrap_or(default)
}
