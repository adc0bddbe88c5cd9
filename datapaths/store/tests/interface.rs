//! The store at an interface: a veth pair, whose driver has native XDP. Frames are sent as long as the longest, since veth leaves no
//! room for an answer behind a shorter one.
#![cfg(target_os = "linux")]

mod asking;
mod peer;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use asking::{Asking, STORED, had, name, part, settings, unit};
use libbpf_rs::{Xdp, XdpFlags};
use paceline_cc::Rate;
use paceline_emulator::port::packet::without_offloads;
use paceline_fixture::frame::UdpEnds;
use paceline_fixture::{PATIENCE, until};
use paceline_icn::{Limits, RouterConfig};
use paceline_linux::clock::wait;
use paceline_linux::interface::Interfaces;
use paceline_linux::link::{link, packets};
use paceline_linux::namespace::{Namespace, needs_root};
use paceline_store::{KernelStore, KernelStoreError, KernelStoreSettings};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// In the environment of the process that is to be killed: the interface.
const HOLD: &str = "PACELINE_TEST_HOLD";

/// Two hosts: `s` with the interface `s0`, `r` with `r0`.
struct Pair {
    s: Namespace,
    r: Namespace,
    link: ([u8; 6], [u8; 6]),
}

impl Pair {
    fn new(test: &str) -> Option<Self> {
        if needs_root(test) {
            return None;
        }
        let (s, r) = (Namespace::create().unwrap(), Namespace::create().unwrap());
        s.enter(|| Interfaces::open().unwrap().veth("s0", None, "r0", &r)).unwrap().unwrap();
        let up = |host: &Namespace, interface: &str| {
            host.enter(|| Interfaces::open().and_then(|all| all.up(interface))).unwrap().unwrap();
            host.enter(|| link(interface).unwrap().unwrap().addr().unwrap()).unwrap()
        };
        let link = (up(&r, "r0"), up(&s, "s0"));
        for (host, interface) in [(&s, "s0"), (&r, "r0")] {
            host.enter(|| Interfaces::wait_until_running(interface)).unwrap().unwrap();
        }
        Some(Self { s, r, link })
    }
}

fn attached(host: &Namespace, interface: &str) -> bool {
    let any = File::open("/dev/null").unwrap();
    let query = || Xdp::new(any.as_fd()).query_id(link(interface).unwrap().unwrap().ifindex() as i32, XdpFlags::NONE);
    host.enter(|| query().unwrap()).unwrap() != 0
}

fn load(test: &str) -> Option<KernelStore> {
    had(test, KernelStore::load(1 << 20))
}

/// The frame that came, if one does within this time.
fn came(socket: &OwnedFd, buffer: &mut [u8; 2048], patience: Duration) -> Option<usize> {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    wait(&mut fds, Some(patience)).unwrap();
    recv(socket, &mut buffer[..], RecvFlags::DONTWAIT).ok().map(|(length, _)| length)
}

#[test]
fn a_unit_is_never_torn_while_others_take_its_place() {
    const WANTED: u64 = 20_000;
    let test = "a_unit_is_never_torn_while_others_take_its_place";
    let Some(pair) = Pair::new(test) else { return };
    let (Some(mut kernel), Some(mut passes)) = (load(test), load(test)) else { return };
    let limits = Limits::within(&RouterConfig::new(Rate::INFINITY), 9, kernel.buckets());
    kernel.set(&KernelStoreSettings { link: pair.link.1, ..settings(&limits) }).unwrap();
    kernel.answer_for(&["192.0.2.1".parse().unwrap()]).unwrap();
    pair.s.enter(|| kernel.attach("s0")).unwrap().unwrap();
    // Answers reach a veth's other end only where that has a program too.
    pair.r.enter(|| passes.attach("r0")).unwrap().unwrap();
    let socket = pair.r.enter(|| packets("r0")).unwrap().unwrap();
    let (good, end) = (AtomicU64::new(0), AtomicBool::new(false));
    let ask = || {
        let (mut buffer, mut turn) = ([0; 2048], 0_u64);
        while good.load(Ordering::Relaxed) < WANTED && !end.load(Ordering::Relaxed) {
            turn += 1;
            let (number, wanted) = ((turn * 7 % 30) as u8 + 1, turn * 13 % 64);
            let mut asking = Asking::new("198.51.100.9:40000", number, wanted);
            asking.ends.link = pair.link;
            asking.request.nonce = u64::from(number) << 32 | wanted;
            let mut frame = asking.frame();
            frame.resize(1514, 0);
            let _ = send(&socket, &frame, SendFlags::DONTWAIT);
            while let Some(length) = came(&socket, &mut buffer, Duration::ZERO) {
                // Not what this host sends, nor other hosts' words.
                if buffer[..6] != pair.link.0 {
                    continue;
                }
                let Some((ends, answer)) = UdpEnds::read(&buffer[..length]) else { continue };
                assert_eq!(ends, asking.ends.reversed());
                let nonce = u64::from_be_bytes(answer[2..10].try_into().unwrap());
                assert_eq!(answer[10..18], (nonce & 0xffff_ffff).to_be_bytes());
                assert!(
                    answer[30..] == unit(&name((nonce >> 32) as u8), nonce & 0xffff_ffff),
                    "unit {nonce:x} is torn"
                );
                good.fetch_add(1, Ordering::Relaxed);
            }
        }
        end.store(true, Ordering::Relaxed);
    };
    let mut changes = 0_u64;
    std::thread::scope(|threads| {
        let asking = threads.spawn(ask);
        let begun = std::time::Instant::now();
        while !end.load(Ordering::Relaxed) && !asking.is_finished() && begun.elapsed() < PATIENCE {
            // 30 objects, 11 places.
            let (goes, comes) = ((changes * 11 % 30) as u8 + 1, (changes * 17 % 30) as u8 + 1);
            kernel.remove(&name(goes)).unwrap();
            kernel.insert(&name(comes), 0, STORED, &part(&name(comes), 0)).unwrap();
            changes += 1;
        }
        end.store(true, Ordering::Relaxed);
    });
    assert!(good.load(Ordering::Relaxed) >= WANTED && changes > 0, "{good:?} units, {changes} changes");
    let counts = kernel.counts().unwrap();
    assert!(counts.answered >= WANTED && counts.no_room == 0, "{counts:?}");
}

