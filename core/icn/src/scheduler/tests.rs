//! Who gets how much, at what rate.

use std::net::Ipv4Addr;

use paceline_cc::Rate;
use proptest::prelude::*;

use super::*;
use crate::name::NameKind;

fn job(from: u32, first: u64, count: u32) -> (CountedAddress, ReadyRequest) {
    let to = SocketAddr::from((Ipv4Addr::from_bits(from), 9));
    let mut ranges = Ranges::one(first);
    (1..u64::from(count)).for_each(|more| assert!(ranges.push(first + more)));
    let name = Name::new(NameKind::Object, [0; 32]);
    let job = ReadyRequest { to, nonce: 0, name, ranges, stored_units: None, arrived: Time::ZERO, app_limited: false };
    (CountedAddress::of(to), job)
}

fn scheduler(requests: usize, units: u64, rate: Rate, key: u64) -> Scheduler {
    Scheduler::new(requests, units, Arc::new(LinkPace::new(rate)), key)
}

fn push(queue: &mut Scheduler, (source, job): &(CountedAddress, ReadyRequest)) -> bool {
    queue.push(*source, job)
}

#[test]
fn a_source_that_asks_for_much_gets_as_much_as_one_that_asks_for_little() {
    let mut queue = scheduler(1000, 10_000, Rate::INFINITY, 1);
    for _ in 0..50 {
        assert!(push(&mut queue, &job(1, 0, 64)));
    }
    for _ in 0..100 {
        assert!(push(&mut queue, &job(2, 0, 5)));
    }
    let mut served = [0; 3];
    while served[1] + served[2] < 900 {
        let turn = queue.poll(Time::ZERO).unwrap();
        let from = if turn.job.to.ip() == Ipv4Addr::from_bits(1) { 1 } else { 2 };
        served[from] += turn.units.count;
    }
    assert!(served[1].abs_diff(served[2]) <= QUANTUM, "{served:?}");
}

#[test]
fn the_rate_holds_and_a_burst_has_an_end() {
    // 100 units a millisecond.
    let rate = Rate::from_bytes_per_sec(WIRE_UNIT * 100_000);
    let mut queue = scheduler(1000, 64_000, rate, 1);
    (0..500).for_each(|first| assert!(push(&mut queue, &job(1, first * 64, 64))));
    let (mut now, mut units, mut at_once) = (Time::from_millis(10), 0, 0);
    while now < Time::from_millis(110) {
        match queue.poll(now) {
            Some(turn) => {
                units += turn.units.count;
                at_once += turn.units.count;
            }
            None => {
                assert!(at_once <= MAX_BURST + QUANTUM, "{at_once}");
                at_once = 0;
                assert!(queue.next_timeout() > now);
                now = queue.next_timeout();
            }
        }
    }
    assert!((10_000 - 64..=10_000 + 64).contains(&units), "{units}");
}

#[test]
fn queues_of_one_pace_have_its_rate_together_and_one_alone_has_all_of_it() {
    // 10 units a millisecond.
    let rate = Rate::from_bytes_per_sec(WIRE_UNIT * 10_000);
    for busy in [1, 3] {
        let pace = Arc::new(LinkPace::new(rate));
        let mut queues: Vec<Scheduler> =
            (0..3).map(|key| Scheduler::new(1000, 64_000, Arc::clone(&pace), key)).collect();
        for queue in queues.iter_mut().take(busy) {
            (0..500).for_each(|first| assert!(push(queue, &job(1, first * 64, 64))));
        }
        let (mut now, mut units) = (Time::from_millis(10), [0_u32; 3]);
        while now < Time::from_millis(1010) {
            // As threads that wake at the same time, one first and then another.
            for at in 0..3 {
                let at = (at + now.as_nanos() as usize) % 3;
                units[at] += queues[at].poll(now).map_or(0, |turn| turn.units.count);
            }
            now += Nanos::from_micros(50);
        }
        let all: u32 = units.iter().sum();
        assert!((9_900..=10_000 + 64).contains(&all), "{busy}: {units:?}");
        assert!(units.iter().take(busy).all(|units| *units > all / busy as u32 / 2), "{units:?}");
    }
}

#[test]
fn a_source_that_fills_the_queue_leaves_room_for_others() {
    let mut queue = scheduler(4096, 8192, Rate::INFINITY, 1);
    for _ in 0..200 {
        for from in 0..100 {
            push(&mut queue, &job(from, 0, 64));
        }
    }
    assert!(push(&mut queue, &job(1000, 0, 64)));
    assert!(queue.units() <= 8192 + 101 * 64);
}

proptest! {
    #[test]
    fn every_unit_that_is_taken_leaves_once_and_all_room_comes_back(
        steps in prop::collection::vec((0..40_u32, 1..=64_u32, any::<bool>()), 1..400),
    ) {
        let mut queue = scheduler(32, 1000, Rate::from_bytes_per_sec(1 << 30), 5);
        let (mut now, mut first) = (Time::ZERO, 0);
        let (mut pushed, mut left) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        for (from, count, poll) in steps {
            if push(&mut queue, &job(from, first, count)) {
                pushed.extend(first..first + u64::from(count));
            }
            first += 100;
            if poll {
                now += Nanos::from_micros(20);
                if let Some(turn) = queue.poll(now) {
                    prop_assert!(turn.units.count <= QUANTUM);
                    prop_assert!(turn.units.iter().all(|unit| left.insert(unit)));
                }
            }
        }
        while queue.next_timeout() != Time::NEVER {
            now = now.max(queue.next_timeout());
            let turn = queue.poll(now);
            prop_assert!(turn.is_some());
            prop_assert!(turn.unwrap().units.iter().all(|unit| left.insert(unit)));
        }
        prop_assert_eq!(pushed, left);
        prop_assert_eq!(queue.units(), 0);
        prop_assert_eq!(queue.slots.capacity(), 32);
        prop_assert_eq!(queue.free_slots.len(), queue.slots.len());
        prop_assert_eq!(queue.free_queues.len(), queue.queues.len());
        prop_assert!(queue.heads.iter().all(|head| *head == NONE));
    }
}
