//! What is asked for often, as a thread of the router sees it: it is to go to the kernel's store.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use paceline_icn::{Admission, Burst, Name};

/// Parts that wait to be filled in; more are asked for again (our choice).
const WAITING: usize = 256;

/// Units of an object in a row, a part, that were asked for.
pub(super) type Wanted = (Name, u64);

/// Where threads say what is asked for.
#[derive(Clone)]
pub(super) struct Tell {
    to: SyncSender<Wanted>,
    part_units: u64,
}

impl Tell {
    /// And where it is heard; parts have so many units.
    #[cfg_attr(not(feature = "kernel-store"), expect(dead_code, reason = "who hears it is not there"))]
    pub(super) fn new(part_units: u64) -> (Self, Receiver<Wanted>) {
        let (to, heard) = sync_channel(WAITING);
        (Self { to, part_units }, heard)
    }
}

/// One thread's view.
pub(super) struct Popular {
    tell: Tell,
    admission: Admission,
    last: Option<Wanted>,
}

impl Popular {
    /// `key`: drawn at random.
    pub(super) fn new(tell: Tell, key: u64) -> Self {
        Self { tell, admission: Admission::new(key), last: None }
    }

    /// Units leave. Of an object that a second fetch asks for, unit by unit, that part goes to the kernel.
    pub(super) fn leaves(&mut self, burst: &Burst) {
        if burst.units.count > 1 || !self.admission.missed(&burst.name, burst.nonce) {
            return;
        }
        let wanted = (burst.name, burst.units.first / self.tell.part_units);
        if self.last != Some(wanted) && self.tell.to.try_send(wanted).is_ok() {
            self.last = Some(wanted);
        }
    }
}
