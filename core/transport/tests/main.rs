//! Endpoints and the driver, event by event.

mod above;
mod arrivals;
mod common;
mod datagram;
mod driver;
mod handshake;
mod numbered;
mod own;
mod pacing;
mod receiver;
mod recovery;
mod signals;
mod stream;
