//! One thread for all sockets of a process.

mod thread;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use paceline_cc::observe::{Observed, Observer};
use paceline_cc::{Env, Nanos, Remembered};
use paceline_linux::release::{release, version};
use paceline_linux::signals::kept_from;
use paceline_linux::sockopt::{NotSentLowat, setsockopt, tcp_info};
use paceline_linux::thread::cpu_time_of;
use paceline_transport::NOT_SENT;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_congestion, set_tcp_nodelay, tcp_nodelay};
use rustix::net::{getpeername, getsockname};

use crate::clock;
use crate::descriptors::lift;
use crate::figures::SocketStats;
use crate::flow::Flow;
use crate::frame::MAX_HEADER;
use crate::held::{Given, Held, Lent};
use crate::inline;
use crate::inner::Inner;
use crate::layer::Framing;
use crate::link::{self, Link, Program};
use crate::options::{Acks, Lower, Mode, Options};
use crate::queue::Queue;
use crate::queued::{self, Source};
use crate::rtts::Rtts;
use crate::shared::{Hooks, Shared};
use crate::socket::Socket;
use crate::stats::Totals;
use crate::threads;

/// Who sees a controller that is made with this.
pub type Observe<'a> = &'a dyn Fn(&Env) -> Option<Box<dyn Observer>>;

/// One thread that looks after all adopted sockets: it waits for acknowledgements and for the next sending time, and costs
/// nothing while there is neither. It ends when the engine is dropped and the last socket is closed and drained.
pub struct Engine {
    shared: Arc<Shared<Inner>>,
}

impl Engine {
    /// Starts the thread. It blocks every signal. In mode [`Mode::Inline`] it has no descriptor before a socket of another mode.
    ///
    /// # Errors
    /// The operating system's, and [`io::ErrorKind::Unsupported`] on a kernel before Linux 4.10.
    pub fn start(options: Options) -> io::Result<Arc<Self>> {
        Self::start_with(options, Hooks::default())
    }

