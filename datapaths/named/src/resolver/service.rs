//! The service: one socket, one table.

use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paceline_files::{Draft, OutputError};
use paceline_icn::resolve::{BadResolve, Limits, PlacedObject, Registry, ResolveKey};
use serde::{Deserialize, Serialize};

use super::{ResolveError, since_1970, unix_us};
use crate::failed;

/// Between two looks at the stop flag, while nothing comes (our choice).
const LOOK: Duration = Duration::from_millis(200);

/// The state is written so often at most (our choice: what a crash loses is announced again within a third of its time to live).
const SAVE: Duration = Duration::from_secs(5);

/// What a service is made of.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The key that it shares with routers.
    pub key: ResolveKey,
    /// What its table holds.
    pub limits: Limits,
    /// The file that keeps the table over a restart; none: it starts empty, and routers announce again.
    pub state: Option<PathBuf>,
}

/// What a service did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceStats {
    /// Questions and announcements answered.
    pub answered: u64,
    /// Announcements of another key.
    pub wrong_key: u64,
    /// Datagrams that are not messages.
    pub garbage: u64,
}

/// A bound service.
#[derive(Debug)]
pub struct Service {
    socket: UdpSocket,
    registry: Registry,
    state: Option<PathBuf>,
}

/// The table as a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    floor: u64,
    numbers: Vec<(SocketAddr, u64)>,
    entries: Vec<(String, SocketAddr, u64)>,
}

impl Service {
    /// Binds the socket and reads the state.
    ///
    /// # Errors
    /// [`ResolveError::System`] when the port is in use or the file cannot be read, [`ResolveError::State`].
    pub fn bind(config: &ServiceConfig) -> Result<Self, ResolveError> {
        if let Some(path) = &config.state {
            drop(Draft::regular(path).map_err(|error| unsaved(&error))?);
        }
        let socket = UdpSocket::bind(config.listen).map_err(failed(format!("--listen {}", config.listen)))?;
        socket.set_read_timeout(Some(LOOK)).map_err(failed("a UDP socket"))?;
        let registry = match config.state.as_deref().map(load).transpose()?.flatten() {
            None => Registry::new(config.limits, config.key.clone(), unix_us()),
            Some(state) => restored(config, &state)?,
        };
        Ok(Self { socket, registry, state: config.state.clone() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Answers until `stop` is set; then the state is written a last time. When it cannot be written before that, `trouble` is informed,
    /// and it is tried again.
    ///
    /// # Errors
    /// [`ResolveError::System`]: the socket failed, or the last state cannot be written.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        trouble: &mut dyn FnMut(&ResolveError),
    ) -> Result<ServiceStats, ResolveError> {
        let mut stats = ServiceStats::default();
        let (mut bytes, mut reply) = ([0; 2048], Vec::new());
        let (mut saved, mut changed) = (Instant::now(), false);
        while !stop.load(Ordering::Relaxed) {
            match self.socket.recv_from(&mut bytes) {
                Ok((length, from)) => {
                    let unix_s = since_1970().as_secs();
                    match self.registry.on_datagram(unix_s, &bytes[..length], &mut reply) {
                        Ok(()) => stats.answered += 1,
                        Err(BadResolve::Mac) => stats.wrong_key += 1,
                        Err(_) => stats.garbage += 1,
                    }
                    changed = true;
                    if !reply.is_empty() {
                        // The asking host has gone, or cannot be reached.
                        let _ = self.socket.send_to(&reply, from);
                    }
                }
                Err(error) if of_a_peer(&error) => {}
                Err(source) => return Err(failed("the resolver's socket")(source).into()),
            }
            if changed && saved.elapsed() >= SAVE {
                changed = self.save().inspect_err(&mut *trouble).is_err();
                saved = Instant::now();
            }
        }
        self.save()?;
        Ok(stats)
    }

    fn save(&self) -> Result<(), ResolveError> {
        let Some(path) = &self.state else { return Ok(()) };
        let state = State {
            floor: self.registry.floor(),
            numbers: self.registry.numbers().collect(),
            entries: self
                .registry
                .entries()
                .map(|entry| (entry.name.to_string(), entry.address, entry.expires_s))
                .collect(),
        };
        paceline_files::write_regular(path, |draft| Ok(serde_json::to_writer(draft, &state)?))
            .map_err(|error| unsaved(&error))
    }
}

fn unsaved(error: &OutputError) -> ResolveError {
    let what = format!("--state {}", error.path.display());
    failed(what)(io::Error::other(error.why())).into()
}

/// What a datagram of another host, or a signal, makes of a wait; not of the socket.
fn of_a_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkUnreachable};
    let waited = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    waited
        || matches!(
            error.kind(),
            ConnectionRefused | ConnectionReset | HostUnreachable | Interrupted | NetworkUnreachable
        )
}

fn load(path: &Path) -> Result<Option<State>, ResolveError> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(failed(format!("{}: cannot be read", path.display())))?,
    };
    let bad =
        |error: serde_json::Error| ResolveError::State { file: path.display().to_string(), why: error.to_string() };
    serde_json::from_slice(&text).map(Some).map_err(bad)
}

fn restored(config: &ServiceConfig, state: &State) -> Result<Registry, ResolveError> {
    let mut registry = Registry::new(config.limits, config.key.clone(), state.floor);
    for (address, number) in &state.numbers {
        registry.restore_number(*address, *number);
    }
    for (name, address, expires_s) in &state.entries {
        let name = name.parse().map_err(|error: paceline_icn::name::NoName| ResolveError::State {
            file: config.state.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
            why: error.to_string(),
        })?;
        // One that there is no room for any more is announced again.
        registry.restore(PlacedObject { name, address: *address, expires_s: *expires_s });
    }
    Ok(registry)
}
