//! Uploads and downloads over TCP: the server and the client of `paceline alcc`; see `paceline.transfer`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use paceline_alcc::transfer::Status;
use paceline_alcc::transfer::token::Key;
use paceline_cc::Spec;
use paceline_cc::foreign::with_causes;
use paceline_lab::input;
use paceline_transfer::{
    ClientError, Exchanged, Remote, TransferObserver, UploadEvent, UploadOptions, UploadServeError, UploadServer, now,
};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::conduct::Course;
use crate::real::{address, key, seconds};

/// Seconds of a day.
const DAY: u64 = 86_400;

/// A session that ended: kind, name, bytes, status.
type Ended = (Option<&'static str>, Option<String>, u64, &'static str);

/// What moved: bytes, from which byte on, seconds, whether both ends have the same hash.
type Moved = (u64, u64, f64, bool);

fn controller(text: &str) -> PyResult<Spec> {
    input::controller(text).map_err(|error| PyValueError::new_err(format!("controller '{text}': {error}")))
}

fn patience(timeout: f64) -> PyResult<Duration> {
    Ok(Duration::from_nanos(seconds("timeout", timeout)?.as_nanos()))
}

/// A server that takes uploads into a folder and gives its files; see `paceline.transfer.Server`.
#[pyclass(frozen, module = "paceline._paceline")]
pub(crate) struct Uploads {
    address: SocketAddr,
    key: Option<Key>,
    stop: Arc<AtomicBool>,
    ended: Arc<Mutex<Vec<Ended>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[pymethods]
impl Uploads {
    #[new]
    fn new(folder: PathBuf, listen: &str, secret: Option<Vec<u8>>, name: &str, timeout: f64) -> PyResult<Self> {
        let secret = key(secret)?;
        let key = || secret.as_ref().map(|secret| Key::new(secret.bytes()));
        let ended = Arc::<Mutex<Vec<Ended>>>::default();
        let kept = Arc::clone(&ended);
        let options = UploadOptions {
            dir: Some(folder),
            key: key(),
            patience: patience(timeout)?,
            report: Arc::new(move |event| {
                if let UploadEvent::Ended(session) = event {
                    let request = session.request.as_ref();
                    let (kind, name) = (request.map(|one| one.kind.word()), request.map(|one| one.name.clone()));
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.push((kind, name, session.bytes, session.status()));
                }
            }),
            ..UploadOptions::new(controller(name)?)
        };
        let stop = Arc::clone(&options.stop);
        let server = UploadServer::bind(address(listen)?, options).map_err(|error| match error {
            UploadServeError::ReceiverHalf | UploadServeError::Misfit(_) => {
                PyValueError::new_err(format!("controller '{name}': {error}"))
            }
            error => PyOSError::new_err(with_causes(&error)),
        })?;
        let (address, key) = (server.address()?, key());
        let thread = thread::Builder::new().name("uploads".to_owned()).spawn(move || server.run())?;
        Ok(Self { address, key, stop, ended, thread: Mutex::new(Some(thread)) })
    }

    /// Where it listens.
    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// What lets a client in, for names that begin with `scope`.
    fn token(&self, scope: &str, days: Option<u32>) -> PyResult<String> {
        let key = self.key.as_ref().ok_or_else(|| PyValueError::new_err("the server has no key; give it one: key="))?;
        let expiry = days.map_or(0, |days| now() + u64::from(days) * DAY);
        let token = key.token(expiry, scope).map_err(|error| PyValueError::new_err(format!("scope: {error}")))?;
        Ok(token.to_string())
    }

    /// Sessions that ended: kind, name, bytes, status.
    fn sessions(&self) -> Vec<Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes no further sessions; those that run have 3 s.
    fn close(&self, py: Python<'_>) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| thread.map(JoinHandle::join));
    }
}

fn remote(host: &str, token: Option<&str>, timeout: f64) -> PyResult<Remote> {
    let token = token.map(str::parse).transpose();
    let token = token.map_err(|error| PyValueError::new_err(format!("token: {error}")))?;
    Ok(Remote { token, patience: patience(timeout)?, host: host.to_owned(), ..Remote::new(address(host)?) })
}

/// Uploads a file; see `paceline.transfer.send`.
#[pyfunction]
pub(crate) fn upload(
    py: Python<'_>,
    path: PathBuf,
    to: &str,
    name: &str,
    sender: &str,
    token: Option<&str>,
    timeout: f64,
) -> PyResult<Moved> {
    let (spec, remote) = (controller(sender)?, remote(to, token, timeout)?);
    exchange(py, to, |observer| remote.send(&path, name, &spec, observer))
}

/// Fetches a file; see `paceline.transfer.fetch`.
#[pyfunction]
pub(crate) fn download(
    py: Python<'_>,
    name: &str,
    server: &str,
    path: PathBuf,
    token: Option<&str>,
    timeout: f64,
) -> PyResult<Moved> {
    // Of what this end says, which is short: it decides nothing.
    let (spec, remote) = (controller("copa")?, remote(server, token, timeout)?);
    exchange(py, server, |observer| remote.fetch(name, &path, &spec, observer))
}

/// Ends a transfer when the flag is set.
struct Until<'a>(&'a AtomicBool);

impl TransferObserver for Until<'_> {
    fn stops(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs a transfer with `host` on a thread of its own, until Ctrl-C.
fn exchange(
    py: Python<'_>,
    host: &str,
    work: impl FnOnce(&mut Until<'_>) -> Result<Exchanged, ClientError> + Send,
) -> PyResult<Moved> {
    let course = Course::default();
    let outcome = course.conduct(py, None, |_| Ok(()), || work(&mut Until(&course.stop)))?;
    let done = outcome.map_err(|error| PyOSError::new_err(with_causes(&error)))?;
    match (done.answer.status, done.answer.message.as_str()) {
        (Status::Go, _) => Ok((done.bytes, done.resumed, done.took.as_secs_f64(), done.verified)),
        (status, "") => Err(PyOSError::new_err(format!("{host} says: {}", status.word()))),
        (_, message) => Err(PyOSError::new_err(format!("{host} says: {message}"))),
    }
}
