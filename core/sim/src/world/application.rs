//! What applications do while their flows run.

use paceline_cc::Time;
use paceline_experiment::media::permitted;
use paceline_experiment::{AppTurn, Frames};

use super::World;
use crate::ends::Ends;
use crate::timers::Target;

impl World<'_> {
    /// The application of a configured flow stops writing: the flow ends here, what is in flight is not waited for.
    pub(super) fn stop(&mut self, index: u32) {
        if let Some(number) = self.families[index as usize].number {
            self.retire(number);
        }
    }

    /// An application's turn: a packet at a constant rate, the other half of on/off, or frames.
    pub(super) fn application(&mut self, number: u32, at: Time) {
        let Some(live) = self.live.get_mut(number) else { return };
        let family = &mut self.families[live.family as usize];
        let Some(application) = family.application.as_mut().filter(|_| family.turn == at) else { return };
        let (turn, wait) = application.turn(at, || permitted(live.ends.steering()));
        match turn {
            AppTurn::Write(bytes) => live.ends.write(bytes),
            turn => turn.act(live.ends.steering_mut()),
        }
        family.turn = self.now + wait;
        self.timers.set(family.turn, Target::Application(number));
        self.release(number);
    }
}

/// The parts of frames that a sender has lost and does not send again itself.
pub(super) fn hand_over_again(ends: &mut Ends, frames: &Frames) {
    let owed = frames.take_owed();
    if owed > 0 {
        ends.write(owed);
    }
}
