//! Whose port it is while a server listens.

use std::io;
use std::net::SocketAddr;
use std::thread;

use paceline_cc::Nanos;
use paceline_linux::clock::Clock;
use paceline_udp::wire::control::SessionJob;
use paceline_udp::{Listener, Offload, connect};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use socket2::{Domain, Socket, Type};

use super::{LIMIT, accept, hello, listener};

/// `nobody` of most systems; any but root would do.
const OTHER: u32 = 65_534;

/// Binds `address` as another user, with every option that shares a port; `None` where this process cannot be another.
fn bound_by_another(address: SocketAddr) -> Option<io::Result<()>> {
    // On Linux, the identity is that of the thread.
    let thief = thread::spawn(move || {
        let other = Uid::from_raw(OTHER);
        set_thread_res_uid(other, other, other).ok()?;
        let bind = || {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            socket.set_reuse_address(true)?;
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())
        };
        Some(bind())
    });
    thief.join().unwrap()
}

#[test]
fn another_user_cannot_take_the_port_of_a_server() {
    let clock = Clock::new();
    let listener = listener(None, clock);
    let address = listener.address();
    let everywhere = SocketAddr::new([0; 4].into(), address.port());
    let taken = || {
        for address in [address, everywhere] {
            match bound_by_another(address) {
                Some(result) => assert_eq!(result.unwrap_err().kind(), io::ErrorKind::AddrInUse),
                None => return false,
            }
        }
        true
    };
    if !geteuid().is_root() || !taken() {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = io::Write::write_all(
            &mut io::stderr(),
            b"skipped: another_user_cannot_take_the_port_of_a_server: this process cannot be another user\n",
        );
        return;
    }
    // While sessions have sockets on it too.
    let server = accept(listener, clock, None, Nanos::from_millis(100));
    let asked = hello(SessionJob::Discard, None, "copa");
    let (channel, _) = connect(address, None, asked, Offload::NONE, clock, LIMIT).unwrap();
    assert!(taken());
    drop((channel, server.join().unwrap()));
}

#[test]
fn a_port_is_free_again_at_once() {
    let clock = Clock::new();
    let first = listener(None, clock);
    let address = first.address();
    let second = || Listener::bind(address, None, Offload::NONE, clock);
    assert!(second().is_err(), "one server of a user does not hide another");
    let server = accept(first, clock, None, Nanos::ZERO);
    let asked = hello(SessionJob::Discard, None, "copa");
    let (channel, _) = connect(address, None, asked, Offload::NONE, clock, LIMIT).unwrap();
    drop((channel, server.join().unwrap()));
    let server = accept(second().unwrap(), clock, None, Nanos::ZERO);
    let asked = hello(SessionJob::Discard, None, "copa");
    connect(address, None, asked, Offload::NONE, clock, LIMIT).unwrap();
    assert_eq!(server.join().unwrap().len(), 1);
}
