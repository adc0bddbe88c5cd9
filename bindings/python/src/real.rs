//! Real time: races over sockets and kernel flows behind an emulated path, and transfers over UDP to other programs.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use paceline_cc::datapath::UDP;
use paceline_cc::{Ability, Nanos};
use paceline_lab::input;
use paceline_linux::clock::Clock;
use paceline_udp::transfer::{Content, Interval, TransferPlan, Transferred, give_until, room, take};
use paceline_udp::wire::control::{Hello, SessionJob};
use paceline_udp::{Agreed, HandshakeError, Listener, Offload, SessionKey, connect};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::conduct::SIGNALS;
use crate::controller::failure::{self, Busy, Fault, Scope};

/// Both ends report the arrival of each packet; packets leave together where the kernel can do that.
const OFFLOAD: Offload = Offload { send: true, receive: true };
/// Largest packet of the path, as `paceline send` has it.
const MTU: u16 = 1500;
/// How often a server looks whether it is to end (our choice).
const TURN: Nanos = Nanos::from_millis(100);
/// Most sessions of a server at once, as `paceline serve` has it.
const MOST_SESSIONS: usize = 64;

/// Raises an exception in threads whose call into Python takes too long. Raised where the interpreter looks next: a call that waits in
/// the system comes to it when it returns.
pub(crate) fn interrupt(py: Python<'_>, overdue: Vec<Busy>) -> PyResult<()> {
    if overdue.is_empty() {
        return Ok(());
    }
    let ctypes = py.import("ctypes")?;
    let raise = ctypes.getattr("pythonapi")?.getattr("PyThreadState_SetAsyncExc")?;
    let exception = py.get_type::<pyo3::exceptions::PyTimeoutError>();
    for busy in overdue {
        let thread = ctypes.call_method1("c_ulong", (busy.thread,))?;
        raise.call1((thread, ctypes.call_method1("py_object", (&exception,))?))?;
    }
    Ok(())
}

/// Of 64 hexadecimal digits or 32 bytes.
fn key(given: Option<Vec<u8>>) -> PyResult<Option<SessionKey>> {
    given
        .map(|bytes| match <[u8; 32]>::try_from(bytes.as_slice()) {
            Ok(bytes) => Ok(SessionKey::new(bytes)),
            Err(_) => SessionKey::parse(&bytes)
                .ok_or_else(|| PyValueError::new_err("key: a key is 32 bytes, or a file with 64 hexadecimal digits")),
        })
        .transpose()
}

fn address(text: &str) -> PyResult<SocketAddr> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found
        .ok_or_else(|| PyValueError::new_err(format!("'{text}': no such host; give HOST:PORT, such as 127.0.0.1:4870")))
}

fn seconds(what: &str, given: f64) -> PyResult<Nanos> {
    if given > 0.0 && given < 1e9 {
        Ok(Nanos::from_secs_f64(given))
    } else {
        Err(PyValueError::new_err(format!("{what} = {given}: give seconds above 0, such as 10")))
    }
}

/// The same text as the command gives, but for its option.
fn refused(problem: &HandshakeError) -> PyErr {
    PyOSError::new_err(problem.to_string().replace("--key FILE", "key="))
}

/// Why there was no transfer.
enum SendError {
    Handshake(HandshakeError),
    Transfer(paceline_udp::transfer::TransferError),
}

