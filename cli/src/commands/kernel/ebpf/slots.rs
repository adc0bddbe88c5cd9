//! Flows that an agent leaves to CUBIC.

use paceline_kernel::KernelAgent;

use crate::commands::seldom::Seldom;
use crate::complaint;

/// Says in a line that flows are left to CUBIC, because all slots of the agent are taken, or those of one user.
pub(super) struct LeftToCubic {
    said: u64,
    seldom: Seldom,
}

impl LeftToCubic {
    /// From now on.
    pub(super) fn new(agent: &KernelAgent) -> Self {
        Self { said: agent.figures().no_slot, seldom: Seldom::default() }
    }

    /// Says it, if there are more than were said.
    pub(super) fn say(&mut self, agent: &KernelAgent) {
        let now = agent.figures().no_slot;
        if now > self.said && self.seldom.is_due() {
            let flows = now - self.said;
            complaint::print(&format!(
                "{flows} flows are CUBIC: all slots are taken, or three quarters of them by one user"
            ));
            self.said = now;
        }
    }
}
