//! The signals that end a command which holds something in the kernel, or serves until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Context;
use paceline_linux::signals::Signals;
use rustix::process::Signal;

/// Others end it as well, without the chance to say or restore anything.
const ENDS: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Ctrl-C, and what ends a service: they wait here, and do nothing of their own accord.
pub(crate) struct Ends(Signals);

impl Ends {
    /// From now on. Before any thread starts, and only where `main` takes no signals.
    pub(crate) fn begin() -> anyhow::Result<Self> {
        Self::of(&ENDS)
    }

    /// These alone.
    pub(crate) fn of(ends: &[Signal]) -> anyhow::Result<Self> {
        Signals::take(ends).map(Self).context("cannot take signals")
    }

    /// Waits for one.
    pub(crate) fn wait(&self) -> anyhow::Result<Signal> {
        Ok(self.0.wait().context("cannot wait for a signal")?.signal)
    }

    /// For a caller that does other things meanwhile.
    pub(crate) fn watched(self) -> anyhow::Result<Ending> {
        let ending = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&ending);
        let wait = move || {
            // Without signals to wait for there is no way to end but at once.
            let _ = self.wait();
            set.store(true, Ordering::Relaxed);
        };
        thread::Builder::new().name("signals".to_owned()).spawn(wait).context("cannot take signals")?;
        Ok(Ending(ending))
    }
}

/// Whether one has come.
pub(crate) struct Ending(Arc<AtomicBool>);

impl Ending {
    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The same, for who looks at it itself.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Is set when one has come.
    pub(crate) fn shared(self) -> Arc<AtomicBool> {
        self.0
    }
}
