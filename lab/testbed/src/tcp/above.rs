//! A controller above a kernel flow: `copa@alcc/bbr`. The kernel's flow is an ordinary one; `paceline_alcc` decides what it is
//! given.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use paceline_alcc::options::{Lower, Mode, Options};
use paceline_alcc::{Engine, Hooks};
use paceline_cc::datapath::OPEN_WINDOW;
use paceline_cc::{Ability, Nanos, Spec};
use paceline_experiment::{DrivenBy, Flow, Handover, Way};
use paceline_linux::tcp::controllers;

use super::{Below, KernelError, KernelFlow, LOADING, given};

/// Bytes of a socket's queue: enough for the rates of races, and little to wait through for an application that stops.
/// 256 kB: 1 Gbit/s needs a write each 2 ms (our choice).
const QUEUE: usize = 256_000;
/// The same for an application that takes back what has not been sent: the least that there is.
const QUEUE_FEW: usize = 64_000;

/// The kernel's flow below and what drives it.
///
/// # Errors
/// What the kernel does not have, and how to fix it.
pub(crate) fn above(flow: &Flow, lower: &Spec, handover: Handover) -> Result<Below, KernelError> {
    let spec = &flow.controller;
    let (name, there) = (lower.entry().name, controllers());
    let open = name == "fixed";
    let name = if open { OPEN_WINDOW } else { name };
    let there_already = there.iter().any(|known| known == name);
    let loads = LOADING.map(|loading| loading.open_window).filter(|_| open && !there_already);
    if open && !there_already && loads.is_none() {
        return Err(KernelError::OpenWindow { controller: spec.clone() });
    }
    if !open && !there_already {
        let other = if name == "cubic" { "reno" } else { "cubic" };
        let (flow, instead) = (format!("{spec}@alcc/{name}"), format!("{spec}@alcc/{other}"));
        return Err(KernelError::Missing { flow, name, there, instead });
    }
    if let Some(param) = given(lower).into_iter().find(|param| !open || *param != "window=65536") {
        let (flow, instead) = (format!("{spec}@alcc/{lower}"), format!("{spec}@alcc/{name}"));
        return Err(KernelError::Parameter { flow, name, param, instead });
    }
    if flow.arrivals {
        return Err(KernelError::Arrivals { flow: format!("{spec}@alcc") });
    }
    let auto = if spec.needs(Ability::ReceiverHalf) { Mode::Framed } else { Mode::Auto };
    let mode = if handover.mode == Mode::Auto { auto } else { handover.mode };
    let fickle = matches!(flow.workload, paceline_experiment::Workload::OnOff(_));
    let options = Options {
        controller: spec.clone(),
        mode,
        acks: handover.acks,
        queue: if fickle { QUEUE_FEW } else { QUEUE },
        lower: Lower::Named(name.to_owned()),
        // Contestants are compared one by one: what several of one process do together is asked for.
        share: handover.share,
        ..Options::default()
    };
    let mut notes = Vec::new();
    let mut note = |key: &str, what: &str| notes.push(format!("{spec}@alcc: {key}: {what}"));
    if mode != Mode::Framed && (flow.ack_every, flow.ack_delay) != (2, Nanos::from_millis(40)) {
        note("ack_every, ack_delay", "the kernel decides when it acknowledges");
    }
    if flow.paced && name != "bbr" {
        note("paced", "without fq the kernel paces bbr alone");
    }
    let kernel = loads.unwrap_or(KernelFlow { name, ecn: false, driven_by: DrivenBy::Kernel });
    Ok(Below { kernel, above: Some(options), notes })
}

/// Engines of a world's flows. Those that share, with the same options and the same way, are sockets of one.
#[derive(Default)]
pub(crate) struct Engines(Mutex<Vec<(Way, Arc<Engine>)>>);

/// What serves a flow.
pub(crate) struct Served {
    pub(crate) engine: Arc<Engine>,
    /// It was started for this flow.
    pub(crate) started: bool,
}

impl Engines {
    /// An engine for a flow.
    ///
    /// # Errors
    /// Those of [`Engine::start`].
    pub(crate) fn serve(&self, way: Way, options: &Options) -> io::Result<Served> {
        let hooks = Hooks { enter: crate::prefer, ..Hooks::default() };
        let start = || Engine::start_with(options.clone(), hooks).map(|engine| Served { engine, started: true });
        if !options.share {
            return start();
        }
        let mut engines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, engine)) = engines.iter().find(|(other, engine)| *other == way && engine.options() == options) {
            return Ok(Served { engine: engine.clone(), started: false });
        }
        let served = start()?;
        engines.push((way, served.engine.clone()));
        Ok(served)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::flow;
    use super::*;

    #[test]
    fn what_the_kernel_has_not_is_refused_with_a_fix() {
        let reno: Spec = "reno".parse().unwrap();
        let Below { kernel, above: options, notes } = above(&flow("copa"), &reno, Handover::default()).unwrap();
        let options = options.unwrap();
        assert_eq!((kernel.name, options.lower, notes.len()), ("reno", Lower::Named("reno".to_owned()), 0));
        assert_eq!((options.mode, options.controller.to_string()), (Mode::Auto, "copa".to_owned()));
        let sprout = above(&flow("sprout"), &reno, Handover::default()).unwrap().above.unwrap();
        assert_eq!(sprout.mode, Mode::Framed);
        let shared =
            above(&flow("copa"), &reno, Handover { share: true, ..Handover::default() }).unwrap().above.unwrap();
        assert!(shared.share && !options.share);
        let refused = |lower: &str, what: &str| {
            let error = above(&flow("copa"), &lower.parse().unwrap(), Handover::default()).unwrap_err().to_string();
            assert!(error.contains(what) && !error.contains('\n'), "{error}");
        };
        refused("verus", "copa@alcc/verus: this kernel's TCP has no verus");
        refused(
            "fixed:window=3",
            if LOADING.is_some() || controllers().iter().any(|name| name == OPEN_WINDOW) {
                "window=3"
            } else {
                "kernel load"
            },
        );
        refused("reno:start=hystart", "takes no start=hystart");
        let paced = Flow { ack_every: 1, paced: true, ..flow("copa") };
        assert_eq!(above(&paced, &reno, Handover::default()).unwrap().notes.len(), 2);
    }

    #[test]
    fn flows_that_share_are_sockets_of_one_engine() {
        let engines = Engines::default();
        let options = |share| Options { share, ..Options::default() };
        let serve = |direction, share| engines.serve(direction, &options(share)).unwrap();
        let (first, second) = (serve(Way::DOWN, true), serve(Way::DOWN, true));
        assert!(Arc::ptr_eq(&first.engine, &second.engine) && first.started && !second.started);
        for other in [serve(Way::UP, true), serve(Way::DOWN, false), serve(Way::DOWN, false)] {
            assert!(!Arc::ptr_eq(&first.engine, &other.engine) && other.started);
        }
    }
}
