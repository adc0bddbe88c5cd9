//! A toy that sends chirps: trains of packets whose gaps shrink linearly, and a guard interval between the trains
//! (Misund and Briscoe, "Paced Chirping", 2019). It estimates nothing. It is here to show that [`Controller::pacing`]
//! and [`StartUp::pacing`] can say such a thing, to the nanosecond, as a start-up of any policy and as a controller of
//! its own.

use paceline_cc::controller::{
    Ack, Acked, Controller, Ecn, Env, Loss, Nature, Pacing, Permit, Recovery, Sent, Stamp, Timeout,
};
use paceline_cc::cubic::{Cubic, Settings};
use paceline_cc::dctcp::Dctcp;
use paceline_cc::reno::Reno;
use paceline_cc::testing::ack;
use paceline_cc::units::{Nanos, Time};
use paceline_cc::window::{Policy, StartUp, Window, WindowController};

/// The average gap `g`: a full packet at 100 Mbit/s.
const G: Nanos = Nanos::from_micros(120);
/// The first gap in units of `g`.
const GEOMETRY: u64 = 2;
/// The gap that sets the mean rate, chirp and guard interval together.
const LOAD: Nanos = Nanos::from_micros(2_400);
/// Chirps before the start-up ends.
const CHIRPS: u64 = 3;

/// By what the first gap's excess is divided to give the step.
#[derive(Clone, Copy, Debug)]
enum Divisor {
    /// N, as in the paper.
    Packets,
    /// N - 1, as in the newest kernel branch.
    Gaps,
}

/// Chirps of `packets` packets, one after the other.
#[derive(Clone, Copy, Debug)]
struct Chirps {
    packets: u64,
    step: Nanos,
    /// The chirp of the packet last sent, from 1.
    number: u64,
    /// Packets of it that have left.
    sent: u64,
}

impl Chirps {
    fn new(packets: u64, divisor: Divisor) -> Self {
        let divisor = match divisor {
            Divisor::Packets => packets,
            Divisor::Gaps => packets - 1,
        };
        let step = Nanos::from_nanos((2 * (GEOMETRY - 1) * G.as_nanos()).div_ceil(divisor));
        Self { packets, step, number: 0, sent: 0 }
    }

    /// A packet left; gives the number of its chirp.
    fn on_sent(&mut self) -> u64 {
        if self.number == 0 || self.sent == self.packets {
            self.number += 1;
            self.sent = 0;
        }
        self.sent += 1;
        self.number
    }

    /// The gap after the packet last sent.
    fn pacing(&self) -> Pacing {
        match self.sent {
            0 => Pacing::Free,
            sent if sent < self.packets => Pacing::Gap(self.gap(sent - 1)),
            _ => Pacing::Gap(LOAD.mul_div(self.packets, 1) - self.length()),
        }
    }

    fn gap(&self, index: u64) -> Nanos {
        G.mul_div(GEOMETRY, 1) - self.step.mul_div(index, 1)
    }

    fn length(&self) -> Nanos {
        (0..self.packets - 1).fold(Nanos::ZERO, |length, index| length + self.gap(index))
    }
}

/// Chirps as a start-up.
struct ChirpStart {
    chirps: Chirps,
    over: bool,
}

impl StartUp for ChirpStart {
    fn on_sent(&mut self, _sent: &Sent, window: &mut Window) -> u64 {
        window.cwnd = window.cwnd.max((CHIRPS * self.chirps.packets) as f64);
        self.chirps.on_sent()
    }

    fn on_ack(&mut self, ack: &Ack<'_>, window: &mut Window) {
        let last = CHIRPS * self.chirps.packets - 1;
        if ack.packets.iter().any(|packet| packet.tag == CHIRPS && packet.seq == last * u64::from(packet.bytes)) {
            window.ssthresh = window.cwnd;
            self.over = true;
        }
    }

    fn on_mss(&mut self, _mss: u32) {}

    fn pacing(&self) -> Option<Pacing> {
        (!self.over).then(|| self.chirps.pacing())
    }
}

/// Chirps as a controller.
struct ChirpController(Chirps);

impl Controller for ChirpController {
    fn on_sent(&mut self, _sent: &Sent) -> Stamp {
        Stamp::new(self.0.on_sent(), 0)
    }

