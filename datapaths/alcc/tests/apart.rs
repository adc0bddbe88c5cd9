//! A thread with a table of descriptors of its own, as the one that exports has in a program that this library is preloaded into.
//! Such a thread has copies of all that was open before: nothing else is tested here.
#![cfg(target_os = "linux")]

mod common;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use common::{PATIENCE, connect, engine, send};
use nix::sched::{CloneFlags, unshare};

#[test]
fn who_asks_from_there_keeps_no_connection_open() {
    let engine = engine(|_| {});
    let over = Arc::new(AtomicBool::new(false));
    let (asked, until) = (engine.clone(), over.clone());
    let (apart, begun) = mpsc::channel();
    let asking = thread::spawn(move || {
        apart.send(unshare(CloneFlags::CLONE_FILES)).unwrap();
        while !until.load(Ordering::Relaxed) {
            asked.sockets();
        }
    });
    begun.recv().unwrap().unwrap();
    for _ in 0..2000 {
        let (socket, mut peer) = connect(&engine, "127.0.0.1:0");
        send(&socket, &[7; 10]).unwrap();
        drop(socket);
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(peer.read_to_end(&mut Vec::new()).unwrap(), 10);
    }
    over.store(true, Ordering::Relaxed);
    asking.join().unwrap();
}
