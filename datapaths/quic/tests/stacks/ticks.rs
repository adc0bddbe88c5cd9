//! A controller's ticks, where a loop runs them.

use paceline_cc::Ecn;

use crate::rate_limited::{Flying, MTU};
use crate::spy::Spy;
use crate::{STACKS, at};

#[test]
fn ticks_come_when_they_are_run_or_at_the_next_call() {
    for tested in STACKS {
        let spy = Spy::new(10 * u64::from(MTU), Ecn::Off);
        spy.set(|answers| answers.tick = at(5));
        let mut inside = (tested.inside)(Box::new(spy.clone()));
        // quinn tells of them at its calls alone.
        if inside.next_tick().is_none() {
            continue;
        }
        let name = tested.stack.name;
        let packet = |number: u64, millis: u64| Flying { number, sent_at: at(millis) };
        inside.sent(at(0), packet(0, 0), false);
        assert_eq!(inside.next_tick(), Some(at(5)), "{name}");
        inside.tick(at(4));
        inside.tick(at(5));
        assert_eq!(inside.next_tick(), Some(at(10)), "{name}");
        inside.sent(at(21), packet(1, 21), false);
        let ticks: Vec<String> = spy.calls().into_iter().filter(|call| call.starts_with("tick")).collect();
        assert_eq!(ticks, ["tick 5", "tick 10", "tick 15", "tick 20"], "{name}");
    }
}
