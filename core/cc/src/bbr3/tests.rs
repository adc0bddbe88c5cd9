use std::collections::VecDeque;

use super::states::AckPhase;
use super::*;
use crate::controller::{Acked, Cause, Lost, RateSample};

mod cycle;
mod losses;
mod start;

const MSS: u64 = 1448;
const PACKETS_A_ROUND: u64 = 20;

/// A path fed by hand: each round sends a flight of equal packets at once and acknowledges them one by one over the RTT.
struct Path {
    bbr: Bbr3,
    mss: u64,
    /// The state after the last acknowledgement.
    before: State,
    now: Time,
    seq: u64,
    delivered: u64,
    /// Packets per second that the samples show.
    rate: f64,
    rtt: Nanos,
    /// Packets in flight as the controller is told, beside the round's own.
    queued: u64,
    phase: Phase,
    app_limited: bool,
    flight: VecDeque<Flying>,
}

/// A packet on its way.
#[derive(Clone, Copy)]
struct Flying {
    seq: u64,
    tag: u64,
    sent_at: Time,
    prior_delivered: u64,
}

impl Path {
    fn new(seed: u64) -> Self {
        Self::of(seed, MSS)
    }

    /// The same in packets of `mss` bytes.
    fn of(seed: u64, mss: u64) -> Self {
        Self {
            bbr: Bbr3::new(&Env { seed, mss: mss as u32, ..Env::default() }, 1.0, Constants::default()),
            mss,
            before: State::Startup,
            now: Time::from_millis(1_000),
            seq: 0,
            delivered: 0,
            rate: 10_000.0,
            rtt: Nanos::from_millis(20),
            queued: 0,
            phase: Phase::Open,
            app_limited: false,
            flight: VecDeque::new(),
        }
    }

    /// In ProbeBW's DOWN or CRUISE: 10 000 packets/s and 20 ms, so that a BDP is 200 packets.
    fn probing(seed: u64) -> Self {
        let mut path = Self::new(seed);
        path.until(|bbr| bbr.state.probes_bandwidth());
        path
    }

    fn until(&mut self, reached: impl Fn(&Bbr3) -> bool) {
        for _ in 0..40_000 {
            if reached(&self.bbr) {
                return;
            }
            self.step();
        }
        panic!("still in {:?}", self.bbr.state);
    }

    /// The size of one of the round's packets: a twentieth of a BDP, as if as many packets were acknowledged at once.
    fn bytes(&self) -> u32 {
        (self.rate * self.rtt.as_secs_f64() / PACKETS_A_ROUND as f64 * self.mss as f64) as u32
    }

    fn send(&mut self, in_flight: u64) -> Flying {
        let (seq, bytes) = (self.seq, self.bytes());
        self.seq += u64::from(bytes);
        let tag = self
            .bbr
            .on_sent(&Sent {
                now: self.now,
                seq,
                bytes,
                in_flight: in_flight + self.queued * self.mss,
                retransmission: false,
                app_limited: self.app_limited,
                unsent: u64::MAX,
            })
            .tag;
        Flying { seq, tag, sent_at: self.now, prior_delivered: self.delivered }
    }

    /// All of the flight, in place of what is on its way.
    fn flight(&mut self) -> Vec<Flying> {
        self.flight.clear();
        self.fill();
        self.flight.drain(..).collect()
    }

    fn acknowledge(&mut self, packet: Flying, left: u64) {
        let bytes = u64::from(self.bytes());
        self.delivered += bytes;
        let in_flight = left + self.queued * self.mss;
        let acked = Acked {
            seq: packet.seq,
            bytes: bytes as u32,
            sent_at: packet.sent_at,
            tag: packet.tag,
            retransmitted: false,
            app_limited: self.app_limited,
            ce: false,
            received_at: None,
        };
        self.bbr.on_ack(&Ack {
            now: self.now,
            packets: &[acked],
            bytes,
            rtt: Some(self.rtt),
            srtt: self.rtt,
            min_rtt: self.rtt,
            rate: Some(RateSample {
                delivered: (self.rate * self.rtt.as_secs_f64() * self.mss as f64) as u64,
                interval: self.rtt,
                prior_delivered: packet.prior_delivered,
                app_limited: self.app_limited,
                retransmission: false,
            }),
            prior_in_flight: in_flight + bytes,
            in_flight,
            lost_bytes: 0,
            ce_bytes: 0,
            ce_packets: 0,
            echo: false,
            delivered: self.delivered,
            una: self.delivered,
            next: self.seq,
            phase: self.phase,
            window_limited: true,
        });
        self.check();
    }

