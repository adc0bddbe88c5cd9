//! Copa in a UDP protocol of one's own: datagrams begin with a number, the peer echoes the number, and a packet is lost when the third after
//! it has arrived. Both ends are here, over loopback.
//!
//! `cargo run --release -p paceline-transport --example own -- copa 20000` sends 24 MB.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program that uses the sans-IO room has a clock and sockets"
)]

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paceline_cc::{Env, Nanos, Spec, Time};
use paceline_transport::{FlowLimit, Numbered, NumberedNews, SenderConfig};

/// Bytes of a packet.
const SIZE: u32 = 1200;
/// Nothing here takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// What became of the packets.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    pub(crate) took: Duration,
}

#[cfg_attr(test, expect(dead_code, reason = "a test calls the transfer"))]
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [controller, packets] = &words[..] else { return Err("own CONTROLLER PACKETS".into()) };
    let done = transfer(controller, packets.parse()?)?;
    let mbps = done.delivered as f64 * f64::from(SIZE) * 8e-6 / done.took.as_secs_f64();
    println!("{} packets arrived and {} were lost in {:.3?}: {mbps:.0} Mbit/s", done.delivered, done.lost, done.took);
    Ok(())
}

/// Sends so many packets under a controller of the registry.
pub(crate) fn transfer(controller: &str, packets: u64) -> Result<Transfer, Box<dyn Error>> {
    let (socket, peer) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    socket.connect(peer.local_addr()?)?;
    socket.set_nonblocking(true)?;
    peer.set_read_timeout(Some(Duration::from_millis(10)))?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let echoes = scope.spawn(|| echo(&peer, &over));
        let sent = send(&socket, controller, packets);
        over.store(true, Ordering::Relaxed);
        echoes.join().expect("an echo does not panic")?;
        sent
    })
}

fn send(socket: &UdpSocket, controller: &str, packets: u64) -> Result<Transfer, Box<dyn Error>> {
    let start = Instant::now();
    let now = || Time::ZERO + Nanos::from_nanos(start.elapsed().as_nanos() as u64);
    let env = Env::new(SIZE);
    let config = SenderConfig::new(SIZE);
    let mut flow = Numbered::new(&config, controller.parse::<Spec>()?.build(&env));
    let (mut next, mut heard_at, mut lost_packets) = (0, now(), 0);
    while next < packets || flow.oldest().is_some() {
        flow.tick(now());
        while next < packets && flow.may_send(now(), SIZE) {
            flow.sent(now(), next, SIZE, u64::MAX, FlowLimit::Unknown);
            let mut datagram = [0; SIZE as usize];
            datagram[..8].copy_from_slice(&next.to_be_bytes());
            // A full buffer loses it, as a path would.
            socket.send(&datagram).map(drop).or_else(would_block)?;
            next += 1;
        }
        if let Some(number) = receive(socket)? {
            // Those that have come already are passed over.
            let lost: Vec<u64> = (flow.oldest().unwrap_or(number)..number.saturating_sub(2)).collect();
            let (delivered, flight) = (flow.bytes_delivered(), flow.in_flight());
            flow.acked(now(), [number], &NumberedNews::default().with_lost(&lost));
            lost_packets += (flight - flow.in_flight() - (flow.bytes_delivered() - delivered)) / u64::from(SIZE);
            heard_at = now();
        } else if now() - heard_at > flow.rtt().rto(flow.config()) {
            // The last packets have none after them.
            let (lost, flight) = ((flow.oldest().unwrap_or(next)..next).collect::<Vec<u64>>(), flow.in_flight());
            flow.lost(now(), &lost, true);
            lost_packets += (flight - flow.in_flight()) / u64::from(SIZE);
            heard_at = now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
        if start.elapsed() > LIMIT {
            return Err("the transfer takes too long".into());
        }
    }
    let delivered = flow.bytes_delivered() / u64::from(SIZE);
    Ok(Transfer { delivered, lost: lost_packets, took: start.elapsed() })
}

/// The number of a packet that has arrived.
fn receive(socket: &UdpSocket) -> io::Result<Option<u64>> {
    let mut number = [0; 8];
    match socket.recv(&mut number) {
        Ok(8) => Ok(Some(u64::from_be_bytes(number))),
        Ok(_) => Ok(None),
        Err(error) => would_block(error).map(|()| None),
    }
}

fn would_block(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::WouldBlock { Ok(()) } else { Err(error) }
}

/// The peer: sends the number of each packet back.
fn echo(socket: &UdpSocket, over: &AtomicBool) -> io::Result<()> {
    let mut datagram = [0; SIZE as usize];
    while !over.load(Ordering::Relaxed) {
        match socket.recv_from(&mut datagram) {
            Ok((_, to)) => {
                socket.send_to(&datagram[..8], to)?;
            }
            Err(error) => would_block(error)?,
        }
    }
    Ok(())
}
