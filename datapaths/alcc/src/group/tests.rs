//! Members of a group and their aggregate.

use paceline_cc::observe::{Event, Observed, Observer};
use paceline_cc::testing::assert_passes_on;
use paceline_cc::{Env, Spec};
use paceline_transport::{Above, ArrivalClock, Delivered, SenderConfig, Took};

use super::*;

const MSS: u64 = 1448;

fn flows(group: &Group, spec: &str, count: usize) -> Vec<Above> {
    let spec: Spec = spec.parse().unwrap();
    let member = || group.member(|| spec.build(&Env::default()), MSS as u32);
    (0..count).map(|_| Above::new(&SenderConfig::default(), member())).collect()
}

fn hand_over(flow: &mut Above, now: Time) {
    while let Some(bytes) = flow.poll(now) {
        flow.handed(now, bytes, false);
    }
}

/// What the aggregate's controller saw of each acknowledgement.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Acked>>>);

/// Smoothed RTT, minimum RTT, bytes in flight, and whether the window limited the flow.
type Acked = (Nanos, Nanos, u64, bool);

impl Observer for Seen {
    fn on_event(&mut self, event: &Event<'_>, _controller: &dyn Controller) {
        if let Event::Acked(ack) = event {
            lock(&self.0).push((ack.srtt, ack.min_rtt, ack.in_flight, ack.window_limited));
        }
    }
}

#[test]
fn the_aggregate_sees_handshakes_and_what_ended_a_burst() {
    let (group, seen) = (Group::default(), Seen::default());
    let spec: Spec = "fixed:window=20".parse().unwrap();
    let make = || Observed::wrap(spec.build(&Env::default()), Some(Box::new(seen.clone())));
    let mut flows = [(); 2].map(|()| Above::new(&SenderConfig::default(), group.member(make, MSS as u32)));
    let ms = Nanos::from_millis;
    flows[0].connected(Time::from_millis(1), ms(30));
    assert_eq!(lock(&seen.0).pop(), Some((ms(30), ms(30), 0, false)));
    // Twelve of twenty: more than half a window, but the application ended it.
    flows[0].queued(12 * MSS);
    hand_over(&mut flows[0], Time::from_millis(2));
    flows[1].connected(Time::from_millis(3), ms(20));
    let (_, min_rtt, in_flight, _) = lock(&seen.0).pop().unwrap();
    assert_eq!((min_rtt, in_flight), (ms(20), 12 * MSS), "another handshake leaves what is in flight");
    let news = |upto, at| Delivered { upto, at, repaired: false, took: Took::Reported, arrived: ArrivalClock::Unknown };
    flows[0].delivered(Time::from_millis(32), &news(12 * MSS, Time::from_millis(32)));
    assert_eq!(lock(&seen.0).pop().map(|(.., limited)| limited), Some(false));
    flows[0].queued(u64::MAX);
    hand_over(&mut flows[0], Time::from_millis(33));
    flows[0].delivered(Time::from_millis(63), &news(20 * MSS, Time::from_millis(63)));
    assert_eq!(lock(&seen.0).pop().map(|(.., limited)| limited), Some(true));
}

#[test]
fn an_address_belongs_to_its_prefix() {
    let is = |a: &str, b: &str| prefix(a.parse().unwrap()) == prefix(b.parse().unwrap());
    assert!(is("192.0.2.1", "192.0.2.200") && !is("192.0.2.1", "192.0.3.1"));
    assert!(is("2001:db8:1::1", "2001:db8:1:ffff::2") && !is("2001:db8:1::1", "2001:db8:2::1"));
    assert!(is("::ffff:192.0.2.9", "192.0.2.1"));
}