    fn on_ack(&mut self, _ack: &Ack<'_>) {}

    fn on_loss(&mut self, _loss: &Loss<'_>) {}

    fn on_timeout(&mut self, _timeout: &Timeout<'_>) {}

    fn nature(&self) -> Nature {
        Nature::PLAIN
    }

    fn permit(&self) -> Permit {
        let mut permit = Permit::up_to(1 << 20);
        permit.pacing = self.0.pacing();
        permit.recovery = Recovery::Controller;
        permit
    }

    fn describe(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("chirp", self.0.number as f64);
    }
}

/// One departure: the packet's tag and the gap that followed.
type Departure = (u64, Nanos);

/// Sends `count` packets as a datapath does: each as soon as the gap asked after the one before is over.
fn drive(controller: &mut dyn Controller, count: u64) -> Vec<Departure> {
    let bytes = Env::default().mss;
    let mut now = Time::ZERO;
    let mut departures = Vec::new();
    for packet in 0..count {
        let in_flight = (packet + 1) * u64::from(bytes);
        let seq = packet * u64::from(bytes);
        let mut sent = Sent::new(now, seq, bytes);
        sent.in_flight = in_flight;
        sent.unsent = 0;
        let stamp = controller.on_sent(&sent);
        assert!(in_flight <= controller.window(), "the window holds the chirp back at packet {packet}");
        let Pacing::Gap(gap) = controller.pacing() else { panic!("no gap after packet {packet}") };
        departures.push((stamp.tag, gap));
        now += gap;
    }
    departures
}

/// Numbers of the paper's geometry, in units of `g`: N, divisor, step, last gap, length, mean gap.
const GEOMETRIES: &[(u64, Divisor, f64, f64, f64, f64)] = &[
    (5, Divisor::Packets, 0.400, 0.800, 5.600, 1.400),
    (5, Divisor::Gaps, 0.500, 0.500, 5.000, 1.250),
    (8, Divisor::Packets, 0.250, 0.500, 8.750, 1.250),
    (8, Divisor::Gaps, 0.286, 0.286, 8.000, 1.143),
    (16, Divisor::Packets, 0.125, 0.250, 16.875, 1.125),
    (16, Divisor::Gaps, 0.133, 0.133, 16.000, 1.067),
];

fn check_geometry(departures: &[Departure], index: usize) {
    let (packets, divisor, step, last, length, mean) = GEOMETRIES[index];
    let g = |gap: Nanos| gap.as_nanos() as f64 / G.as_nanos() as f64;
    for (number, chirp) in departures.chunks(packets as usize).enumerate() {
        let what = format!("chirp {number} of {packets} packets, divisor {divisor:?}");
        assert!(chirp.iter().all(|(tag, _)| *tag == number as u64 + 1), "{what}: tags");
        let gaps: Vec<f64> = chirp[..chirp.len() - 1].iter().map(|(_, gap)| g(*gap)).collect();
        let near = |value: f64, want: f64| (value - want).abs() < 1e-3;
        assert!(near(gaps[0], 2.0), "{what}: first gap");
        assert!(near(gaps[gaps.len() - 1], last), "{what}: last gap {}", gaps[gaps.len() - 1]);
        assert!(gaps.windows(2).all(|pair| near(pair[0] - pair[1], step)), "{what}: step");
        let sum: f64 = gaps.iter().sum();
        assert!(near(sum, length), "{what}: length {sum}");
        assert!(near(sum / gaps.len() as f64, mean), "{what}: mean gap");
        let guard = g(chirp[chirp.len() - 1].1);
        assert!(near(sum + guard, packets as f64 * g(LOAD)), "{what}: guard interval {guard}");
    }
}

#[test]
fn a_controller_sends_chirps() {
    for (index, (packets, divisor, ..)) in GEOMETRIES.iter().enumerate() {
        let mut controller = ChirpController(Chirps::new(*packets, *divisor));
        check_geometry(&drive(&mut controller, CHIRPS * packets), index);
    }
}

/// Chirps, then hands over to the policy.
fn check_start_up<P: Policy>(policy: impl Fn(&Env) -> P) {
    let env = Env::default();
    for (index, (packets, divisor, ..)) in GEOMETRIES.iter().enumerate() {
        let start = Box::new(ChirpStart { chirps: Chirps::new(*packets, *divisor), over: false });
        let mut controller = WindowController::new(&env, start, policy(&env));
        assert_eq!(controller.pacing(), Pacing::Free);
        let departures = drive(&mut controller, CHIRPS * packets);
        check_geometry(&departures, index);

        let mut now = Time::from_millis(100);
        let before = controller.state().cwnd;
        for (packet, (tag, _)) in departures.iter().enumerate() {
            assert!(controller.state().starting());
            let mut acked = Acked::new(packet as u64 * u64::from(env.mss), env.mss, Time::ZERO);
            acked.tag = *tag;
            now += G;
            let packets = [acked];
            let mut news = ack(now, Nanos::from_millis(100), 1);
            news.packets = &packets;
            controller.on_ack(&news);
        }
        assert!(!controller.state().starting());
        assert_eq!(controller.pacing(), Pacing::Free);
        assert_eq!(controller.state().cwnd, before);
        controller.on_ack(&ack(now, Nanos::from_millis(100), 1));
        assert!(controller.state().cwnd > before, "the policy grows");
    }
}

#[test]
fn any_policy_starts_with_chirps() {
    check_start_up(|env| Reno::new(env, Ecn::Off));
    check_start_up(|env| Cubic::new(env, Settings::default()));
    check_start_up(|env| Dctcp::new(env, 1.0, 0.0625));
}
