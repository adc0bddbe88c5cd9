//! One flow of the kernel's over an emulated path between two namespaces of its own.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::{Nanos, Rate};
use paceline_emulator::Frame;
use paceline_emulator::world::{Between, EmulatedWorld, Far};
use paceline_kernel::{LoadError, Loaded, module};
use paceline_linux::clock::{Clock, Lateness};
use paceline_linux::connections::Diagnosis;
use paceline_linux::tcp::TcpInfo;
use paceline_path::{Direction, LossModel, Path};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

/// Time between two looks at the flow.
const LOOK: Duration = Duration::from_millis(5);

/// The path of the data; acknowledgements have its delay alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) mbps: f64,
    /// Without queue.
    pub(crate) rtt_ms: u64,
    pub(crate) queue: &'static str,
    /// Share of the packets lost at random.
    pub(crate) loss: f64,
}

/// What became of the flow.
pub(crate) struct Outcome {
    /// Bytes read at the far end.
    pub(crate) received: u64,
    /// Looks at the sender from the second second on.
    pub(crate) looks: Vec<TcpInfo>,
}

impl Outcome {
    /// Mbit/s over `span`.
    pub(crate) fn mbps(&self, span: Duration) -> f64 {
        self.received as f64 * 8e-6 / span.as_secs_f64()
    }
}

/// Modules, and the turn of the test that has them: one at a time holds a name, and measures.
pub(crate) struct Held {
    _loaded: Vec<Loaded>,
    _turn: MutexGuard<'static, ()>,
}

/// Loads the modules of these names; where they cannot be had, says why the test is skipped.
pub(crate) fn load(test: &str, names: &[&str]) -> Option<Held> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match names.iter().map(|name| module(name).unwrap().load()).collect() {
        Ok(loaded) => Some(Held { _loaded: loaded, _turn: turn }),
        Err(error @ LoadError::Refused { .. }) => panic!("{error}"),
        Err(reason) => {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
            None
        }
    }
}

/// Flows beside each other, each over a path of its own: three at once, which a busy machine carries too.
pub(crate) fn beside<T: Send, R: Send>(cases: impl IntoIterator<Item = T>, carry: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (carry, mut cases, mut results) = (&carry, cases.into_iter().peekable(), Vec::new());
    while cases.peek().is_some() {
        thread::scope(|scope| {
            let running: Vec<_> = cases.by_ref().take(3).map(|case| scope.spawn(move || carry(case))).collect();
            results.extend(running.into_iter().map(|one| one.join().unwrap()));
        });
    }
    results
}

fn world(link: &Link) -> EmulatedWorld {
    let delay = Nanos::from_millis(link.rtt_ms).mul_div(1, 2);
    let build =
        |direction: Direction| -> Path<Frame> { direction.build(7, delay + delay, &|_| Err("no trace")).unwrap() };
    let loss = (link.loss > 0.0).then_some(LossModel::Rate(link.loss));
    let queue = Some(link.queue.parse().unwrap());
    let down = Direction { rate: Some(Rate::from_mbps(link.mbps)), delay, loss, queue, ..Direction::default() };
    let up = Direction { delay, ..Direction::default() };
    let (down, up) = (build(down), build(up));
    EmulatedWorld::build(
        Far::Isolated,
        Between { down, up, taps: Vec::new(), clock: Clock::new(), bound: Lateness::BOUND },
    )
    .unwrap()
}

fn socket(controller: &str) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
    socket.set_tcp_congestion(controller.as_bytes()).unwrap();
    socket
}

/// Sends as much as `controller` lets for `span`, with a silence of `pause` after each second; `prepare` sees the socket first.
pub(crate) fn carry(
    controller: &str,
    link: &Link,
    span: Duration,
    pause: Duration,
    prepare: impl FnOnce(&Socket) + Send,
) -> Outcome {
    let world = world(link);
    let listen = || {
        let listener = socket(controller);
        listener.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))).unwrap();
        listener.listen(1).unwrap();
        listener
    };
    let listener = world.near().namespace.enter(listen).unwrap();
    let port = listener.local_addr().unwrap().as_socket().unwrap().port();
    let to = SocketAddr::from((world.near().ipv4, port));
    let (accepted, far_end) = mpsc::channel();
    let receiver = thread::spawn(move || {
        let mut stream = TcpStream::from(listener.accept().unwrap().0);
        accepted.send(stream.try_clone().unwrap()).unwrap();
        let (mut buffer, mut received) = (vec![0; 1 << 16], 0);
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            received += bytes as u64;
        }
        received
    });
    let send = move || {
        let socket = socket(controller);
        prepare(&socket);
        socket.connect(&to.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_write_timeout(Some(LOOK)).unwrap();
        let mut diagnosis = Diagnosis::open().unwrap();
        let (start, bytes) = (Instant::now(), [0; 1 << 14]);
        let (mut looks, mut looked, mut rested) = (Vec::new(), start, start);
        while start.elapsed() < span {
            match stream.write(&bytes) {
                Ok(_) => {}
                Err(full) if matches!(full.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => panic!("{controller}: {error}"),
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if start.elapsed() > Duration::from_secs(1) {
                    looks.extend(diagnosis.to(to.port()).unwrap().iter().map(|one| one.info));
                }
            }
            if !pause.is_zero() && rested.elapsed() > Duration::from_secs(1) {
                thread::sleep(pause);
                rested = Instant::now();
            }
        }
        // What is in the send buffer does not matter.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        looks
    };
    let looks = world.far().namespace.enter(send).unwrap();
    // The path may lose the sender's last word.
    let _ = far_end.recv().unwrap().shutdown(Shutdown::Both);
    let received = receiver.join().unwrap();
    world.stop().unwrap();
    Outcome { received, looks }
}