/// Sends bytes that mean nothing to a server under a controller, which may be one in Python; see `paceline.send`.
#[pyfunction]
pub(crate) fn send(
    py: Python<'_>,
    to: &str,
    controller: &str,
    bytes: Option<u64>,
    time: Option<f64>,
    secret: Option<Vec<u8>>,
    timeout: f64,
) -> PyResult<Py<PyDict>> {
    let (peer, key, patience) = (address(to)?, key(secret)?, seconds("timeout", timeout)?);
    let time = time.map(|time| seconds("seconds", time)).transpose()?;
    if bytes.is_none() && time.is_none() {
        return Err(PyValueError::new_err("nothing to send: give bytes=, seconds=, or both"));
    }
    let wrong = |problem: String| PyValueError::new_err(format!("controller '{controller}': {problem}"));
    let spec = input::controller(controller).map_err(|problem| wrong(problem.to_string()))?;
    UDP.carries(&spec).map_err(|misfit| wrong(misfit.to_string()))?;
    let two_halves = spec.needs(Ability::ReceiverHalf);
    let overhead = if key.is_some() { paceline_udp::seal::TAG } else { 0 };
    let hello = Hello {
        random: [0; 16],
        cookie: None,
        job: SessionJob::Discard,
        mss: room(MTU, peer.is_ipv4(), overhead, two_halves),
        arrivals: true,
        ack_every: 1,
        bytes,
        // A receiver without a half of its own does not need to know a controller of this process.
        controller: if two_halves { spec.to_string() } else { "reno".to_owned() },
        name: String::new(),
    };
    let plan = TransferPlan::of(&hello, patience).map_err(|problem| wrong(problem.to_string()))?;
    let plan = TransferPlan { controller: spec, ..plan };
    let scope = Arc::<Scope>::default();
    let (done, ended) = mpsc::channel();
    let (live, clock) = (scope.clone(), Clock::new());
    let work = move || {
        failure::live(live.clone());
        let work = || {
            let (channel, _) =
                connect(peer, key.as_ref(), hello, OFFLOAD, clock, patience).map_err(SendError::Handshake)?;
            let (content, ignore) = (Content::Zeros(bytes), &mut |_: &Interval| {});
            give_until(channel, clock, &plan, content, time, Nanos::from_secs(1), ignore, &live.stop)
                .map_err(SendError::Transfer)
        };
        // The thread's state in the interpreter is made once, not at each call of the controller.
        let ended = Python::attach(|py| py.detach(work));
        // No one waits any more where a call of the controller was given up.
        let _ = done.send(ended);
    };
    // Not of a scope: a call into Python that never returns must not hold this one.
    thread::Builder::new().name("send".to_owned()).spawn(work)?;
    let ended = Mutex::new(ended);
    let wait = || ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNALS);
    let mut interrupted = None;
    let outcome = loop {
        match py.detach(wait) {
            Ok(outcome) => break Some(outcome),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        interrupt(py, scope.overdue())?;
        if let Err(signal) = py.check_signals() {
            scope.stop.store(true, Ordering::Relaxed);
            interrupted = Some(signal);
        }
        if scope.is_stuck() {
            break None;
        }
    };
    if let Some(signal) = interrupted {
        return Err(signal);
    }
    if let Some(Fault { what, exception }) = scope.take() {
        let error = PyRuntimeError::new_err(what);
        error.set_cause(py, exception);
        return Err(error);
    }
    match outcome {
        Some(Ok(done)) => figures(py, peer, controller, &done),
        Some(Err(SendError::Handshake(problem))) => Err(refused(&problem)),
        Some(Err(SendError::Transfer(problem))) => Err(PyOSError::new_err(problem.to_string())),
        None => {
            Err(PyRuntimeError::new_err("a mistake in paceline: the sender ended without a result; please report it"))
        }
    }
}

/// What a transfer left, by the names of `paceline send --json`.
fn figures(py: Python<'_>, peer: SocketAddr, controller: &str, done: &Transferred) -> PyResult<Py<PyDict>> {
    let took = done.took.as_secs_f64();
    let all = PyDict::new(py);
    all.set_item("peer", peer.to_string())?;
    all.set_item("controller", controller)?;
    all.set_item("bytes", done.bytes)?;
    all.set_item("seconds", took)?;
    all.set_item("mbps", done.bytes as f64 * 8e-6 / took.max(1e-9))?;
    all.set_item("cpu_s", done.cpu.as_secs_f64())?;
    if let Some(sender) = &done.sender {
        all.set_item("packets_sent", sender.stats.packets_sent)?;
        all.set_item("retransmits", sender.stats.retransmits)?;
        all.set_item("packets_lost", sender.stats.packets_lost)?;
        all.set_item("timeouts", sender.stats.timeouts)?;
        all.set_item("ce_packets", sender.stats.ce_packets)?;
        for (name, share) in [("rtt_ms_p50", 0.5), ("rtt_ms_p95", 0.95), ("rtt_ms_p99", 0.99)] {
            all.set_item(name, sender.rtt.quantile_ms(share))?;
        }
    }
    Ok(all.unbind())
}

