//! What this machine allows of congestion control above TCP.

use std::io::{self, IoSlice, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use paceline_alcc::{Acks, Engine, Options};
use paceline_emulator::machine::{Feature, Verdict};

use crate::commands::shim;
use crate::complaint;

/// How long a loopback connection may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts threads: comes after everything that needs to be alone.
pub(super) fn features() -> Vec<Feature> {
    vec![Feature { name: "shim", verdict: library() }, Feature { name: "acks from stamps", verdict: stamps() }]
}

fn library() -> Verdict {
    match shim::library() {
        Ok((path, elf)) => Verdict::Works(format!("{}, {}", path.display(), elf.architecture())),
        Err(error) => Verdict::No(complaint::of_error(&error)),
    }
}

/// Asks the kernel by doing it.
fn stamps() -> Verdict {
    match loopback() {
        Ok(Acks::Stamps) => Verdict::Works("the kernel reports when each chunk was acknowledged".to_owned()),
        Ok(_) => Verdict::FallsBack("the kernel gives no time stamps; TCP_INFO is asked every 1 to 5 ms".to_owned()),
        Err(error) => Verdict::No(format!("a loopback connection failed ({error})")),
    }
}

/// Sends some bytes to this machine from above TCP; where their acknowledgements were read.
fn loopback() -> io::Result<Acks> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    far.set_read_timeout(Some(PATIENCE))?;
    let engine = Engine::start(Options::default())?;
    let socket = engine.adopt(near.into())?;
    let bytes = [0; 1024];
    socket.send(&[IoSlice::new(&bytes)], false)?;
    let mut room = [0; 1024];
    far.read_exact(&mut room)?;
    socket.drain(PATIENCE);
    let acks = socket.stats().acks;
    socket.close(PATIENCE);
    Ok(acks)
}
