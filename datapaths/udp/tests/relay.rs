//! A path that ill-treats what it carries: it drops, doubles, delays and changes packets, and keeps them for replays.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What it does to one packet in this many; 0 for never.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mischief {
    pub(crate) drop: u64,
    pub(crate) double: u64,
    pub(crate) change: u64,
    pub(crate) swap: u64,
}

/// Between one client and a server.
pub(crate) struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
    towards: UdpSocket,
}

struct Luck(u64);

impl Luck {
    fn one_in(&mut self, many: u64) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        many > 0 && (self.0 >> 33).is_multiple_of(many)
    }
}

impl Relay {
    pub(crate) fn new(server: SocketAddr, mischief: Mischief) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.connect(server).unwrap();
        near.set_read_timeout(Some(Duration::from_micros(200))).unwrap();
        far.set_nonblocking(true).unwrap();
        let address = near.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let kept = Arc::new(Mutex::new(Vec::new()));
        let towards = far.try_clone().unwrap();
        let (stopped, keeps) = (Arc::clone(&stop), Arc::clone(&kept));
        let thread = thread::spawn(move || {
            // One for each way, so that what happens to a way's first packets does not hang on when they come.
            let (mut up, mut down, mut buffer, mut client) = (Luck(1), Luck(2), [0; 2048], None);
            let (mut held_up, mut held_down) = (None, None);
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((length, from)) = near.recv_from(&mut buffer) {
                    client = Some(from);
                    keeps.lock().unwrap().push(buffer[..length].to_vec());
                    carry(&mut up, mischief, &mut held_up, &buffer[..length], |packet| drop(far.send(packet)));
                }
                while let Ok(length) = far.recv(&mut buffer) {
                    let Some(client) = client else { continue };
                    let send = |packet: &[u8]| drop(near.send_to(packet, client));
                    carry(&mut down, mischief, &mut held_down, &buffer[..length], send);
                }
            }
        });
        Self { address, stop, thread: Some(thread), kept, towards }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends everything that the client ever sent once more.
    pub(crate) fn replay(&self) -> usize {
        let kept = self.kept.lock().unwrap();
        for packet in kept.iter() {
            // In small bursts, so that a small receive buffer keeps them all.
            self.towards.send(packet).unwrap();
            thread::sleep(Duration::from_micros(100));
        }
        kept.len()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn carry(luck: &mut Luck, mischief: Mischief, held: &mut Option<Vec<u8>>, packet: &[u8], send: impl Fn(&[u8])) {
    if luck.one_in(mischief.drop) {
        return;
    }
    let mut packet = packet.to_vec();
    if luck.one_in(mischief.change) {
        let at = packet.len() / 2;
        packet[at] ^= 4;
    }
    if luck.one_in(mischief.swap) && held.is_none() {
        *held = Some(packet);
        return;
    }
    send(&packet);
    if luck.one_in(mischief.double) {
        send(&packet);
    }
    if let Some(held) = held.take() {
        send(&held);
    }
}