/// What a server took: sessions that ended, and why others did not.
#[derive(Default)]
struct Ledger {
    sessions: Vec<(String, u64, f64)>,
    problems: Vec<String>,
}

/// A server that drops what is sent to it; see `paceline.serve`.
#[pyclass(frozen, module = "paceline._paceline")]
pub(crate) struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    ledger: Arc<Mutex<Ledger>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[pymethods]
impl Server {
    #[new]
    fn new(listen: &str, secret: Option<Vec<u8>>, timeout: f64) -> PyResult<Self> {
        let (key, patience, clock) = (key(secret)?, seconds("timeout", timeout)?, Clock::new());
        let bound = Listener::bind(address(listen)?, key, OFFLOAD, clock);
        let mut listener = bound.map_err(|problem| refused(&problem))?;
        let (stop, ledger) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Ledger>>::default());
        let (address, over, kept) = (listener.address(), stop.clone(), ledger.clone());
        let work = move || {
            let alive = Arc::new(());
            let mut sessions: Vec<JoinHandle<()>> = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let decide = |_: SocketAddr, hello: &Hello| {
                    if hello.job != SessionJob::Discard {
                        return Err("it drops what is sent, and has no files; use paceline serve".to_owned());
                    }
                    if Arc::strong_count(&alive) > MOST_SESSIONS {
                        return Err(format!("{MOST_SESSIONS} sessions run already; try again later"));
                    }
                    let plan = TransferPlan::of(hello, patience).map_err(|problem| problem.to_string())?;
                    Ok(Agreed { bytes: None, ready: (plan, alive.clone()) })
                };
                let Ok(answers) = listener.accept(clock.now() + TURN, decide) else {
                    thread::sleep(Duration::from_nanos(TURN.as_nanos()));
                    continue;
                };
                for accepted in answers.into_iter().flatten() {
                    let kept = kept.clone();
                    let session = move || {
                        let ((plan, _alive), peer) = (accepted.ready, accepted.channel.peer());
                        let done = take(accepted.channel, clock, &plan, None, Nanos::from_secs(1), &mut |_| {});
                        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                        match done {
                            Ok(done) => kept.sessions.push((peer.to_string(), done.bytes, done.took.as_secs_f64())),
                            Err(problem) => kept.problems.push(format!("{peer}: {problem}")),
                        }
                    };
                    // Without a thread the client is given up by its own patience.
                    sessions.retain(|session| !session.is_finished());
                    sessions.extend(thread::Builder::new().name("session".to_owned()).spawn(session));
                }
            }
            // One that panicked has said so.
            sessions.into_iter().for_each(|session| drop(session.join()));
        };
        let thread = thread::Builder::new().name("server".to_owned()).spawn(work)?;
        Ok(Self { address, stop, ledger, thread: Mutex::new(Some(thread)) })
    }

    /// Where it listens.
    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// Sessions that reached their end: peer, bytes, seconds.
    fn sessions(&self) -> Vec<(String, u64, f64)> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).sessions.clone()
    }

    /// What went wrong with others, one line each.
    fn problems(&self) -> Vec<String> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).problems.clone()
    }

    /// Takes no further sessions, and waits for the end of those that run.
    fn close(&self, py: Python<'_>) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| thread.map(JoinHandle::join));
    }
}
