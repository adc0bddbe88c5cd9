//! What this machine has for a controller above TCP, found out by a connection of its own.

use std::io::{self, IoSlice, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use crate::{Acks, Engine, Options};

/// Sends some bytes to this machine from above TCP; where their acknowledgements were read. It starts a thread, and waits for `patience` at
/// most.
///
/// # Errors
/// The system's, where there can be no such connection.
pub fn acks_here(patience: Duration) -> io::Result<Acks> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    far.set_read_timeout(Some(patience))?;
    let engine = Engine::start(Options::default())?;
    let socket = engine.adopt(near.into())?;
    let bytes = [0; 1024];
    socket.send(&[IoSlice::new(&bytes)], false)?;
    let mut room = [0; 1024];
    far.read_exact(&mut room)?;
    socket.drain(patience);
    let acks = socket.stats().acks;
    socket.close(patience);
    Ok(acks)
}