#[test]
fn the_smallest_rtt_is_heard_once_and_believed_for_a_while() {
    let group = Group::default();
    let (mut first, mut second) = (0, 0);
    let (ms, at) = (Nanos::from_millis, Time::from_millis);
    assert_eq!(group.exchange(at(0), Some(ms(20)), &mut first), Some(ms(20)));
    assert_eq!(group.exchange(at(1), Some(ms(50)), &mut second), Some(ms(20)));
    assert_eq!(group.exchange(at(2), Some(ms(50)), &mut second), None);
    assert_eq!(group.exchange(at(3), Some(ms(18)), &mut second), Some(ms(18)));
    assert_eq!(group.exchange(at(4), None, &mut first), None, "it has nothing to compare with");
    assert_eq!(group.exchange(at(5), Some(ms(40)), &mut first), Some(ms(18)), "and is told when it has");
    assert_eq!(group.exchange(at(10_004), Some(ms(30)), &mut first), Some(ms(30)));
}

#[test]
fn one_window_is_shared_in_equal_parts_and_what_one_leaves_the_other_takes() {
    let group = Group::default();
    let mut flows = flows(&group, "fixed:window=20", 2);
    let in_flight = |flows: &[Above]| flows.iter().map(|flow| flow.in_flight() / MSS).collect::<Vec<_>>();
    flows[0].queued(u64::MAX);
    hand_over(&mut flows[0], Time::from_millis(1));
    assert_eq!(in_flight(&flows), [20, 0], "alone it has all");
    flows[1].queued(u64::MAX);
    for round in 1..200_u64 {
        let now = Time::from_millis(20 * round);
        for n in [1, 0] {
            let upto = flows[n].una() + MSS * 5;
            let upto = upto.min(flows[n].next());
            let news =
                Delivered { upto, at: now, repaired: false, took: Took::Reported, arrived: ArrivalClock::Unknown };
            flows[n].delivered(now, &news);
            hand_over(&mut flows[n], now);
        }
        assert!(round < 10 || in_flight(&flows) == [10, 10], "{round}: {:?}", in_flight(&flows));
    }
    flows.pop();
    hand_over(&mut flows[0], Time::from_millis(5000));
    assert_eq!(in_flight(&flows), [20]);
}

#[test]
fn a_member_passes_on_every_event_and_every_answer() {
    let group = Group::default();
    // What leaves changes this flow's part. Alone it has all.
    let own = |mut permit: Permit| {
        permit.outlasts_departures = false;
        permit
    };
    assert_passes_on(|inside| group.member(|| inside, 1000), own);
}

#[test]
fn a_member_answers_for_its_part_of_the_rate_and_of_the_threshold() {
    let group = Group::default();
    let member = || group.member(|| "reno:ssthresh=40".parse::<Spec>().unwrap().build(&Env::default()), MSS as u32);
    let mut members = [member(), member()];
    for member in &mut members {
        let (now, bytes) = (Time::from_millis(1), MSS as u32);
        let in_flight = MSS;
        let mut sent = Sent::new(now, 0, bytes);
        sent.in_flight = in_flight;
        sent.unsent = 0;
        member.on_sent(&sent);
    }
    for member in &members {
        let Permit { window, threshold, .. } = member.permit();
        assert_eq!((window, threshold), (9 * MSS, 36 * MSS));
    }
}

#[test]
fn a_member_sends_heartbeats_and_takes_no_part_of_the_window_by_them() {
    let group = Group::default();
    let sprout: Spec = "sprout".parse().unwrap();
    let silence = sprout.build(&Env::default()).nature().heartbeat.unwrap();
    let mut flow = flows(&group, "sprout", 1).remove(0);
    let left = Time::from_millis(1);
    flow.queued(MSS);
    hand_over(&mut flow, left);
    let due = left + silence;
    assert_eq!(flow.poll_empty(Time::from_millis(21)), None);
    assert!(flow.next_wake() <= due);
    assert!(flow.poll_empty(due).is_some());

    let mut silent = group.member(|| sprout.build(&Env::default()), MSS as u32);
    let active = || lock(lock(&group.aggregate).as_ref().unwrap()).active;
    assert_eq!(active(), 1);
    let (now, seq, bytes, in_flight) = (due, 0, 0, 0);
    let mut sent = Sent::new(now, seq, bytes);
    sent.in_flight = in_flight;
    sent.app_limited = true;
    sent.unsent = 0;
    silent.on_sent(&sent);
    assert_eq!(active(), 1);
}
