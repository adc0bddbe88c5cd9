//! A flow by numbers: what is reported of it, example by example.

mod model;

use std::sync::{Arc, Mutex};

use paceline_cc::{
    Ack, Cause, Controller, Ecn, Env, Loss, Nanos, Nature, Permit, Phase, Restart, Sent, Spec, Stamp, Time, Timeout,
};
use paceline_transport::{FlowLimit, Numbered, NumberedAck, NumberedNews, SenderConfig};

const MSS: u32 = 1000;

/// What the controller was told.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Sent {
        tag: u64,
        seq: u64,
        bytes: u32,
        in_flight: u64,
    },
    Acked {
        tags: Vec<u64>,
        bytes: u64,
        rtt: Option<u64>,
        flight: (u64, u64),
        una: u64,
        next: u64,
        lost: u64,
        phase: Phase,
    },
    Marked {
        /// Tags of those that are said to be marked.
        tags: Vec<u64>,
        bytes: u64,
        packets: u32,
        echo: bool,
    },
    Lost {
        tags: Vec<u64>,
        bytes: u64,
        flight: (u64, u64),
        new: bool,
    },
    Timeout {
        tags: Vec<u64>,
        count: u32,
    },
    Spurious,
    Restart,
    Dry(u64),
    Limited,
    Mss(u32),
}

/// A window of 10 packets; each packet's tag is how many left before it.
#[derive(Clone)]
struct Spy {
    told: Arc<Mutex<Vec<Told>>>,
    sent: u64,
    ecn: Ecn,
}

impl Spy {
    fn note(&self, told: Told) {
        self.told.lock().unwrap().push(told);
    }
}

