//! A connection of s2n-quic's in virtual time.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use paceline_cc::{Codepoint, Time};
use paceline_quic::s2n::{Captured, Machine, Watch};
use paceline_quic::{Factory, Identity, MTU};
use s2n_quic::client::Connect;
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as tls;
use s2n_quic::{Client, Server};

use crate::world::{End, Ends, FAR, NEAR, WINDOW, address};

/// s2n-quic's clock counts microseconds: what is due and was not done is not done earlier.
const RESOLUTION: Duration = Duration::from_micros(1);

/// Writes as much as it can, or counts what it reads.
type Application = Pin<Box<dyn Future<Output = ()>>>;

struct Connected {
    machine: Box<dyn Machine>,
    own: SocketAddr,
    peer: SocketAddr,
    application: Application,
    read: Arc<AtomicU64>,
    woken: Arc<Woken>,
    start: Instant,
    /// When it worked last.
    worked: Instant,
}

/// The application is wanted.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Sender and receiver.
pub(crate) fn ends(factory: Factory, start: Instant) -> Ends {
    let (near, far) = (address(NEAR), address(FAR));
    let (identity, read) = (Identity::generate().unwrap(), Arc::new(AtomicU64::new(0)));
    let end = |captured: &Captured, own, peer, application: Application| -> Box<dyn End> {
        let (machine, read) = (captured.take().unwrap(), Arc::clone(&read));
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        Box::new(Connected { machine, own, peer, application, read, woken, start, worked: start })
    };

    let captured = Captured::new(far, &Watch::default());
    let tls = tls::Server::builder().with_certificate(identity.certificate(), identity.key()).unwrap();
    let builder = Server::builder().with_tls(tls.build().unwrap()).unwrap().with_io(captured.clone()).unwrap();
    let mut server = builder.with_limits(limits()).unwrap().start().unwrap();
    let counted = Arc::clone(&read);
    let application = async move {
        let mut connection = server.accept().await.unwrap();
        let mut stream = connection.accept_receive_stream().await.unwrap().unwrap();
        while let Ok(Some(chunk)) = stream.receive().await {
            counted.fetch_add(chunk.len() as u64, Ordering::AcqRel);
        }
    };
    let receiver = end(&captured, far, near, Box::pin(application));

    let watch = Watch::default();
    let captured = Captured::new(near, &watch);
    let tls = tls::Client::builder().with_certificate(identity.certificate()).unwrap().build().unwrap();
    let builder = Client::builder().with_tls(tls).unwrap().with_io(captured.clone()).unwrap();
    let builder = builder.with_limits(limits()).unwrap();
    let client = builder.with_congestion_controller(factory.watched(&watch)).unwrap().start().unwrap();
    let application = async move {
        let connect = Connect::new(far).with_server_name("paceline");
        let mut connection = client.connect(connect).await.unwrap();
        watch.connected(connection.handle());
        let mut stream = connection.open_send_stream().await.unwrap();
        let data = Bytes::from(vec![0; 1 << 16]);
        while stream.send(data.clone()).await.is_ok() {}
    };
    (end(&captured, near, far, Box::pin(application)), receiver)
}

fn limits() -> Limits {
    // As the stack's own ends do.
    let limits = Limits::new().with_max_ack_delay(Duration::ZERO).unwrap();
    let window = u64::from(WINDOW);
    let limits = limits.with_data_window(window).unwrap().with_unidirectional_data_window(window).unwrap();
    limits.with_max_send_buffer_size(1 << 20).unwrap()
}

impl Connected {
    fn time(&self, at: Instant) -> Time {
        Time::from_nanos(at.saturating_duration_since(self.start).as_nanos() as u64)
    }
}

impl End for Connected {
    fn receive(&mut self, now: Instant, ecn: Codepoint, datagram: &[u8]) {
        self.machine.receive(self.time(now), self.peer, self.own, ecn, &mut datagram.to_vec());
    }

    fn work(&mut self, now: Instant, leave: &mut dyn FnMut(Codepoint, &[u8])) {
        self.worked = now;
        let now = self.time(now);
        let waker = Waker::from(Arc::clone(&self.woken));
        let (mut context, mut buffer) = (Context::from_waker(&waker), [0; MTU as usize]);
        let mut busy = true;
        while busy {
            assert!(self.machine.wake(now, &mut context), "an endpoint ended");
            busy = self.woken.0.swap(false, Ordering::AcqRel);
            if busy {
                assert!(self.application.as_mut().poll(&mut context).is_pending(), "an application ended");
            }
            while let Some(outgoing) = self.machine.transmit(now, &mut buffer) {
                busy = true;
                leave(outgoing.ecn, &buffer[..outgoing.length]);
            }
        }
    }

    fn next(&mut self) -> Option<Instant> {
        let due = self.start + Duration::from_nanos(self.machine.due()?.as_nanos());
        Some(if due > self.worked { due } else { self.worked + RESOLUTION })
    }

    /// The application does.
    fn write(&mut self) {}

    fn read(&mut self) -> u64 {
        self.read.swap(0, Ordering::AcqRel)
    }
}
