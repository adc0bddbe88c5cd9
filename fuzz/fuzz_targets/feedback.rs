//! Feedback for Sprout from a stranger: a blob that is refused changes nothing, one that is taken leaves a window of at
//! least a packet and finite variables. The input is a row of blobs, each led by its length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::{Env, Nanos, Sent, Spec, Time};

fuzz_target!(|bytes: &[u8]| {
    let env = Env::default();
    let spec: Spec = "sprout".parse().expect("sprout is registered");
    let mut controller = spec.build(&env);
    let (mut rest, mut now, mut seq) = (bytes, Time::ZERO, 0);
    while let Some((length, after)) = rest.split_first() {
        let (blob, after) = after.split_at(after.len().min(usize::from(length % 80)));
        rest = after;
        now += Nanos::from_millis(20);
        let bytes = env.mss;
        let mut sent = Sent::new(now, seq, bytes);
        sent.unsent = 0;
        controller.on_sent(&sent);
        seq += u64::from(bytes);
        let before = controller.window();
        if controller.on_feedback(now, blob).is_err() {
            assert_eq!(controller.window(), before, "a refused blob changed the window");
        }
        if controller.next_tick() <= now {
            controller.on_tick(now);
        }
        assert!(controller.window() >= u64::from(env.mss));
        controller.describe(&mut |name, value| assert!(value.is_finite(), "{name} is {value}"));
    }
});
