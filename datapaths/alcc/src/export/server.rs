//! The thread that answers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use paceline_linux::signals::kept_from;
use paceline_scrape::{CLIENTS, Clients, Names};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, getsockname,
    listen, recv, sendto, socket_with, sockopt,
};

use super::place::{self, Identity, Place};
use super::qlog::Logs;
use super::survey::Survey;
use super::{Line, News, Process, Settings, Source, client, metrics};
use crate::descriptors::lift;
use crate::engine::Engine;
use crate::threads;

/// How often a process tries to take over the address of the metrics from one that ended (our choice).
const TAKE_OVER: Duration = Duration::from_secs(5);
/// Flags of every socket.
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// Answers until it is dropped.
#[derive(Debug)]
pub struct Export {
    thread: Option<JoinHandle<()>>,
    opened: Opened,
    /// A child that a fork made has no thread of its own.
    pid: u32,
}

impl Export {
    /// Starts to answer for an engine; it does not keep the engine alive. `enter` as in
    /// [`Engine::start_with`](crate::Engine::start_with).
    ///
    /// # Errors
    /// As [`Export::start`].
    pub fn of(engine: &Arc<Engine>, settings: &Settings, enter: fn()) -> io::Result<Self> {
        let engine = Arc::downgrade(engine);
        let source = move || {
            let engine = engine.upgrade()?;
            Some(News { sockets: engine.sockets(), past: engine.past(), rtts: engine.rtts() })
        };
        Self::start(settings, enter, Box::new(source))
    }

    /// Starts to answer. The thread calls `enter` first, and opens all that it needs after it, before this returns: where `enter` gives it
    /// a table of descriptors of its own, the program's has none of it. Without a folder for the Unix socket there is none, and
    /// [`Export::hidden`] says why. Of several processes with the same address for metrics one answers, for all of this
    /// user's, and another takes over when it ends.
    ///
    /// # Errors
    /// When the address for metrics cannot be had, the folder for logs cannot be made, or there are no resources.
    pub fn start(settings: &Settings, enter: fn(), source: Source) -> io::Result<Self> {
        let settings = settings.clone();
        let (entered, begun) = mpsc::channel();
        let run = move || {
            enter();
            match Server::open(&settings, source) {
                Ok((server, opened)) => {
                    let _ = entered.send(Ok(opened));
                    server.run();
                }
                Err(error) => drop(entered.send(Err(error))),
            }
        };
        // Signals are for the application's threads.
        let thread = kept_from(|| threads::builder("paceline-export").spawn(run))??;
        let opened = begun.recv().map_err(io::Error::other)??;
        Ok(Self { thread: Some(thread), opened, pid: std::process::id() })
    }

    /// Why `paceline top` cannot see this process, if so: one line with what to do. The first call has it.
    pub fn hidden(&mut self) -> Option<io::Error> {
        self.opened.hidden.take()
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        let heard = self.opened.bell.ring().is_ok();
        // One that cannot be told goes on until the process ends.
        if let Some(thread) = self.thread.take().filter(|_| heard) {
            let _ = thread.join();
        }
        if let Some((place, file)) = &self.opened.socket {
            place.remove(*file);
        }
    }
}

/// What the thread has opened, as others need it.
#[derive(Debug)]
struct Opened {
    bell: Arc<Bell>,
    socket: Option<(Place, Identity)>,
    hidden: Option<io::Error>,
}

/// Tells the thread to end. It may have descriptors of its own, so that is said to an address.
#[derive(Debug)]
struct Bell {
    name: SocketAddrUnix,
    /// What comes to the address may be another's.
    rung: AtomicBool,
}

impl Bell {
    /// A socket, at a name that the kernel gives it.
    fn hang() -> io::Result<(OwnedFd, Arc<Self>)> {
        let socket = lift(socket_with(AddressFamily::UNIX, SocketType::DGRAM, FLAGS, None)?)?;
        bind(&socket, &SocketAddrUnix::new_unnamed())?;
        let name = SocketAddrUnix::try_from(getsockname(&socket)?)?;
        Ok((socket, Arc::new(Self { name, rung: AtomicBool::new(false) })))
    }

