//! The example: a program of its own around s2n-quic.

use std::net::UdpSocket;

use paceline_quic::Factory;
use paceline_quic::s2n::{Io, Watch};
use s2n_quic::provider::io;

#[path = "../../../examples/s2n.rs"]
mod program;

const BYTES: usize = 2_000_000;

fn run<T>(program: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(program)
}

#[test]
fn a_program_with_the_loop_of_s2n_takes_any_controller() {
    for controller in ["copa", "cubic:start=hystart", "dctcp", "verus"] {
        let factory = Factory::s2n(controller.parse().unwrap(), 1).unwrap();
        let transfer = async {
            let io = io::Default::new("127.0.0.1:0").unwrap();
            program::transfer(factory, io, &Watch::default(), BYTES).await.unwrap()
        };
        println!("{controller}: {:?}", run(transfer));
    }
}

#[test]
fn a_program_with_our_loop_takes_chirps_too() {
    for controller in ["copa", "cubic:start=chirp", "verus"] {
        let io = Io::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let (factory, watch) = (io.factory(controller.parse().unwrap(), 1).unwrap(), io.watch());
        println!("{controller}: {:?}", run(program::transfer(factory, io, &watch, BYTES)).unwrap());
    }
}
