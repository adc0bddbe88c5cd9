//! What this host cannot do for a client, said once where it comes in crowds.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::complaint;

/// One line per kind in this time (our choice: a log stays readable however many clients ask).
const QUIET: Duration = Duration::from_secs(5);

/// What was said lately, by kind.
#[derive(Default)]
pub(in crate::commands) struct Troubles {
    said: BTreeMap<String, Said>,
}

struct Said {
    at: Instant,
    /// Others of the kind that were not said since.
    more: u64,
}

impl Troubles {
    /// A client gets no session because of `error`; the server goes on.
    pub(in crate::commands) fn no_session(&mut self, peer: SocketAddr, error: &(dyn Error + 'static)) {
        let root = root_of(error);
        let errno = root.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        let fix = match errno.map(Errno::from_raw_os_error) {
            Some(Errno::MFILE | Errno::NFILE) => "; raise the limit of open files (ulimit -n)",
            Some(Errno::AGAIN) => "; raise the limit of threads (ulimit -u, pids.max)",
            _ => "",
        };
        let text = format!("{peer}: no session: {}{fix}", complaint::with_causes(error));
        self.say(&root.to_string(), &text, Instant::now());
    }

    /// Something is wrong that does not concern a single client; the server goes on.
    pub(in crate::commands) fn say_of_all(&mut self, error: &(dyn Error + 'static)) {
        self.say(&root_of(error).to_string(), &complaint::with_causes(error), Instant::now());
    }

    fn say(&mut self, kind: &str, text: &str, now: Instant) {
        if let Some(line) = self.line(kind, text, now) {
            complaint::print(&line);
        }
    }

    /// What is to be said, unless it was said lately.
    fn line(&mut self, kind: &str, text: &str, now: Instant) -> Option<String> {
        let more = match self.said.get_mut(kind) {
            Some(said) if now.saturating_duration_since(said.at) < QUIET => {
                said.more += 1;
                return None;
            }
            Some(said) => said.more,
            None => 0,
        };
        self.said.insert(kind.to_owned(), Said { at: now, more: 0 });
        Some(if more > 0 { format!("{text} (and {more} more since this was last said)") } else { text.to_owned() })
    }
}

/// The error that is behind all others.
fn root_of<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    std::iter::successors(Some(error), |error| (**error).source()).last().unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_one_line_and_a_count() {
        let (mut troubles, start) = (Troubles::default(), Instant::now());
        let mut line = |kind: &str, after: u64| troubles.line(kind, "no session", start + Duration::from_secs(after));
        assert_eq!(line("files", 0).as_deref(), Some("no session"));
        assert_eq!(line("threads", 0).as_deref(), Some("no session"));
        assert!((0..100).all(|_| line("files", 4).is_none()));
        assert_eq!(line("files", 5).as_deref(), Some("no session (and 100 more since this was last said)"));
        assert_eq!(line("files", 11).as_deref(), Some("no session"));
    }
}
