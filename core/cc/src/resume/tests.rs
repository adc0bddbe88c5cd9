use super::*;
use crate::controller::{Cause, Controller, Loss, Lost, Phase as Repair, RateSample, Recovery};
use crate::registry::Spec;
use crate::testing::packets;

const MSS: u64 = 1448;
/// A satellite's path: 250 Mbit/s, and a little more than 600 ms.
const SATELLITE: Remembered =
    Remembered { window: 18_750_000, min_rtt: Nanos::from_micros(600_123), age: Nanos::from_secs(60) };

/// A flow over a path without a queue: what leaves is acknowledged one RTT later, a packet at a time.
struct Flow {
    controller: Box<dyn Controller>,
    now: Time,
    rtt: Nanos,
    /// Departures: when, position, tag, and what was delivered by then.
    flying: std::collections::VecDeque<(Time, u64, u64, u64)>,
    next: u64,
    delivered: u64,
    /// Bytes that the application has.
    has: u64,
    phase: Repair,
}

impl Flow {
    fn new(spec: &str, remembered: Option<Remembered>, rtt: Nanos) -> Self {
        let env = Env { remembered, ..Env::default() };
        Self {
            controller: spec.parse::<Spec>().unwrap().build(&env),
            now: Time::from_millis(1_000),
            rtt,
            flying: std::collections::VecDeque::new(),
            next: 0,
            delivered: 0,
            has: u64::MAX,
            phase: Repair::Open,
        }
    }

    fn in_flight(&self) -> u64 {
        self.flying.len() as u64 * MSS
    }

    /// Sends one packet, if the window and the application allow it.
    fn send(&mut self) -> bool {
        if self.in_flight() + MSS > self.controller.window() || self.next + MSS > self.has {
            return false;
        }
        let stamp = self.controller.on_sent(&Sent {
            now: self.now,
            seq: self.next,
            bytes: MSS as u32,
            in_flight: self.in_flight() + MSS,
            retransmission: false,
            app_limited: false,
            unsent: u64::MAX,
        });
        self.flying.push_back((self.now, self.next, stamp.tag, self.delivered));
        self.next += MSS;
        true
    }

    /// Sends what is paced and what is not, until the next acknowledgement or this time.
    fn fill(&mut self, until: Time) {
        while self.now <= until && self.send() {
            match self.controller.pacing() {
                Pacing::Rate(rate) => self.now += rate.time_for(MSS),
                _ => continue,
            }
        }
    }

    /// The next packet is acknowledged.
    fn acknowledge(&mut self) {
        let (sent_at, ..) = self.flying[0];
        self.fill(sent_at + self.rtt);
        let (sent_at, seq, tag, prior_delivered) = self.flying.pop_front().unwrap();
        self.now = self.now.max(sent_at + self.rtt);
        self.delivered += MSS;
        let packet = Acked {
            seq,
            bytes: MSS as u32,
            sent_at,
            tag,
            retransmitted: false,
            app_limited: false,
            ce: false,
            received_at: None,
        };
        let rate = RateSample {
            delivered: self.delivered - prior_delivered,
            interval: self.rtt,
            prior_delivered,
            app_limited: self.has < u64::MAX,
            retransmission: false,
        };
        let ack = Ack {
            packets: &[packet],
            rate: Some(rate),
            delivered: self.delivered,
            una: seq + MSS,
            next: self.next,
            in_flight: self.in_flight(),
            phase: self.phase,
            ..crate::testing::ack(self.now, self.rtt, 1)
        };
        self.controller.on_ack(&ack);
    }

    fn lose(&mut self, count: usize, new_episode: bool) {
        let prior_in_flight = self.in_flight();
        let lost: Vec<Lost> = self.flying.drain(..count).map(lost).collect();
        let (bytes, in_flight) = (count as u64 * MSS, self.in_flight());
        let now = self.now;
        self.controller.on_loss(&Loss { now, packets: &lost, bytes, prior_in_flight, in_flight, new_episode });
        self.phase = Repair::Recovery;
    }

    fn variable(&self, wanted: &str) -> f64 {
        let mut found = f64::NAN;
        self.controller.describe(&mut |name, value| {
            if name == wanted {
                found = value;
            }
        });
        found
    }

    fn phase(&self) -> u32 {
        self.variable("resume_phase") as u32
    }

    /// Until the jump is made.
    fn jump(&mut self) {
        self.fill(self.now);
        while self.phase() == 1 {
            self.acknowledge();
        }
    }
}

fn lost((sent_at, seq, tag, _): (Time, u64, u64, u64)) -> Lost {
    Lost { seq, bytes: MSS as u32, sent_at, tag, cause: Cause::Unknown }
}

/// The jump of a flow with that RTT, in packets, if it makes one.
fn jump(params: &str, remembered: Remembered, rtt: Nanos) -> Option<u64> {
    let mut flow = Flow::new(&format!("cubic:start=resume{params}"), Some(remembered), rtt);
    flow.jump();
    (flow.phase() == 2).then(|| packets(flow.controller.as_ref()))
}