    /// What holds after every acknowledgement.
    fn check(&mut self) {
        let bbr = &self.bbr;
        let mss = self.mss as f64;
        assert!(follows(self.before, bbr.state), "{:?} after {:?}", bbr.state, self.before);
        self.before = bbr.state;
        // Only of what leaves in UP do losses say that it was too much: until the round after it ends.
        assert!(!bbr.probe.is_sample || bbr.state == State::Up || bbr.probe.ack_phase == AckPhase::Stopping);
        let gains = match bbr.state {
            State::Startup => (2.77, 2.0),
            State::Drain => (0.5, 2.0),
            State::Down => (0.9, 2.0),
            State::Cruise | State::Refill => (1.0, 2.0),
            State::Up => (1.25, 2.25),
            State::ProbeRtt => (1.0, 0.5),
        };
        assert_eq!((bbr.state.pacing_gain(), bbr.state.cwnd_gain()), gains);
        assert!(bbr.cwnd >= 4.0 * mss);
        if bbr.full.reached {
            let product = bbr.bdp(bbr.bandwidth.bw, bbr.state.cwnd_gain()) + bbr.aggregation.extra();
            let more = if bbr.state == State::Up { 2.0 } else { 0.0 };
            assert!(bbr.cwnd <= product.max(bbr.budget * bbr.quantum()).max(4.0 * mss) + more * mss);
        }
        bbr.describe(&mut |name, value| assert!(value.is_finite(), "{name} is {value}"));
        match bbr.state {
            State::Cruise => assert!(bbr.cwnd <= bbr.room()),
            State::Down => assert!(bbr.cwnd <= bbr.inflight_long.max(4.0 * mss)),
            _ => {}
        }
    }

    /// The next packet of the flight arrives, and makes room for another.
    fn step(&mut self) {
        self.step_after(0);
    }

    fn round(&mut self) {
        (0..PACKETS_A_ROUND).for_each(|_| self.step());
    }

    /// A round of the present flight, of which the packets with these indices are lost: the acknowledgement of the one after them
    /// shows it.
    fn round_losing(&mut self, lost: &[usize]) {
        self.fill();
        let mut index = 0;
        while index < PACKETS_A_ROUND as usize {
            let gone = (index..).take_while(|index| lost.contains(index)).count();
            self.step_after(gone);
            index += gone + 1;
        }
    }

    fn fill(&mut self) {
        let window = (self.bbr.window() / u64::from(self.bytes())).clamp(1, PACKETS_A_ROUND);
        let room = if self.bbr.state == State::ProbeRtt { window } else { PACKETS_A_ROUND };
        while (self.flight.len() as u64) < room {
            let packet = self.send((self.flight.len() as u64 + 1) * u64::from(self.bytes()));
            self.flight.push_back(packet);
        }
    }

    /// The next `lost` packets are lost, and the one after them arrives.
    fn step_after(&mut self, lost: usize) {
        self.fill();
        self.now += self.rtt.mul_div(1 + lost as u64, PACKETS_A_ROUND);
        let gone: Vec<Flying> = self.flight.drain(..lost).collect();
        let packet = self.flight.pop_front().expect("the flight is not empty");
        let left = self.flight.len() as u64 * u64::from(self.bytes());
        if lost > 0 {
            self.lose(&gone, left, self.phase == Phase::Open);
            self.phase = Phase::Recovery;
        }
        self.acknowledge(packet, left);
    }

    fn lose(&mut self, packets: &[Flying], in_flight: u64, new_episode: bool) {
        let bytes = self.bytes();
        let packets: Vec<Lost> = packets
            .iter()
            .map(|packet| Lost {
                seq: packet.seq,
                bytes,
                sent_at: packet.sent_at,
                tag: packet.tag,
                cause: Cause::Unknown,
            })
            .collect();
        let lost = u64::from(bytes) * packets.len() as u64;
        self.bbr.on_loss(&Loss {
            now: self.now,
            packets: &packets,
            bytes: lost,
            prior_in_flight: in_flight + lost,
            in_flight,
            new_episode,
        });
    }

    fn packets(&self, bytes: f64) -> f64 {
        bytes / self.mss as f64
    }
}

/// The arrows of section 5.2.2; one acknowledgement may be enough for two of them.
fn follows(before: State, state: State) -> bool {
    let next: &[State] = match before {
        State::Startup => &[State::Drain, State::Down, State::Cruise],
        State::Drain => &[State::Down, State::Cruise],
        State::Down => &[State::Cruise, State::Refill],
        State::Cruise => &[State::Refill],
        State::Refill => &[State::Up],
        State::Up => &[State::Down, State::Cruise],
        State::ProbeRtt => &[State::Cruise, State::Startup],
    };
    state == before || state == State::ProbeRtt || next.contains(&state)
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-3 * expected.abs().max(1.0), "{value} is not {expected}");
}
