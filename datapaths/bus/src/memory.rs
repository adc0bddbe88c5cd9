//! A bus within a process.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::subscription::Inbox;

/// What the ends of a bus within a process share.
#[derive(Clone, Default)]
pub struct Hub(Arc<Mutex<Vec<Weak<Inbox>>>>);

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

impl Hub {
    pub(crate) fn add(&self, inbox: &Arc<Inbox>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(inbox));
    }

    /// Gives a message to all subscribers, which takes as long as they take to look at it.
    pub(crate) fn pass(&self, subject: &str, bytes: &[u8]) {
        let mut inboxes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inboxes.retain(|inbox| match inbox.upgrade() {
            Some(inbox) => {
                inbox.deliver(subject, bytes);
                true
            }
            None => false,
        });
    }
}