#[test]
fn the_jump_is_half_of_what_was_remembered_in_equal_gaps_over_a_round_trip() {
    let rtt = SATELLITE.min_rtt;
    assert_eq!(jump("", SATELLITE, rtt), Some(9_375_000 / MSS));
    assert_eq!(jump(",resume_jump=0.25", SATELLITE, rtt), Some(4_687_500 / MSS));
    let mut flow = Flow::new("cubic:start=resume", Some(SATELLITE), rtt);
    flow.jump();
    assert_eq!(packets(flow.controller.as_ref()), 9_375_000 / MSS);
    let gap = Rate::from_bytes_in(9_375_000, rtt).time_for(MSS);
    let began = flow.now;
    while flow.phase() == 2 {
        let Pacing::Rate(rate) = flow.controller.pacing() else { panic!("it is paced") };
        assert!(rate.time_for(MSS).as_nanos().abs_diff(gap.as_nanos()) <= 200, "{:?}", rate.time_for(MSS));
        // Acknowledgements of the initial window leave room for some more of the jump.
        if flow.flying[0].0 + rtt <= flow.now {
            flow.acknowledge();
        } else {
            assert!(flow.send());
            flow.now += gap;
        }
    }
    assert!(flow.now - began <= rtt + gap + gap, "{:?}", flow.now - began);
    assert_eq!(flow.phase(), 3);
}

#[test]
fn another_paths_rtt_or_an_old_set_makes_none() {
    let share = |percent| SATELLITE.min_rtt.mul_div(percent, 100);
    assert_eq!(jump("", SATELLITE, share(50)), None);
    assert!(jump("", SATELLITE, share(51)).is_some());
    assert!(jump("", SATELLITE, share(1_000)).is_some());
    assert_eq!(jump("", SATELLITE, share(1_001)), None);
    let lifetime = Nanos::from_secs(300);
    let aged = |age| Remembered { age, ..SATELLITE };
    assert!(jump("", aged(lifetime), SATELLITE.min_rtt).is_some());
    assert_eq!(jump("", aged(lifetime + Nanos::from_millis(1)), SATELLITE.min_rtt), None);
    assert!(jump(",resume_lifetime=301", aged(lifetime + Nanos::from_millis(1)), SATELLITE.min_rtt).is_some());
    // It is deleted, and one that is of use still is given back, older.
    let given_back = |age| {
        let flow = Flow::new("reno:start=resume", Some(aged(age)), SATELLITE.min_rtt);
        flow.controller.remember(flow.now)
    };
    assert_eq!(given_back(lifetime + Nanos::from_millis(1)), None);
    assert_eq!(given_back(lifetime), Some(aged(lifetime)));
}

/// A jump of 1000 packets onto a path that has room for 500: the retreat holds half of what it has, whatever is lost later, and slow start
/// goes on to the policy's share of it.
#[test]
fn a_path_that_has_shrunk_is_retreated_to() {
    for (policy, beta) in [("reno", 0.5), ("cubic", 0.7)] {
        let rtt = Nanos::from_millis(100);
        let remembered = Remembered { window: 2_000 * MSS, min_rtt: rtt, age: Nanos::ZERO };
        let mut flow = Flow::new(&format!("{policy}:start=resume"), Some(remembered), rtt);
        flow.jump();
        while flow.phase() == 2 {
            flow.acknowledge();
        }
        assert_eq!(flow.phase(), 3);
        for _ in 0..100 {
            flow.acknowledge();
        }
        let pipe = flow.variable("pipe_packets");
        flow.lose(10, true);
        assert_eq!(flow.phase(), 4);
        assert!((flow.variable("cwnd_packets") - pipe / 2.0).abs() < 1e-6);
        assert_eq!(flow.controller.permit().recovery, Recovery::Controller);
        let held = flow.variable("cwnd_packets");
        let mut delivered = pipe;
        let end = flow.next;
        while flow.flying.front().is_some_and(|(_, seq, ..)| *seq < end) && flow.phase() == 4 {
            if delivered < 500.0 {
                flow.acknowledge();
                delivered += 1.0;
            } else {
                let left = flow.flying.len() - 1;
                flow.lose(left, false);
                flow.acknowledge();
                delivered += 1.0;
            }
            if flow.phase() == 4 {
                assert_eq!(flow.variable("cwnd_packets"), held, "it is set once");
            }
        }
        assert_eq!(flow.phase(), 0);
        assert!((flow.variable("ssthresh_packets") - delivered * beta).abs() < 1.0, "{policy}");
        assert_eq!(flow.variable("cwnd_packets"), held);
        assert_eq!(flow.controller.permit().recovery, Recovery::Prr);
        assert_eq!(flow.controller.remember(flow.now), None, "the set is gone");
        flow.controller.on_spurious(flow.now);
        assert_eq!(flow.variable("cwnd_packets"), held, "a retreat stands");
    }
}

