//! A path over loopback that is dark for a while, again and again: fetches go on when it is back.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use paceline_cc::Rate;
use paceline_named::client::{Options, fetch_blocking};

use crate::place::{Shop, content};

/// Stands between a requester and a router, and passes nothing on while it is dark.
struct Relay {
    address: SocketAddr,
    dark: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Relay {
    fn to(router: SocketAddr) -> Self {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (near, far) = (bind(), bind());
        far.connect(router).unwrap();
        let address = near.local_addr().unwrap();
        let (dark, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        // The requester is who asked first.
        let (first, requester) = std::sync::mpsc::channel();
        let up = Self::pass(&near, &ended, {
            let (dark, far) = (dark.clone(), far.try_clone().unwrap());
            move |bytes, from| {
                let _ = first.send(from);
                if !dark.load(Ordering::Relaxed) {
                    let _ = far.send(bytes);
                }
            }
        });
        let down = Self::pass(&far, &ended, {
            let (dark, near) = (dark.clone(), near.try_clone().unwrap());
            let mut to = None;
            move |bytes, _| {
                if !dark.load(Ordering::Relaxed) {
                    let to = *to.get_or_insert_with(|| requester.recv().unwrap());
                    let _ = near.send_to(bytes, to);
                }
            }
        });
        Self { address, dark, ended, threads: vec![up, down] }
    }

    fn pass(
        from: &UdpSocket,
        ended: &Arc<AtomicBool>,
        mut on: impl FnMut(&[u8], SocketAddr) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let (from, ended) = (from.try_clone().unwrap(), ended.clone());
        from.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !ended.load(Ordering::Relaxed) {
                if let Ok((length, sender)) = from.recv_from(&mut buffer) {
                    on(&buffer[..length], sender);
                }
            }
        })
    }

    fn darken(&self, millis: u64) {
        self.dark.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(millis));
        self.dark.store(false, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

#[test]
fn outages_in_a_row_end_no_fetch() {
    let shop = Shop::new();
    let bytes = content(6_000_000);
    let name = shop.publish(&bytes);
    thread::scope(|scope| {
        for spec in ["bbr", "cubic", "copa", "fixed:window=20"] {
            let server = shop.serve_at(SocketAddr::from(([127, 0, 0, 1], 0)), Rate::from_bytes_per_sec(2_500_000));
            let bytes = &bytes;
            scope.spawn(move || {
                let relay = Relay::to(server.address());
                let options = Options::new(spec.parse().unwrap());
                let mut reader = fetch_blocking(&name, &[relay.address], 0..u64::MAX, options).unwrap();
                let mut all = Vec::new();
                for (at, millis) in [(1_000_000, 1500), (2_000_000, 400), (2_500_000, 3000), (4_000_000, 700)] {
                    while all.len() < at {
                        all.extend_from_slice(&reader.chunk_blocking().unwrap().unwrap());
                    }
                    relay.darken(millis);
                }
                while let Some(more) = reader.chunk_blocking().unwrap() {
                    all.extend_from_slice(&more);
                }
                assert!(&all == bytes, "{spec}: {} bytes", all.len());
                let stats = reader.stats().unwrap();
                assert!(stats.sources[0].flow.timeouts > 0, "{spec}: {stats:?}");
            });
        }
    });
}