    /// As [`Engine::start`], with `hooks` into the program.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_with(options: Options, hooks: Hooks) -> io::Result<Arc<Self>> {
        check_kernel()?;
        let shared = Arc::new(Shared::new(options, hooks));
        if shared.options.mode != Mode::Inline {
            shared.poller()?;
        }
        let theirs = shared.clone();
        let run = move || {
            theirs.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            (hooks.enter)();
            theirs.run();
        };
        kept_from(|| threads::builder("alcc").spawn(run))??;
        Ok(Arc::new(Self { shared }))
    }

    /// Takes a connected TCP socket: a duplicate of the application's descriptor, or the descriptor itself. From now on
    /// everything must be written by [`Socket::send`].
    ///
    /// It sets `TCP_NODELAY` and `TCP_NOTSENT_LOWAT`, and the congestion control where the options name one.
    ///
    /// # Errors
    /// The operating system's: not a TCP socket (`ENOTSOCK`, `EOPNOTSUPP`), too many descriptors;
    /// [`io::ErrorKind::NotConnected`]; [`io::ErrorKind::InvalidInput`] for a congestion control that the kernel does not
    /// have, or a controller that needs what the mode lacks ([`paceline_cc::Datapath::carries`]). The socket then sends as it did.
    pub fn adopt(&self, fd: OwnedFd) -> io::Result<Arc<Socket>> {
        self.adopt_observed(fd, None, &|_| None)
    }

    /// As [`Engine::adopt`], the socket's controller made with what an earlier flow to this place learnt, where it did
    /// ([`Socket::remember`]), and seen by the one that `observe` answers for what it is made with. Its times count from now on. A
    /// controller that several sockets have together ([`Options::aggregate`]) is not seen.
    ///
    /// # Errors
    /// As [`Engine::adopt`].
    pub fn adopt_observed(
        &self,
        fd: OwnedFd,
        remembered: Option<Remembered>,
        observe: Observe<'_>,
    ) -> io::Result<Arc<Socket>> {
        self.take(Given::Own(fd), self.shared.options.mode, Framing::default(), remembered, observe)
    }

    /// As [`Engine::adopt`] in another mode, by the program's own descriptor, which the program may close at any time, by whatever call: its
    /// connection then ends as it does without us. [`Socket::is_at`] says that the program has another number for it.
    ///
    /// # Errors
    /// As [`Engine::adopt`].
    pub fn adopt_lent(&self, fd: Lent, mode: Mode) -> io::Result<Arc<Socket>> {
        self.take(Given::Lent(fd), mode, Framing::default(), None, &|_| None)
    }

    /// As [`Engine::adopt`], in mode [`Mode::Framed`], with what a framed socket may have beside its frames.
    ///
    /// # Errors
    /// As [`Engine::adopt`].
    pub fn adopt_framed(&self, fd: OwnedFd, framing: Framing) -> io::Result<Arc<Socket>> {
        self.take(Given::Own(fd), Mode::Framed, framing, None, &|_| None)
    }

    fn take(
        &self,
        given: Given,
        mode: Mode,
        framing: Framing,
        remembered: Option<Remembered>,
        observe: Observe<'_>,
    ) -> io::Result<Arc<Socket>> {
        let options = &self.shared.options;
        // Whether the other end reads frames is known to the caller that asks for them.
        let way = if mode == Mode::Auto { Mode::Queue } else { mode };
        if let Err(misfit) = way.datapath().carries(&options.controller) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, misfit.to_string()));
        }
        let fd: &OwnedFd = &given;
        let mut info = tcp_info(fd)?;
        if !info.is_connected() {
            return Err(Errno::NOTCONN.into());
        }
        let program = Program::of(fd);
        let local = getsockname(fd).ok().and_then(|name| SocketAddr::try_from(name).ok());
        let peer = getpeername(fd).ok().flatten().and_then(|name| SocketAddr::try_from(name).ok());
        let room = || lift(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        // A program that lends a socket to be served inline waits for the socket itself.
        let waits = mode == Mode::Inline && matches!(given, Given::Lent(_));
        let full = (!waits).then(room).transpose()?;
        match &options.lower {
            Lower::Named(name) => {
                if mode == Mode::Inline {
                    inline::begin(fd, name, info.mss);
                }
                set_tcp_congestion(fd, name).map_err(|error| no_such(name, error))?;
            }
            Lower::Auto if mode != Mode::Inline => {
                if let Some(name) = options.controller.entry().lower {
                    // Without it the program's does, only less well.
                    let _ = set_tcp_congestion(fd, name);
                }
            }
            Lower::Auto | Lower::Keep => {}
        }
        let acks = if matches!(mode, Mode::Inline | Mode::Framed) { Acks::Info } else { options.acks };
        let source = queued::choose(fd, acks, info.is_quiet())?;
        let nodelay = tcp_nodelay(fd)?;
        if mode != Mode::Inline {
            set_tcp_nodelay(fd, true)?;
            setsockopt(fd, NotSentLowat, &NOT_SENT)?;
        }
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let v6 = local.is_some_and(|address| address.is_ipv6());
        if mode == Mode::Framed {
            // A frame must fit into a packet.
            info.mss = info.mss.saturating_sub(MAX_HEADER as u32).max(1);
        }
        let env = Env::new(link::packet_size(&info)).with_seed(id + 1).with_remembered(remembered);
        let group = peer.filter(|_| options.share || options.aggregate).map(|peer| self.shared.groups().of(peer.ip()));
        let controller = match &group {
            Some(group) if options.aggregate => group.member(|| options.controller.build(&env), env.mss),
            _ => Observed::wrap(options.controller.build(&env), observe(&env)),
        };
        // Flows with one controller have one clock.
        let epoch = if options.aggregate { self.shared.started } else { clock::now() };
        let queue = Queue::new(options.queue, self.shared.budget.clone());
        let mut link = Link::new(controller, queue, &info, epoch, nodelay, group, self.shared.rtts.clone());
        link.program = program;
        let flow = match mode {
            Mode::Auto | Mode::Queue => Flow::queued(link, fd, source, v6),
            Mode::Inline => Flow::inline(link, fd),
            Mode::Framed => Flow::framed(link, framing),
        };
        // Stamps raise ERR, the end of the connection HUP, whether asked for or not. Of several exclusive entries Linux
        // wakes the first that is waited for: an application whose own is one too gets no stamp while we wait.
        let room = epoll::EventFlags::OUT;
        let flags = match (mode, source) {
            // Room in the kernel, and the end, are the application's business.
            (Mode::Inline, _) => None,
            (Mode::Framed, _) => Some(room | epoll::EventFlags::IN),
            (_, Source::Stamps(_)) => Some(room | epoll::EventFlags::EXCLUSIVE),
            (_, Source::Info) => Some(room),
        };
        let held = Held::new(given)?;
        let inner = Arc::new(Inner::new(id, held, full, (local, peer), self.shared.clone(), flow, flags));
        self.shared.sockets().insert(id, inner.clone());
        if let Some(flags) = flags
            && let Err(error) = self.shared.hear(id, &inner.fd(), flags)
        {
            self.shared.sockets().remove(&id);
            return Err(error);
        }
        match mode {
            // The others are informed that there is room.
            Mode::Inline => inner.advance(&mut inner.lock()),
            // Something may have come before.
            Mode::Framed => inner.read_now(),
            Mode::Auto | Mode::Queue => {}
        }
        Ok(Arc::new(Socket { inner }))
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// State and counters of every socket, those that linger included, in the order in which they were adopted. A thread with a
    /// table of descriptors of its own (`CLONE_FILES` of `unshare(2)`) may ask too.
    pub fn sockets(&self) -> Vec<SocketStats> {
        let sockets = self.shared.all();
        let mut stats: Vec<_> = sockets.iter().map(|socket| socket.stats()).collect();
        self.shared.leave(sockets);
        stats.sort_by_key(|socket| socket.id);
        stats
    }

    /// What the sockets that are closed have done.
    pub fn past(&self) -> Totals {
        *self.shared.past()
    }

    /// Round-trip times of all sockets so far, those that are closed included.
    pub fn rtts(&self) -> Rtts {
        self.shared.rtts.read()
    }

    /// Waits until all that the program has written so far has been sent; says whether it was. Connections whose peer
    /// takes nothing for `limit` are given up and reset. For the end of a program.
    pub fn drain(&self, limit: Duration) -> bool {
        let since = clock::now();
        let sockets: Vec<_> = self.shared.all().into_iter().map(|socket| (socket.end(), socket)).collect();
        let mut whole = true;
        for (end, socket) in sockets {
            // The silence of each counts from the beginning, or from what it took last: that of all is over together.
            if !socket.drain(since, limit, end) {
                socket.abort();
                whole = false;
            }
        }
        whole
    }

    /// Processor time that the thread has taken, system calls included; zero where the kernel does not say.
    pub fn cpu(&self) -> Nanos {
        let thread = self.shared.thread.load(Ordering::Relaxed);
        let time = if thread == 0 { None } else { cpu_time_of(thread) };
        time.unwrap_or(Nanos::ZERO)
    }

    /// How often the thread has woken up.
    pub fn wake_ups(&self) -> u64 {
        self.shared.wake_ups.load(Ordering::Relaxed)
    }

    /// No socket is steered any more, for the end of a program or another in its place: what the kernel holds leaves at TCP's own pace,
    /// by the program's own options. One that is written to afterwards is steered again.
    pub fn let_go(&self) {
        self.shared.all().iter().for_each(|socket| socket.let_go());
    }

    /// Every descriptor that the engine holds. A child after `fork(2)` has copies of them and none of the threads: it
    /// closes them, forgets this engine, and starts its own.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let mut list = self.shared.descriptors();
        for socket in self.shared.all() {
            list.extend(socket.descriptors());
        }
        list
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        self.shared.call();
    }
}

