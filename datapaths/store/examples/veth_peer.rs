//! The other end of a veth pair for a kernel's store: `veth_peer INTERFACE`, as root, until the end of its standard input. Packets of sockets that ask for
//! one unit leave as long as packets can be, so that the answer has room behind them, and answers arrive. Prints a line when it is so.
//! Their sums have to be there (`ethtool -K INTERFACE tx off`): the store does not look at packets without.
//! A network card needs none of it.

#[path = "../tests/peer/mod.rs"]
mod peer;

use std::error::Error;
use std::io::{Read, Write};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let interface = std::env::args().nth(1).ok_or("usage: veth_peer INTERFACE")?;
    let (_passes, hook) = peer::attach(&interface)?;
    writeln!(std::io::stdout(), "ready")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(peer::detach(hook)?)
}
