//! Real time: races over sockets and kernel flows behind an emulated path, and transfers over UDP to other programs.

use std::fmt::Display;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use paceline_cc::{Ability, Nanos};
use paceline_lab::input;
use paceline_linux::clock::Clock;
use paceline_udp::client::Order;
use paceline_udp::server::{FileServer, FileSession, NoSession, Offer};
use paceline_udp::transfer::{Content, Interval, Transferred, give_until};
use paceline_udp::wire::control::SessionJob;
use paceline_udp::{HandshakeError, SessionKey, connect};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::conduct::{mistake, wait};
use crate::controller::failure::{self, Busy, Scope};

/// Largest packet of the path, as `paceline send` has it.
const MTU: u16 = 1500;
/// How often a server looks whether it is to end (our choice).
const TURN: Nanos = Nanos::from_millis(100);

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
pub(crate) fn key(given: Option<Vec<u8>>) -> PyResult<Option<SessionKey>> {
    given
        .map(|bytes| match <[u8; 32]>::try_from(bytes.as_slice()) {
            Ok(bytes) => Ok(SessionKey::new(bytes)),
            Err(_) => SessionKey::parse(&bytes)
                .ok_or_else(|| PyValueError::new_err("key: a key is 32 bytes, or a file with 64 hexadecimal digits")),
        })
        .transpose()
}

pub(crate) fn address(text: &str) -> PyResult<SocketAddr> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found
        .ok_or_else(|| PyValueError::new_err(format!("'{text}': no such host; give HOST:PORT, such as 127.0.0.1:4870")))
}

pub(crate) fn seconds(what: &str, given: f64) -> PyResult<Nanos> {
    if given > 0.0 && given < 1e9 {
        Ok(Nanos::from_secs_f64(given))
    } else {
        Err(PyValueError::new_err(format!("{what} = {given}: give seconds above 0, such as 10")))
    }
}

/// The same text as the command gives, but for its option.
fn refused(problem: &impl Display) -> PyErr {
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
    let two_halves = spec.needs(Ability::ReceiverHalf);
    let order =
        Order { job: SessionJob::Discard, controller: spec, mtu: MTU, ack_every: 1, bytes, name: String::new() };
    let (mut hello, plan) = order.hello(peer, key.is_some(), patience).map_err(|problem| wrong(problem.to_string()))?;
    if !two_halves {
        // A receiver without a half of its own does not need to know a controller of this process.
        "reno".clone_into(&mut hello.controller);
    }
    let scope = Arc::<Scope>::default();
    let (done, ended) = mpsc::channel();
    let (live, clock) = (scope.clone(), Clock::new());
    let work = move || {
        failure::live(live.clone());
        let work = || {
            let (channel, _) = connect(peer, key.as_ref(), hello, Offer::default().offload, clock, patience)
                .map_err(SendError::Handshake)?;
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
    let mut interrupted = None;
    let outcome = wait(py, ended, &mut || {
        interrupt(py, scope.overdue())?;
        if let Err(signal) = py.check_signals() {
            scope.stop.store(true, Ordering::Relaxed);
            interrupted = Some(signal);
        }
        Ok(!scope.is_stuck())
    })?;
    if let Some(signal) = interrupted {
        return Err(signal);
    }
    if let Some(fault) = scope.take() {
        return Err(fault.raised(py));
    }
    match outcome {
        Some(Ok(done)) => figures(py, peer, controller, &done),
        Some(Err(SendError::Handshake(problem))) => Err(refused(&problem)),
        Some(Err(SendError::Transfer(problem))) => Err(PyOSError::new_err(problem.to_string())),
        None => Err(mistake("the sender ended without a result")),
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
        let offer = Offer { key: key(secret)?, patience: seconds("timeout", timeout)?, ..Offer::default() };
        let mut server = FileServer::bind(address(listen)?, offer).map_err(|problem| refused(&problem))?;
        let (stop, ledger) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Ledger>>::default());
        let (address, over, kept) = (server.address(), stop.clone(), ledger.clone());
        let ended = kept.clone();
        let session = Arc::new(move |session: FileSession| {
            let peer = session.peer();
            let done = session.run(Nanos::from_secs(1), &mut |_| {});
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            match done {
                Ok(done) => ended.sessions.push((peer.to_string(), done.bytes, done.took.as_secs_f64())),
                Err(problem) => ended.problems.push(format!("{peer}: {problem}")),
            }
        });
        let work = move || {
            let mut sessions: Vec<JoinHandle<_>> = Vec::new();
            while !over.load(Ordering::Relaxed) {
                sessions.retain(|session| !session.is_finished());
                let mut failed = |none: NoSession| {
                    kept.lock().unwrap_or_else(PoisonError::into_inner).problems.push(none.to_string());
                };
                match server.accept(TURN, &session, &mut failed) {
                    Ok(begun) => sessions.extend(begun),
                    Err(_) => thread::sleep(Duration::from_nanos(TURN.as_nanos())),
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