fn no_such(name: &str, error: Errno) -> io::Error {
    if error == Errno::NOENT {
        let what =
            format!("the kernel has no congestion control '{name}' (PACELINE_LOWER); load the module tcp_{name}");
        return io::Error::new(io::ErrorKind::InvalidInput, what);
    }
    if error == Errno::PERM {
        let what = format!(
            "the congestion control '{name}' (PACELINE_LOWER) is not open to every user; \
             add it to net.ipv4.tcp_allowed_congestion_control"
        );
        return io::Error::new(io::ErrorKind::PermissionDenied, what);
    }
    error.into()
}

/// The kernel is one whose `TCP_INFO` is long enough.
fn check_kernel() -> io::Result<()> {
    let release = release();
    if version(&release) < (4, 10) {
        let what = format!("this kernel is Linux {release}; sockets above TCP need 4.10 or newer");
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(())
}

impl Shared<Inner> {
    fn all(&self) -> Vec<Arc<Inner>> {
        self.sockets().values().cloned().collect()
    }

    /// The caller holds these no more. Of whom it was the last to hold, the engine's thread closes the descriptors: in the caller's
    /// table their numbers may be others'.
    fn leave(&self, sockets: Vec<Arc<Inner>>) {
        let last: Vec<Inner> = sockets.into_iter().filter_map(Arc::into_inner).collect();
        if !last.is_empty() {
            self.left().extend(last);
            self.call();
        }
    }
}