#[test]
fn an_application_that_cannot_use_the_jump_keeps_what_it_used() {
    let rtt = Nanos::from_millis(100);
    let remembered = Remembered { window: 2_000 * MSS, min_rtt: rtt, age: Nanos::ZERO };
    let mut flow = Flow::new("reno:start=resume", Some(remembered), rtt);
    flow.has = 30_000;
    while flow.delivered + MSS <= flow.has {
        flow.fill(flow.now);
        flow.acknowledge();
    }
    assert_eq!(flow.phase(), 0);
    let window = packets(flow.controller.as_ref());
    assert!((10..=21).contains(&window), "{window}");
    assert!(flow.controller.permit().threshold == u64::MAX, "slow start goes on");
    // It has learnt nothing better.
    assert_eq!(flow.controller.remember(flow.now).unwrap().window, remembered.window);
}

#[test]
fn half_is_remembered_of_a_flow_that_still_grows() {
    let rtt = Nanos::from_millis(100);
    let grown = |packets: u64| {
        let mut flow = Flow::new("reno:start=resume", None, rtt);
        for _ in 0..packets {
            flow.fill(flow.now);
            flow.acknowledge();
        }
        flow
    };
    let learnt = |flow: &Flow| flow.controller.remember(flow.now).map(|remembered| remembered.window / MSS);
    // Round trips of 10, 20, 40, 80 and 160 packets: half of the last that has ended.
    assert_eq!(learnt(&grown(310)), Some(40));
    assert_eq!(learnt(&grown(311)), Some(80));
    assert_eq!(learnt(&grown(150)), None, "less than four initial windows");
    let mut flow = grown(310);
    flow.lose(1, true);
    flow.phase = Repair::Open;
    for _ in 0..1_000 {
        flow.acknowledge();
    }
    let settled = flow.controller.remember(flow.now).unwrap();
    let window = packets(flow.controller.as_ref());
    assert!((window - 3..=window).contains(&(settled.window / MSS)), "{settled:?} of {window}");
    assert_eq!((settled.min_rtt, settled.age), (rtt, Nanos::ZERO));
}

#[test]
fn only_new_packets_of_the_jump_carry_its_tag() {
    let rtt = Nanos::from_millis(100);
    let remembered = Remembered { window: 2_000 * MSS, min_rtt: rtt, age: Nanos::ZERO };
    let mut flow = Flow::new("reno:start=resume", Some(remembered), rtt);
    flow.jump();
    assert!(flow.flying.iter().all(|(_, _, tag, _)| *tag == 0));
    let sent = Sent {
        now: flow.now,
        seq: 0,
        bytes: MSS as u32,
        in_flight: flow.in_flight(),
        retransmission: true,
        app_limited: false,
        unsent: u64::MAX,
    };
    assert_eq!(flow.controller.on_sent(&sent).tag, 0);
    let before = flow.flying.len();
    flow.send();
    flow.send();
    assert!(flow.flying.iter().skip(before).all(|(_, _, tag, _)| *tag == JUMP));
    // The acknowledgement of a packet from before the jump does not validate it.
    flow.rtt = Nanos::from_millis(50);
    flow.acknowledge();
    assert_eq!(flow.phase(), 2);
}

#[test]
fn a_jump_that_arrives_ends_the_start_up_at_what_it_found() {
    let rtt = Nanos::from_millis(100);
    let remembered = Remembered { window: 2_000 * MSS, min_rtt: rtt, age: Nanos::ZERO };
    let mut flow = Flow::new("cubic:start=resume", Some(remembered), rtt);
    flow.jump();
    let began = flow.now;
    while flow.phase() > 0 {
        flow.acknowledge();
    }
    let window = packets(flow.controller.as_ref());
    assert!((1_900..=2_100).contains(&window), "{window}");
    assert!(flow.controller.permit().threshold <= flow.controller.window() + MSS);
    assert!(flow.now - began < rtt.mul_div(21, 10), "two round trips: {:?}", flow.now - began);
    assert!(flow.controller.remember(flow.now).is_some());
}

#[test]
fn congestion_before_the_jump_forbids_it() {
    let remembered = Remembered { window: 2_000 * MSS, min_rtt: Nanos::from_millis(100), age: Nanos::ZERO };
    let mut flow = Flow::new("reno:start=resume", Some(remembered), Nanos::from_millis(100));
    flow.fill(flow.now);
    flow.acknowledge();
    flow.lose(1, true);
    assert_eq!((flow.phase(), packets(flow.controller.as_ref())), (0, 5));
    assert!(flow.controller.remember(flow.now).is_some(), "what was remembered has not been disproved");
}

#[test]
fn without_anything_remembered_it_is_the_other_start_up() {
    for then in THEN {
        let [mut resume, mut plain] = [format!("cubic:start=resume,resume_then={then}"), format!("cubic:start={then}")]
            .map(|spec| Flow::new(&spec, None, Nanos::from_millis(100)));
        for _ in 0..3_000 {
            for flow in [&mut resume, &mut plain] {
                flow.fill(flow.now);
                flow.acknowledge();
            }
            assert_eq!(resume.controller.permit(), plain.controller.permit(), "{then}");
        }
    }
}
