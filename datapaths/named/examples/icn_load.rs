//! Many receivers in one process, for measuring what a router costs: each asks for its part of the rate in requests of one size, at
//! equal distances, and drops what comes. They have no controller, so that only the router is measured.
//!
//! `icn_load ROUTER NAME RECEIVERS MBIT_PER_SECOND UNITS_PER_REQUEST SECONDS [apart]`: the receivers are sockets with ports of their
//! own, and read the object in step; `apart`: each begins at a place of its own, so that none asks for what another has just had.
//! Prints a line when all have a token and begin, and one JSON object at the end: what was asked for and what came.

use std::error::Error;
use std::io::{ErrorKind, IoSliceMut, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use paceline_icn::wire::{AddressToken, MAX_MESSAGE, PADDED, UnitAnswer, UnitRequest};
use paceline_icn::{Name, Ranges, UNIT, Units};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};

struct Receiver {
    socket: UdpSocket,
    state: UdpSocketState,
    token: Option<AddressToken>,
    next: u64,
    stored: u64,
    due: Instant,
}

#[derive(Default)]
struct Seen {
    units: u64,
    nacks: u64,
    waited_us: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [router, name, receivers, mbps, units, seconds, apart @ ..] = &words[..] else {
        return Err("usage: icn_load ROUTER NAME RECEIVERS MBIT_PER_SECOND UNITS_PER_REQUEST SECONDS [apart]".into());
    };
    let apart = match apart {
        [] => false,
        [word] if word == "apart" => true,
        other => return Err(format!("{other:?}: not apart").into()),
    };
    let (router, name): (SocketAddr, Name) = (router.parse()?, name.parse()?);
    let (count, mbps, per_request): (u32, f64, u32) = (receivers.parse()?, mbps.parse()?, units.parse()?);
    let length = Duration::from_secs_f64(seconds.parse()?);
    // This long between two requests of a receiver.
    let gap = Duration::from_secs_f64(f64::from(per_request) * UNIT as f64 * 8.0 * f64::from(count) / (mbps * 1e6));
    let mut receivers = Vec::new();
    let local: SocketAddr = if router.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
    for _ in 0..count {
        let socket = UdpSocket::bind(local)?;
        socket.connect(router)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        receivers.push(Receiver { socket, state, token: None, next: 0, stored: 2, due: Instant::now() });
    }
    let mut buffers: Vec<Vec<u8>> = (0..4).map(|_| vec![0; 65_536]).collect();
    let mut seen = Seen::default();
    for receiver in &mut receivers {
        receiver.greet(name, &mut buffers, &mut seen)?;
    }
    writeln!(std::io::stdout(), "begun")?;
    let begin = Instant::now();
    for (index, receiver) in receivers.iter_mut().enumerate() {
        receiver.due = begin + gap.mul_f64(index as f64 / f64::from(count));
        if apart {
            receiver.next = receiver.stored * index as u64 / u64::from(count);
        }
    }
    seen = Seen::default();
    let (mut asked, mut at, mut message) = (0_u64, 0, Vec::with_capacity(MAX_MESSAGE));
    while begin.elapsed() < length {
        let receiver = &mut receivers[at];
        let left = receiver.due.saturating_duration_since(Instant::now());
        if left > Duration::from_micros(60) {
            std::thread::sleep(left);
        }
        receiver.take(&mut buffers, &mut seen)?;
        if receiver.next + u64::from(per_request) > receiver.stored {
            receiver.next = 0;
        }
        let ranges =
            Ranges::new(Units { first: receiver.next, count: per_request }).ok_or("1 to 64 units a request")?;
        receiver.next += u64::from(per_request);
        asked += u64::from(per_request);
        message.clear();
        UnitRequest { nonce: at as u64, name, ranges, token: receiver.token, hops: 0, padded: 0 }.encode(&mut message);
        // A full buffer is a request that is lost.
        let _ = receiver.socket.send(&message);
        receiver.due += gap;
        at = (at + 1) % receivers.len();
    }
    let took = begin.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_millis(100));
    for receiver in &mut receivers {
        receiver.take(&mut buffers, &mut seen)?;
    }
    let rate = seen.units as f64 * UNIT as f64 * 8.0 / took / 1e6;
    let mean_wait = seen.waited_us as f64 / seen.units.max(1) as f64;
    let done = serde_json::json!({
        "receivers": count, "seconds": took, "asked_units": asked, "units": seen.units, "nacks": seen.nacks,
        "mbps": rate, "mean_wait_us": mean_wait,
    });
    Ok(writeln!(std::io::stdout(), "{done}")?)
}

impl Receiver {
    /// Proves the address, and learns how long the object is.
    fn greet(&mut self, name: Name, buffers: &mut [Vec<u8>], seen: &mut Seen) -> Result<(), Box<dyn Error>> {
        let mut message = Vec::new();
        for _ in 0..250 {
            let token = self.token;
            let request = UnitRequest { nonce: 1, name, ranges: Ranges::one(0), token, hops: 0, padded: PADDED };
            message.clear();
            request.encode(&mut message);
            self.socket.send(&message)?;
            std::thread::sleep(Duration::from_millis(2));
            self.take(buffers, seen)?;
            if self.token.is_some() && self.stored > 2 {
                return Ok(());
            }
        }
        Err("the router does not answer, or does not have the object".into())
    }

    fn take(&mut self, buffers: &mut [Vec<u8>], seen: &mut Seen) -> Result<(), Box<dyn Error>> {
        loop {
            let mut metas = [RecvMeta::default(); BATCH_SIZE];
            let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            let got = match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                got => got?,
            };
            for (buffer, meta) in buffers.iter().zip(&metas).take(got) {
                for message in buffer[..meta.len].chunks(meta.stride.max(1)) {
                    match UnitAnswer::decode(message)? {
                        UnitAnswer::Data(data, _) => {
                            seen.units += 1;
                            seen.waited_us += data.waited.as_micros();
                            self.stored = data.stored_units.unwrap_or(self.stored);
                        }
                        UnitAnswer::Nack(_) => seen.nacks += 1,
                        UnitAnswer::Grant(grant) => self.token = Some(grant.token),
                    }
                }
            }
        }
    }
}
