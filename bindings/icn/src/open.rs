//! Objects that are open.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use paceline_icn::{Manifest, Name};
use paceline_named::client::{Options, Reader, fetch_blocking, target_blocking};
use paceline_named::resolver::Whereabouts;

use crate::Stat;
use crate::outcome::Failure;

/// Without an answer for this long there is no source: as the header says.
const PATIENCE: Duration = Duration::from_secs(30);

/// By their descriptors.
static OPEN: Mutex<BTreeMap<c_int, Arc<Open>>> = Mutex::new(BTreeMap::new());

/// An open object.
pub(crate) struct Open {
    /// The end that the program reads from.
    stream: UnixStream,
    name: Name,
    manifest: Manifest,
    /// Why the fetch ended early; there before the end can be read.
    failure: Arc<Mutex<Option<Failure>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_such() -> Failure {
    Failure::new(libc::EBADF, "no descriptor of paceline_icn_open")
}

/// The object behind a descriptor.
pub(crate) fn find(fd: c_int) -> Result<Arc<Open>, Failure> {
    locked(&OPEN).get(&fd).cloned().ok_or_else(no_such)
}

/// Gives a descriptor back.
pub(crate) fn close(fd: c_int) -> Result<(), Failure> {
    let open = locked(&OPEN).remove(&fd).ok_or_else(no_such)?;
    // Wakes readers in other threads; the descriptor goes with the last of them.
    let _ = open.stream.shutdown(Shutdown::Both);
    Ok(())
}

impl Open {
    /// Whether the end is the object's.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        locked(&self.failure).clone().map_or(Ok(()), Err)
    }

    /// What it is.
    pub(crate) fn stat(&self) -> Stat {
        let mut stat = Stat { length: self.manifest.length, media_type: [0; 208], name: [0; 64], reserved: [0; 8] };
        let (media_type, name) = (self.manifest.media_type.as_bytes(), self.name.to_string());
        // The rest is zeros, the last byte always.
        stat.media_type[..media_type.len().min(207)].copy_from_slice(&media_type[..media_type.len().min(207)]);
        stat.name[..name.len().min(63)].copy_from_slice(&name.as_bytes()[..name.len().min(63)]);
        stat
    }
}

/// Opens an object.
pub(crate) fn open(name: &str, sources: &str, first: u64, last: u64) -> Result<c_int, Failure> {
    let name: Name = name.parse().map_err(|error: paceline_icn::name::NoName| invalid(error.to_string()))?;
    if first > last {
        return Err(invalid(format!("the range from {first} to {last} has no bytes")));
    }
    let sources = whereabouts(sources)?.places(&name, PATIENCE)?;
    let name = target_blocking(&name, &sources, options()?)?;
    let end = last.saturating_add(1);
    let reader = fetch_blocking(&name, &sources, first..end, options()?)?;
    let (ours, stream) = UnixStream::pair()?;
    let failure = Arc::new(Mutex::new(None));
    let open = Open { stream, name, manifest: reader.manifest().clone(), failure: failure.clone() };
    thread::Builder::new().name("icn-read".into()).spawn(move || pour(reader, &ours, &failure))?;
    let fd = open.stream.as_raw_fd();
    locked(&OPEN).insert(fd, Arc::new(open));
    Ok(fd)
}

fn invalid(text: String) -> Failure {
    Failure::new(libc::EINVAL, text)
}

fn options() -> Result<Options, Failure> {
    let bbr = "bbr".parse().map_err(|error| invalid(format!("bbr: {error}")))?;
    let mut options = Options::new(bbr);
    options.patience = PATIENCE;
    Ok(options)
}

fn whereabouts(text: &str) -> Result<Whereabouts, Failure> {
    let address = |text: &str| -> Result<SocketAddr, Failure> {
        let found = text.trim().to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        found.ok_or_else(|| invalid(format!("'{text}': no such host; give HOST:PORT, such as 127.0.0.1:4871")))
    };
    match text.trim().strip_prefix("resolver=") {
        Some(service) => Ok(Whereabouts::Service(address(service)?)),
        None => Ok(Whereabouts::Known(text.split(',').map(address).collect::<Result<_, _>>()?)),
    }
}

/// Writes what comes to the program, until the end or until it has closed.
fn pour(mut reader: Reader, mut to: &UnixStream, failure: &Mutex<Option<Failure>>) {
    loop {
        match reader.chunk_blocking() {
            Ok(Some(bytes)) => {
                if to.write_all(&bytes).is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                *locked(failure) = Some(error.into());
                return;
            }
        }
    }
}
