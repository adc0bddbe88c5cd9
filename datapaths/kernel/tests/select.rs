//! A controller for the sockets of one cgroup, in the running kernel.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paceline_kernel::agent::AgentLimits;
use paceline_kernel::{AGENT, Cgroup, KernelAgent, KernelAgentError, LoadError, Loaded, OPEN_WINDOW, Selection};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// The process is moved as a whole: a test at a time.
static TURN: Mutex<()> = Mutex::new(());

struct World {
    loaded: Loaded,
    selection: Selection,
    cgroup: Cgroup,
    _turn: MutexGuard<'static, ()>,
}

/// Everything for a test; where it cannot be had, says why the test is skipped.
fn world(test: &str) -> Option<World> {
    let skip = |reason: &dyn std::fmt::Display| {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
        None
    };
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = match OPEN_WINDOW.load_or_share() {
        Ok(loaded) => loaded,
        Err(error @ LoadError::Refused { .. }) => panic!("{error}"),
        Err(reason) => return skip(&reason),
    };
    let cgroup = match Cgroup::create() {
        Ok(cgroup) => cgroup,
        Err(reason) => return skip(&reason),
    };
    let selection = Selection::start(cgroup.open().unwrap().as_fd(), OPEN_WINDOW.name).unwrap();
    Some(World { loaded, selection, cgroup, _turn: turn })
}

fn controller(socket: &impl AsFd) -> String {
    let name = SockRef::from(socket).tcp_congestion().unwrap();
    String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
}

/// Both ends of a connection to a listener, and the listener.
fn connect(to: impl Into<SocketAddr>) -> [Socket; 3] {
    let listener = TcpListener::bind(to.into()).unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    near.write_all(b"x").unwrap();
    far.read_exact(&mut [0]).unwrap();
    [near.into(), far.into(), listener.into()]
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[test]
fn sockets_of_the_cgroup_have_it_and_no_others() {
    let Some(World { selection, cgroup, loaded, _turn }) = world("sockets_of_the_cgroup_have_it_and_no_others") else {
        return;
    };
    let default = controller(&connect(loopback())[0]);
    assert_ne!(default, OPEN_WINDOW.name);
    for to in [loopback(), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))] {
        for socket in cgroup.enter(|| connect(to)).unwrap() {
            assert_eq!(controller(&socket), OPEN_WINDOW.name, "{to}");
        }
        for socket in connect(to) {
            assert_eq!(controller(&socket), default, "{to}");
        }
    }
    assert_eq!(selection.refused(), 0);
    drop(selection);
    for socket in cgroup.enter(|| connect(loopback())).unwrap() {
        assert_eq!(controller(&socket), default);
    }
    drop(loaded);
}

#[test]
fn a_connection_takes_one_slot_of_the_agent() {
    let test = "a_connection_takes_one_slot_of_the_agent";
    let Some(World { cgroup, selection, loaded, _turn }) = world(test) else { return };
    drop((selection, loaded));
    let options = AgentLimits { slots: 4, ..AgentLimits::default() };
    let agent = match KernelAgent::start_with(options, |_| "reno".parse().ok()) {
        Ok(agent) => agent,
        Err(KernelAgentError::Load(reason @ LoadError::Loaded { .. })) => {
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let selection = Selection::start(cgroup.open().unwrap().as_fd(), AGENT.name).unwrap();
    // Two slots each.
    for _ in 0..8 {
        let ends = cgroup.enter(|| connect(loopback())).unwrap();
        assert_eq!(controller(&ends[0]), AGENT.name);
        for end in &ends[..2] {
            // Gone at once.
            end.set_linger(Some(Duration::ZERO)).unwrap();
        }
    }
    assert_eq!((selection.refused(), agent.figures().no_slot), (0, 0));
}

#[test]
fn what_a_program_selects_itself_stays() {
    let Some(World { selection, cgroup, loaded, _turn }) = world("what_a_program_selects_itself_stays") else { return };
    let [near, far, listener] = cgroup
        .enter(|| {
            let socket = || {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
                socket.set_tcp_congestion(b"reno").unwrap();
                socket
            };
            let listener = socket();
            listener.bind(&loopback().into()).unwrap();
            listener.listen(1).unwrap();
            let near = socket();
            near.connect(&listener.local_addr().unwrap()).unwrap();
            let far = listener.accept().unwrap().0;
            [near, far, listener]
        })
        .unwrap();
    for socket in [&near, &far, &listener] {
        assert_eq!(controller(socket), "reno", "{}", socket.as_raw_fd());
    }
    assert_eq!(selection.refused(), 0);
    drop(loaded);
}

#[test]
fn who_does_not_get_it_is_counted() {
    let Some(World { selection, cgroup, loaded, _turn }) = world("who_does_not_get_it_is_counted") else { return };
    let default = controller(&connect(loopback())[0]);
    drop(loaded);
    if OPEN_WINDOW.is_loaded() {
        let _ = writeln!(std::io::stderr(), "skipped: who_does_not_get_it_is_counted: another process has it loaded");
        return;
    }
    for socket in cgroup.enter(|| connect(loopback())).unwrap() {
        assert_eq!(controller(&socket), default);
    }
    // The one that listens, the one that connects, the one that is accepted.
    assert_eq!(selection.refused(), 3);
}

#[test]
fn a_cgroup_goes_and_what_runs_in_it_stays() {
    let Some(World { selection, cgroup, loaded, _turn }) = world("a_cgroup_goes_and_what_runs_in_it_stays") else {
        return;
    };
    let place = cgroup.place().to_owned();
    assert!(cgroup.processes().is_empty());
    let mut child = cgroup.enter(|| std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn());
    let child = child.as_mut().unwrap().as_mut().unwrap();
    assert_eq!(cgroup.processes(), [child.id().to_string()]);
    drop((selection, cgroup, loaded));
    assert!(!place.exists());
    assert_eq!(child.try_wait().unwrap(), None);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
