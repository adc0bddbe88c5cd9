//! Any order of calls: no controller panics, and a stack always has room for a packet.

use paceline_cc::registry::CONTROLLERS;
use paceline_cc::{Controller, Env};
use paceline_quic::Stack;
use proptest::prelude::*;

/// The MTU at first.
pub(crate) const MTU: u16 = 1200;

/// A stack's side: a clock, and what it has sent.
pub(crate) trait Caller {
    type Call: std::fmt::Debug;

    /// Of a controller for packets of [`MTU`] bytes.
    fn new(controller: Box<dyn Controller>) -> Self;

    /// Makes the call; answers whether there is room for a packet, where that can be asked now.
    fn make(&mut self, call: &Self::Call) -> bool;
}

/// Makes the calls to each controller that runs inside the stack.
pub(crate) fn survive<C: Caller>(stack: &Stack, calls: &[C::Call]) -> Result<(), TestCaseError> {
    for entry in CONTROLLERS {
        let Ok(factory) = stack.factory(entry.name.parse().unwrap(), 1) else { continue };
        let env = Env::new(u32::from(MTU)).with_paced(true);
        let mut caller = C::new(factory.spec().build(&env));
        for call in calls {
            prop_assert!(caller.make(call), "{}: after {call:?}", entry.name);
        }
    }
    Ok(())
}

pub(crate) fn config() -> ProptestConfig {
    ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() }
}