impl Controller for Spy {
    fn on_sent(&mut self, sent: &Sent) -> Stamp {
        let (tag, Sent { seq, bytes, in_flight, .. }) = (self.sent, *sent);
        self.sent += 1;
        self.note(Told::Sent { tag, seq, bytes, in_flight });
        Stamp::new(tag, 70 + tag)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let tags = ack.packets.iter().map(|packet| packet.tag).collect();
        let (flight, rtt) = ((ack.prior_in_flight, ack.in_flight), ack.rtt.map(|rtt| rtt.as_nanos() / 1_000_000));
        let (una, next, lost, phase) = (ack.una, ack.next, ack.lost_bytes, ack.phase);
        self.note(Told::Acked { tags, bytes: ack.bytes, rtt, flight, una, next, lost, phase });
        if ack.ce_packets > 0 {
            let tags = ack.packets.iter().filter(|packet| packet.ce).map(|packet| packet.tag).collect();
            self.note(Told::Marked { tags, bytes: ack.ce_bytes, packets: ack.ce_packets, echo: ack.echo });
        }
        if ack.window_limited {
            self.note(Told::Limited);
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        assert!(loss.packets.iter().all(|packet| packet.cause == Cause::Unknown));
        assert!(loss.packets.is_sorted_by_key(|packet| packet.seq));
        let tags = loss.packets.iter().map(|packet| packet.tag).collect();
        let flight = (loss.prior_in_flight, loss.in_flight);
        self.note(Told::Lost { tags, bytes: loss.bytes, flight, new: loss.new_episode });
    }

    fn on_timeout(&mut self, timeout: &Timeout<'_>) {
        let tags = timeout.packets.iter().map(|packet| packet.tag).collect();
        self.note(Told::Timeout { tags, count: timeout.count });
    }

    fn on_spurious(&mut self, _now: Time) {
        self.note(Told::Spurious);
    }

    fn on_restart(&mut self, _restart: &Restart) {
        self.note(Told::Restart);
    }

    fn on_app_limited(&mut self, _now: Time, in_flight: u64) {
        self.note(Told::Dry(in_flight));
    }

    fn on_mss(&mut self, _now: Time, mss: u32) {
        self.note(Told::Mss(mss));
    }

    fn nature(&self) -> Nature {
        let mut nature = Nature::PLAIN;
        nature.ecn = self.ecn;
        nature
    }

    fn permit(&self) -> Permit {
        Permit::up_to(10 * u64::from(MSS))
    }

    fn describe(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

/// A flow under a spy, and what the spy was told since it was last asked.
struct Watched {
    flow: Numbered,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Watched {
    fn new(ecn: Ecn) -> Self {
        let spy = Spy { told: Arc::default(), sent: 0, ecn };
        let told = Arc::clone(&spy.told);
        let config = SenderConfig::new(MSS);
        Self { flow: Numbered::new(&config, Box::new(spy)), told }
    }

    fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    /// Full packets of these numbers leave.
    fn send(&mut self, now: u64, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            assert!(self.flow.sent(at(now), number, MSS, u64::MAX, FlowLimit::Application).is_some());
        }
    }

    /// The same, and the spy's notes of it are thrown away.
    fn sent(ecn: Ecn, numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut watched = Self::new(ecn);
        watched.send(0, numbers);
        watched.told();
        watched
    }

    fn ack(&mut self, now: u64, numbers: &[u64], lost: &[u64]) -> Option<Nanos> {
        let news = NumberedNews::default().with_lost(lost);
        self.flow.acked(at(now), numbers.iter().copied(), &news)
    }
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// An acknowledgement without an RTT sample, outside recovery.
fn acked(tags: &[u64], flight: (u64, u64), una: u64, next: u64) -> Told {
    let (tags, bytes) = (tags.to_vec(), tags.len() as u64 * u64::from(MSS));
    Told::Acked { tags, bytes, rtt: None, flight, una, next, lost: 0, phase: Phase::Open }
}

fn timed(told: Told, millis: u64) -> Told {
    let Told::Acked { tags, bytes, flight, una, next, lost, phase, .. } = told else { return told };
    Told::Acked { tags, bytes, rtt: Some(millis), flight, una, next, lost, phase }
}

fn in_phase(told: Told, new: Phase, lost: u64) -> Told {
    let Told::Acked { tags, bytes, rtt, flight, una, next, .. } = told else { return told };
    Told::Acked { tags, bytes, rtt, flight, una, next, lost, phase: new }
}

#[test]
fn packets_have_positions_and_numbers_may_leave_gaps() {
    let mut flow = Watched::new(Ecn::Off);
    assert_eq!(flow.flow.sent(at(0), 5, 300, 0, FlowLimit::Unknown), Some(70));
    assert_eq!(flow.flow.sent(at(0), 9, 500, 0, FlowLimit::Unknown), Some(71));
    assert_eq!(
        flow.told(),
        [
            Told::Sent { tag: 0, seq: 0, bytes: 300, in_flight: 300 },
            Told::Sent { tag: 1, seq: 300, bytes: 500, in_flight: 800 }
        ]
    );
    for number in [9, 7, 0] {
        assert_eq!(flow.flow.sent(at(1), number, 500, 0, FlowLimit::Unknown), None, "{number}");
    }
    assert_eq!((flow.told(), flow.flow.in_flight()), (vec![], 800));
}

#[test]
fn losses_come_before_what_was_delivered_with_them() {
    let mut flow = Watched::sent(Ecn::Off, 0..6);
    // In any order; 4 is not in flight twice, 77 never was.
    assert_eq!(flow.ack(40, &[4, 3, 4, 77], &[1, 0]), Some(Nanos::from_millis(40)));
    let ack = in_phase(timed(acked(&[3, 4], (6000, 2000), 5000, 6000), 40), Phase::Recovery, 2000);
    assert_eq!(flow.told(), [Told::Lost { tags: vec![0, 1], bytes: 2000, flight: (6000, 2000), new: true }, ack]);
    assert_eq!((flow.flow.in_flight(), flow.flow.oldest()), (2000, Some(2)));
}

#[test]
fn an_rtt_is_taken_only_where_the_newest_packet_is_among_the_news() {
    let mut flow = Watched::sent(Ecn::Off, 0..4);
    assert_eq!(flow.ack(40, &[2], &[]), Some(Nanos::from_millis(40)));
    assert_eq!(flow.ack(41, &[0], &[]), None);
    assert_eq!(flow.flow.rtt().min(), Nanos::from_millis(40));
    assert_eq!(flow.ack(42, &[1, 3], &[]), Some(Nanos::from_millis(42)));
    assert_eq!(
        flow.told(),
        [
            timed(acked(&[2], (4000, 3000), 3000, 4000), 40),
            acked(&[0], (3000, 2000), 3000, 4000),
            timed(acked(&[1, 3], (2000, 0), 4000, 4000), 42)
        ]
    );
}

#[test]
fn an_episode_lasts_until_something_sent_after_its_start_was_delivered() {
    let mut flow = Watched::sent(Ecn::Off, 0..6);
    flow.ack(40, &[3], &[0]);
    flow.flow.lost(at(41), &[1], false);
    flow.send(41, [6]);
    flow.ack(42, &[5], &[2]);
    let new: Vec<bool> = flow
        .told()
        .iter()
        .filter_map(|told| if let Told::Lost { new, .. } = told { Some(*new) } else { None })
        .collect();
    assert_eq!((new, flow.flow.phase()), (vec![true, false, false], Phase::Recovery));
    // 6 left after the start, though in the same moment.
    flow.ack(43, &[6], &[4]);
    let told = flow.told();
    assert!(matches!(told[0], Told::Lost { new: false, .. }), "{told:?}");
    assert_eq!(flow.flow.phase(), Phase::Open);
    flow.send(44, [7, 8]);
    flow.ack(84, &[8], &[7]);
    assert!(flow.told().contains(&Told::Lost { tags: vec![7], bytes: 1000, flight: (2000, 0), new: true }));
}

#[test]
fn persistent_congestion_is_a_time_out_counted_until_something_gets_through() {
    let mut flow = Watched::sent(Ecn::Off, 0..3);
    flow.flow.lost(at(900), &[0, 1], true);
    flow.flow.lost(at(2000), &[], true);
    assert_eq!(flow.told(), [Told::Timeout { tags: vec![0, 1], count: 1 }, Told::Timeout { tags: vec![], count: 2 }]);
    assert_eq!(flow.flow.phase(), Phase::Loss);
    flow.send(2001, [3, 4]);
    flow.ack(2040, &[3], &[]);
    assert_eq!(flow.flow.phase(), Phase::Open);
    flow.told();
    flow.flow.lost(at(5000), &[4], true);
    assert_eq!(flow.told(), [Told::Timeout { tags: vec![4], count: 1 }]);
}

#[test]
fn a_mark_is_an_echo_once_an_episode_and_counted_each_time() {
    let mut flow = Watched::sent(Ecn::Exact, 0..4);
    let marked = |number| NumberedAck::new(number, true, None);
    flow.flow.acked(at(40), [marked(0), NumberedAck::from(1)], &NumberedNews::default());
    flow.flow.acked(at(41), [marked(2)], &NumberedNews::default());
    // Where only their number is known, they are full of the newest packet's size.
    flow.flow.acked(at(42), [3_u64], &NumberedNews::default().with_ce_packets(5));
    assert_eq!(flow.flow.phase(), Phase::Cwr);
    let marks: Vec<Told> = flow.told().into_iter().filter(|told| matches!(told, Told::Marked { .. })).collect();
    let mark = |tag, packets, echo| Told::Marked { tags: vec![tag], bytes: 1000, packets, echo };
    assert_eq!(marks, [mark(0, 1, true), mark(2, 1, false), mark(3, 5, false)]);

    // Exact answers to marks do not stand for those to losses.
    flow.send(50, [4, 5]);
    flow.flow.lost(at(51), &[4], false);
    assert!(flow.told().contains(&Told::Lost { tags: vec![4], bytes: 1000, flight: (2000, 1000), new: true }));

    // The newest stand for those that are not known.
    flow.send(60, [6, 7, 8]);
    flow.flow.acked(at(90), [6, 7, 8], &NumberedNews::default().with_ce_packets(2));
    let marked = Told::Marked { tags: vec![7, 8], bytes: 2000, packets: 2, echo: true };
    assert!(flow.told().contains(&marked), "{marked:?}");
}

#[test]
fn without_ecn_a_mark_is_the_loss_of_one_packet_an_episode() {
    let mut flow = Watched::sent(Ecn::Off, 0..3);
    flow.ack(40, &[0], &[]);
    flow.told();
    let marked = NumberedNews::default().with_ce_packets(1);
    flow.flow.acked(at(40), [0_u64; 0], &marked);
    flow.flow.acked(at(41), [0_u64; 0], &marked);
    assert_eq!(flow.told(), [Told::Lost { tags: vec![0], bytes: 1000, flight: (2000, 2000), new: true }]);
    flow.flow.spurious(at(42));
    assert_eq!(flow.told(), [], "a mark is not undone");
}

#[test]
fn bytes_are_settled_backwards_and_a_loss_among_them_finds_a_stand_in() {
    let mut flow = Watched::sent(Ecn::Off, 0..8);
    // 1 and 5 are on their way still.
    let news = NumberedNews::default();
    assert_eq!(flow.flow.acked_bytes(at(40), 5000, 6, &news), Some(Nanos::from_millis(40)));
    assert_eq!(flow.told(), [timed(acked(&[2, 3, 4, 5, 6], (8000, 3000), 7000, 8000), 40)]);
    flow.flow.lost(at(41), &[5], false);
    assert_eq!(flow.told(), [Told::Lost { tags: vec![0], bytes: 1000, flight: (3000, 2000), new: true }]);
    flow.flow.lost(at(42), &[1], false);
    assert_eq!(flow.told(), [Told::Lost { tags: vec![1], bytes: 1000, flight: (2000, 1000), new: false }]);
    flow.flow.lost(at(43), &[5], false);
    assert_eq!((flow.told(), flow.flow.in_flight()), (vec![], 1000), "nothing before the newest is left");
    // Those found lost in the same news are not among the bytes.
    let mut flow = Watched::sent(Ecn::Off, 0..4);
    flow.flow.acked_bytes(at(40), 2000, 3, &news.with_lost(&[2]));
    let told = flow.told();
    assert_eq!(told[0], Told::Lost { tags: vec![2], bytes: 1000, flight: (4000, 1000), new: true });
    assert!(matches!(&told[1], Told::Acked { tags, .. } if tags == &[1, 3]), "{told:?}");
}

#[test]
fn bytes_that_are_not_those_of_whole_packets_count_later() {
    let mut flow = Watched::sent(Ecn::Off, 0..9);
    let mut taken = |bytes, newest| {
        flow.flow.acked_bytes(at(40), bytes, newest, &NumberedNews::default());
        flow.flow.in_flight()
    };
    // 600 cover most of 0, and 1000 less 400 most of 1; 700 less 400 are too few for 2, and with 1100 enough for 3 alone.
    assert_eq!([taken(600, 0), taken(1000, 1), taken(700, 2), taken(1100, 3)], [8000, 7000, 7000, 6000]);
    assert_eq!(taken(u64::MAX, 8), 0);
}

#[test]
fn a_mistake_is_undone_once_and_only_where_losses_were_answered() {
    let mut flow = Watched::sent(Ecn::Off, 0..5);
    flow.flow.spurious(at(1));
    assert_eq!(flow.told(), []);
    flow.ack(40, &[3], &[0]);
    flow.told();
    flow.flow.spurious(at(41));
    flow.flow.spurious(at(42));
    assert_eq!((flow.told(), flow.flow.phase()), (vec![Told::Spurious], Phase::Open));
    flow.flow.lost(at(43), &[1], false);
    assert!(matches!(flow.told()[..], [Told::Lost { new: true, .. }]));
}

#[test]
fn what_is_discarded_means_nothing_and_a_dry_flow_is_told_once() {
    let mut flow = Watched::sent(Ecn::Off, 0..3);
    flow.flow.discarded(&[1, 1, 9]);
    assert_eq!((flow.told(), flow.flow.in_flight()), (vec![], 2000));
    flow.flow.run_dry(at(1));
    flow.flow.run_dry(at(2));
    assert_eq!(flow.told(), [Told::Dry(2000)]);
    flow.ack(40, &[0, 2], &[]);
    flow.told();
    flow.send(1000, [3]);
    assert_eq!(flow.told()[0], Told::Restart);
}

#[test]
fn the_window_limits_a_flow_unless_it_ran_dry() {
    let mut flow = Watched::new(Ecn::Off);
    for (number, limit) in [FlowLimit::Window, FlowLimit::Application, FlowLimit::Unknown].into_iter().enumerate() {
        flow.flow.sent(at(0), number as u64, MSS, 0, limit);
    }
    let mut limited = |number| {
        flow.told();
        flow.ack(40, &[number], &[]);
        flow.told().contains(&Told::Limited)
    };
    assert_eq!([limited(0), limited(1), limited(2)], [true, false, false]);
    flow.flow.sent(at(41), 3, MSS, 0, FlowLimit::Window);
    flow.flow.run_dry(at(42));
    flow.told();
    flow.ack(80, &[3], &[]);
    assert!(!flow.told().contains(&Told::Limited));
}

#[test]
fn a_datapath_that_counts_what_is_in_flight_has_the_last_word() {
    let mut flow = Watched::sent(Ecn::Off, 0..3);
    let counted = |bytes| NumberedNews::default().with_in_flight(Some(bytes));
    flow.flow.acked(at(40), [1_u64], &counted(1000));
    assert_eq!((flow.flow.in_flight(), flow.flow.oldest()), (1000, Some(0)), "too young to be forgotten");
    flow.send(300, [3, 4]);
    flow.flow.acked(at(340), [3_u64], &counted(1000));
    assert_eq!((flow.flow.in_flight(), flow.flow.oldest()), (1000, Some(0)), "nothing delivered before left later");
    flow.flow.acked(at(600), [0_u64; 0], &counted(1000));
    assert_eq!(flow.flow.oldest(), Some(4));
    flow.flow.acked(at(601), [0_u64; 0], &counted(0));
    assert_eq!((flow.flow.in_flight(), flow.flow.oldest()), (0, None));
}

#[test]
fn an_rtt_of_the_datapath_says_when_the_newest_left() {
    let mut flow = Watched::sent(Ecn::Off, 0..3);
    let measured = NumberedNews::default().with_rtt(Some(Nanos::from_millis(25)));
    assert_eq!(flow.flow.acked(at(40), [1_u64, 0], &measured), Some(Nanos::from_millis(25)));
    assert_eq!(flow.flow.rtt().min(), Nanos::from_millis(25));
    assert_eq!(flow.flow.acked(at(50), [2_u64], &NumberedNews::default()), Some(Nanos::from_millis(50)));
}

#[test]
fn a_packet_may_leave_when_it_is_due_and_has_room() {
    let flow = Watched::sent(Ecn::Off, 0..9);
    assert!(flow.flow.may_send(at(0), 1000) && !flow.flow.may_send(at(0), 1001));
    let spec: Spec = "fixed:window=100,rate=8".parse().unwrap();
    let mut paced = Numbered::new(&SenderConfig::new(MSS), spec.build(&Env::default()));
    let now = at(5);
    for number in 0..10 {
        paced.sent(now, number, MSS, 0, FlowLimit::Unknown);
    }
    assert!(paced.due() > now && !paced.may_send(now, 1) && paced.may_send(paced.due(), MSS));
}