    fn ring(&self) -> rustix::io::Result<()> {
        self.rung.store(true, Ordering::Release);
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, FLAGS, None)?;
        match sendto(&socket, &[0], SendFlags::NOSIGNAL, &self.name) {
            // Others have woken the thread.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// This process, without its sockets.
pub(super) fn this_process() -> Process {
    let program = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    Process {
        pid: std::process::id(),
        program: program.trim_end().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Process::default()
    }
}

/// The address for metrics, once it is ours.
#[derive(Debug)]
struct Scrapes {
    address: SocketAddr,
    listener: Option<OwnedFd>,
    tried: Instant,
}

impl Scrapes {
    fn new(address: SocketAddr) -> io::Result<Self> {
        let mut scrapes = Self { address, listener: None, tried: Instant::now() };
        scrapes.take()?;
        Ok(scrapes)
    }

    fn take(&mut self) -> io::Result<()> {
        self.tried = Instant::now();
        let family = if self.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let listener = lift(socket_with(family, SocketType::STREAM, FLAGS, None)?)?;
        sockopt::set_socket_reuseaddr(&listener, true)?;
        match bind(&listener, &self.address).and_then(|()| listen(&listener, CLIENTS as i32)) {
            Ok(()) => self.listener = Some(listener),
            Err(rustix::io::Errno::ADDRINUSE) => {}
            Err(error) => {
                let text = format!("metrics at {}: {error}; give another address", self.address);
                return Err(io::Error::new(error.kind(), text));
            }
        }
        Ok(())
    }
}

struct Server {
    source: Source,
    bell: Arc<Bell>,
    bell_socket: OwnedFd,
    place: Option<Place>,
    listener: Option<OwnedFd>,
    scrapes: Option<Scrapes>,
    logs: Option<Logs>,
    /// For those that wait for metrics.
    survey: Option<Survey>,
    clients: Clients,
}

impl Server {
    fn open(settings: &Settings, source: Source) -> io::Result<(Self, Opened)> {
        let (listener, place, hidden) = match place::listen_in_own(CLIENTS as i32) {
            Ok((listener, place)) => (Some(listener), Some(place), None),
            Err(error) => (None, None, Some(error)),
        };
        let (bell_socket, bell) = Bell::hang()?;
        let scrapes = settings.metrics.map(Scrapes::new).transpose()?;
        let logs = settings
            .qlog
            .as_deref()
            .map(|folder| Logs::open(folder, settings.qlog_form, &this_process()))
            .transpose()?;
        let socket = place.clone().and_then(|place| {
            let file = place.open().and_then(|file| place::identity(&file)).ok()?;
            Some((place, file))
        });
        let opened = Opened { bell: bell.clone(), socket, hidden };
        let clients = Clients::default();
        Ok((Self { source, bell, bell_socket, place, listener, scrapes, logs, survey: None, clients }, opened))
    }

    fn run(mut self) {
        if let Some(place) = &self.place {
            client::sweep(place);
        }
        loop {
            let now = Instant::now();
            if self.logs.as_ref().is_some_and(|logs| logs.due() <= now) && !self.log() {
                return;
            }
            if let Some(scrapes) = &mut self.scrapes
                && scrapes.listener.is_none()
                && scrapes.tried + TAKE_OVER <= now
            {
                // It may be gone for good: then nothing is lost but the metrics.
                let _ = scrapes.take();
            }
            self.clients.expire(now);
            let Some(ready) = self.wait(now) else { continue };
            if ready.stop {
                // The last of each socket.
                self.log();
                return;
            }
            if !self.answer(&ready) {
                return;
            }
        }
    }

    /// Writes to the logs; `false` when the engine is gone.
    fn log(&mut self) -> bool {
        let process = self.process();
        let alive = process.is_some();
        if let Some(logs) = &mut self.logs {
            logs.sample(&process.unwrap_or_default().sockets);
        }
        alive
    }

    /// This process; `None` when the engine is gone.
    fn process(&self) -> Option<Process> {
        let News { sockets, past, rtts } = (self.source)()?;
        Some(Process {
            closed: past.sockets,
            closed_delivered_bytes: past.delivered,
            closed_retransmits: past.retransmits,
            rtts,
            sockets: sockets.iter().map(Line::from).collect(),
            ..this_process()
        })
    }

    fn wait(&self, now: Instant) -> Option<Ready> {
        let dues = self.clients.deadline().into_iter();
        let dues = dues.chain(self.logs.as_ref().map(Logs::due));
        let waiting = self.scrapes.as_ref().filter(|scrapes| scrapes.listener.is_none());
        let dues = dues.chain(self.survey.as_ref().map(Survey::due));
        let due = dues.chain(waiting.map(|scrapes| scrapes.tried + TAKE_OVER)).min();
        let timeout = due.map(|due| due.saturating_duration_since(now));
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let listener = self.listener.as_ref();
        let scrapes = self.scrapes.as_ref().and_then(|scrapes| scrapes.listener.as_ref());
        let mut polled = vec![PollFd::new(&self.bell_socket, PollFlags::IN)];
        polled.extend(listener.into_iter().chain(scrapes).map(|listener| PollFd::new(listener, PollFlags::IN)));
        let clients = self.clients.interests();
        let count = clients.len();
        polled.extend(clients);
        polled.extend(self.survey.iter().flat_map(Survey::polled));
        poll(&mut polled, timeout.as_ref()).ok()?;
        let mut events = polled.iter().map(|one| !one.revents().is_empty());
        let mut next = || events.next().unwrap_or(false);
        if next() {
            let _ = recv(&self.bell_socket, &mut [0_u8; 1], RecvFlags::DONTWAIT);
        }
        let stop = self.bell.rung.load(Ordering::Acquire);
        let (listener, scrapes) = (listener.is_some() && next(), scrapes.is_some() && next());
        Some(Ready { stop, listener, scrapes, clients: events.take(count).collect() })
    }

    /// `false` when the engine is gone.
    fn answer(&mut self, ready: &Ready) -> bool {
        self.clients.proceed(&ready.clients);
        self.answer_scrapes();
        if ready.listener
            && let Some(listener) = &self.listener
            && let Ok(socket) = accept_with(listener, FLAGS).map_err(io::Error::from).and_then(lift)
        {
            let Some(process) = self.process() else { return false };
            self.clients.tell(Instant::now(), socket, as_lines(&process));
        }
        if ready.scrapes
            && let Some((scrapes, listener)) =
                self.scrapes.as_ref().and_then(|scrapes| Some((scrapes, scrapes.listener.as_ref()?)))
            && let Ok(socket) = accept_with(listener, FLAGS).map_err(io::Error::from).and_then(lift)
        {
            self.clients.ask(Instant::now(), socket, Names::at(scrapes.address));
        }
        true
    }

    /// Asks the others for those that wait, and answers when it is done. A survey that began for one does for all.
    fn answer_scrapes(&mut self) {
        if self.survey.is_none() && self.clients.waiting() {
            self.survey = Some(Survey::start(self.place.as_ref()));
        }
        let Some(survey) = &mut self.survey else { return };
        survey.proceed();
        if !survey.is_done() {
            return;
        }
        let Some(survey) = self.survey.take() else { return };
        let mut answers = survey.into_answers();
        answers.processes.extend(self.process());
        let registry = metrics::registry(&answers);
        self.clients.answer(|format| paceline_scrape::expose(&registry, format));
    }
}

/// What [`poll`] found.
struct Ready {
    stop: bool,
    listener: bool,
    scrapes: bool,
    clients: Vec<bool>,
}

/// One JSON object per line: the process, then its sockets.
fn as_lines(process: &Process) -> Vec<u8> {
    let objects = std::iter::once(serde_json::to_vec(process)).chain(process.sockets.iter().map(serde_json::to_vec));
    let mut text = Vec::new();
    for object in objects.flatten() {
        text.extend_from_slice(&object);
        text.push(b'\n');
    }
    text
}