#[test]
fn requests_of_sockets_are_answered_over_a_veth_whose_other_end_pads_them() {
    let test = "requests_of_sockets_are_answered_over_a_veth_whose_other_end_pads_them";
    let Some(pair) = Pair::new(test) else { return };
    let Some(mut kernel) = load(test) else { return };
    for (host, interface, address) in [(&pair.s, "s0", "192.0.2.1"), (&pair.r, "r0", "192.0.2.9")] {
        let add = || Interfaces::open().unwrap().add_address(interface, address.parse().unwrap(), 24);
        host.enter(add).unwrap().unwrap();
    }
    let limits = Limits::within(&RouterConfig::new(Rate::INFINITY), 9, kernel.buckets());
    let own = pair.s.enter(|| link("s0").unwrap().unwrap().addr().unwrap()).unwrap();
    kernel.set(&KernelStoreSettings { link: own, ..settings(&limits) }).unwrap();
    kernel.answer_for(&["192.0.2.1".parse().unwrap()]).unwrap();
    assert!(kernel.insert(&name(1), 0, STORED, &part(&name(1), 0)).unwrap());
    pair.s.enter(|| kernel.attach("s0")).unwrap().unwrap();
    let _passes = pair.r.enter(|| peer::attach("r0").map(|(passes, _)| passes)).unwrap().unwrap();
    // What has no sum yet is not looked at.
    pair.r.enter(|| without_offloads("r0")).unwrap().unwrap();
    let asking = Asking::new("192.0.2.9:40000", 1, 3);
    let socket = pair.r.enter(|| UdpSocket::bind(asking.ends.from)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut answer = [0; 2048];
    until("an answer", || {
        socket.send_to(&asking.message(), asking.ends.to).unwrap();
        socket.recv(&mut answer).is_ok_and(|length| length == 1430)
    });
    assert!(answer[30..1430] == unit(&name(1), 3));
    let counts = kernel.counts().unwrap();
    assert!(counts.answered > 0 && counts.no_room == 0, "{counts:?}");
}

#[test]
fn where_it_cannot_be_is_said_in_one_line() {
    let test = "where_it_cannot_be_is_said_in_one_line";
    let Some(pair) = Pair::new(test) else { return };
    let (Some(mut one), Some(mut other)) = (load(test), load(test)) else { return };
    let said = |store: &mut KernelStore, interface: &str| {
        let error = pair.s.enter(|| store.attach(interface)).unwrap().expect_err("it cannot be there");
        let text = error.to_string();
        assert!(!text.contains('\n') && text.contains(interface), "{text}");
        error
    };
    assert!(matches!(said(&mut one, "none0"), KernelStoreError::NoInterface(_)));
    assert!(matches!(said(&mut one, "lo"), KernelStoreError::NotEthernet(_)));
    let ip = |words: &str| {
        pair.s
            .enter(|| {
                Command::new("ip")
                    .args(words.split(' '))
                    .stderr(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success())
            })
            .unwrap()
    };
    // Either has no XDP of its own.
    if ip("link add d0 type dummy") || ip("link add d0 type bridge") {
        assert!(matches!(said(&mut one, "d0"), KernelStoreError::NotNative(_)));
        assert!(!attached(&pair.s, "d0"));
    }
    if ip("link set s0 mtu 1400") {
        assert!(matches!(said(&mut one, "s0"), KernelStoreError::Mtu { mtu: 1400, wanted: 1478, .. }));
        assert!(ip("link set s0 mtu 1500"));
    }
    pair.s.enter(|| one.attach("s0")).unwrap().unwrap();
    assert!(matches!(said(&mut other, "s0"), KernelStoreError::Attach { .. }));
    drop(one);
    assert!(!attached(&pair.s, "s0"));
    KernelStore::try_here().unwrap();
    assert!(matches!(KernelStore::load(1000), Err(KernelStoreError::TooSmall(1000))));
    assert!(matches!(KernelStore::load(1 << 48), Err(KernelStoreError::Memory(_) | KernelStoreError::Refused { .. })));
}

#[test]
fn it_is_gone_with_its_owner_however_that_ends() {
    let test = "it_is_gone_with_its_owner_however_that_ends";
    let Some(pair) = Pair::new(test) else { return };
    if load(test).is_none() {
        return;
    }
    let hold = || {
        let mut hold = Command::new(std::env::current_exe().unwrap());
        hold.args(["--exact", "holds_an_interface", "--ignored", "--nocapture"]).env(HOLD, "s0");
        hold.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut child = pair.s.enter(hold).unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).find(|line| line.contains("ready"));
    assert!(ready.is_some() && attached(&pair.s, "s0"));
    child.kill().unwrap();
    child.wait().unwrap();
    until("the program goes", || !attached(&pair.s, "s0"));
}

#[test]
#[ignore = "the process that another test kills"]
fn holds_an_interface() {
    let mut store = KernelStore::load(1 << 20).unwrap();
    store.attach(&std::env::var(HOLD).expect("an interface")).unwrap();
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
}
