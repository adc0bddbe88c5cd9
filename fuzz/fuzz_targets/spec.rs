//! The controller string: whatever parses must print as text that gives the same controller, and must build.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_cc::{Env, Spec};

fuzz_target!(|text: &str| {
    match text.parse::<Spec>() {
        Ok(spec) => {
            let again: Spec = spec.to_string().parse().expect("a printed controller parses");
            assert!(again == spec, "{text:?} prints as {spec}");
            let env = Env::default();
            assert!(spec.build(&env).window() >= u64::from(env.mss), "{spec}: less than one packet");
            spec.build_receiver(&env);
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "an error is one line"),
    }
});
