//! Datagram endpoints over loopback: real sockets, bounded in time.
#![cfg(target_os = "linux")]

mod endpoints;
mod handshake;
mod port;
mod relay;
mod server;
mod transfer;

use std::thread::{self, JoinHandle};

use paceline_cc::{Nanos, Time};
use paceline_linux::clock::Clock;
use paceline_udp::wire::control::{Hello, SessionJob};
use paceline_udp::{Accepted, Agreed, Listener, Offload, SessionKey};

/// Long enough for anything here on a slow machine: only a failure waits for it.
const LIMIT: Nanos = Nanos::from_secs(60);

fn hello(job: SessionJob, bytes: Option<u64>, controller: &str) -> Hello {
    Hello {
        random: [0; 16],
        cookie: None,
        job,
        mss: 1400,
        arrivals: true,
        ack_every: 1,
        bytes,
        controller: controller.to_owned(),
        name: String::new(),
    }
}

fn listener(key: Option<&SessionKey>, clock: Clock) -> Listener {
    Listener::bind("127.0.0.1:0".parse().unwrap(), key.cloned(), Offload::NONE, clock).unwrap()
}

/// Agrees to whatever a client asks for.
fn yes(bytes: Option<u64>) -> Result<Agreed<()>, String> {
    Ok(Agreed { bytes, ready: () })
}

/// Answers until a session is accepted; then it goes on for `more`, and tells of all sessions.
fn accept(mut listener: Listener, clock: Clock, bytes: Option<u64>, more: Nanos) -> JoinHandle<Vec<Accepted<()>>> {
    thread::spawn(move || {
        let mut sessions = Vec::new();
        let mut until = Time::ZERO + LIMIT;
        while clock.now() < until {
            let new = listener.accept(until, |_, _| yes(bytes)).unwrap();
            if sessions.is_empty() && !new.is_empty() {
                until = clock.now() + more;
            }
            sessions.extend(new.into_iter().map(|session| session.unwrap_or_else(|error| panic!("{error}"))));
        }
        sessions
    })
}
