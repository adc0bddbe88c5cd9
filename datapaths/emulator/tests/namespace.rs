//! Namespaces apart from each other, and paths that reach into the namespace that was there before.
#![cfg(target_os = "linux")]

use std::any::Any;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use paceline_cc::Nanos;
use paceline_emulator::frame::{Frame, flow_key};
use paceline_emulator::world::{Between, EmulatedWorld, Far, Nodes, Wire, WorldError};
use paceline_emulator::{EmulatorTap, Passage, Site};
use paceline_experiment::{DumbbellWay, Graph, Way};
use paceline_linux::clock::{Clock, Lateness};
use paceline_linux::interface::{Interfaces, LOOPBACK};
use paceline_linux::listening;
use paceline_linux::namespace::{Namespace, needs_root};
use paceline_path::{Delay, Path};
use rustix::net::sockopt::tcp_congestion;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);

fn names(namespace: &Namespace) -> Vec<String> {
    namespace.enter(|| Interfaces::open().and_then(|open| open.names())).unwrap().unwrap()
}

fn between() -> Between {
    let path = || Path::<Frame>::new().delay(Delay::new(Nanos::from_millis(1)));
    Between { down: path(), up: path(), taps: Vec::new(), clock: Clock::new(), bound: Lateness::BOUND }
}

/// One datagram from near to far and back.
fn echo(world: &EmulatedWorld, to: IpAddr) {
    let far = world.far().namespace.enter(|| UdpSocket::bind(SocketAddr::new(to, 0))).unwrap().unwrap();
    let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let near = world.near().namespace.enter(|| UdpSocket::bind(SocketAddr::new(any, 0))).unwrap().unwrap();
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    near.send_to(b"there", far.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 16];
    let (length, from) = far.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"there");
    far.send_to(b"back", from).unwrap();
    assert_eq!(near.recv(&mut buffer).unwrap(), 4);
}

#[test]
fn a_namespace_has_nothing_but_its_loopback_and_forgets_earlier_flows() {
    if needs_root("a_namespace_has_nothing_but_its_loopback_and_forgets_earlier_flows") {
        return;
    }
    let namespace = Namespace::create().unwrap();
    assert_eq!(names(&namespace), [LOOPBACK]);
    let setting = || fs::read_to_string("/proc/sys/net/ipv4/tcp_no_metrics_save").unwrap();
    assert_eq!(namespace.enter(setting).unwrap().trim(), "1");
    assert!(!namespace.enter(listening::any).unwrap());
    let socket = namespace.enter(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    assert!(namespace.enter(listening::any).unwrap());
    let to = socket.local_addr().unwrap();
    assert_eq!(socket.send_to(b"x", to).unwrap(), 1, "the loopback interface is up");
}

#[test]
fn paths_beside_each_other_have_addresses_of_their_own() {
    if needs_root("paths_beside_each_other_have_addresses_of_their_own") {
        return;
    }
    // Stands for the machine.
    let machine = Namespace::create().unwrap();
    for wire in [Wire::Tun, Wire::Veth] {
        let build = || machine.enter(|| EmulatedWorld::build_over(wire, Far::Here, between())).unwrap().unwrap();
        let worlds = [build(), build()];
        assert_ne!(worlds[0].far().ipv4, worlds[1].far().ipv4);
        assert_ne!(worlds[0].far().interface, worlds[1].far().interface);
        for world in worlds {
            let name = world.far().interface.clone();
            assert!(names(&machine).contains(&name));
            echo(&world, world.far().ipv4.into());
            if let Some(address) = world.far().ipv6 {
                echo(&world, address.into());
            }
            world.stop().unwrap();
            assert!(!names(&machine).contains(&name));
        }
    }
}

#[test]
fn paths_go_four_deep() {
    if needs_root("paths_go_four_deep") {
        return;
    }
    let machine = Namespace::create().unwrap();
    let mut worlds: Vec<EmulatedWorld> = Vec::new();
    for _ in 0..4 {
        let outer = worlds.last().map_or(&machine, |world| &world.near().namespace);
        let world = outer.enter(|| EmulatedWorld::build(Far::Here, between())).unwrap().unwrap();
        worlds.push(world);
    }
    let (first, last) = (&worlds[0], &worlds[3]);
    // From the innermost end to the machine: a millisecond each, both ways.
    let far = machine.enter(|| UdpSocket::bind((first.far().ipv4, 0))).unwrap().unwrap();
    let near = last.near().namespace.enter(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    let clock = Clock::new();
    near.send_to(b"out", far.local_addr().unwrap()).unwrap();
    let (_, from) = far.recv_from(&mut [0; 16]).unwrap();
    assert!(clock.now().as_nanos() >= 4_000_000);
    assert_eq!(from.ip(), IpAddr::V4(last.near().ipv4), "no address is translated");
    let fifth = last.near().namespace.enter(|| EmulatedWorld::build(Far::Here, between())).unwrap();
    assert!(matches!(fifth, Err(WorldError::TooDeep)));
}

/// The network namespaces that this process holds.
fn held() -> Vec<String> {
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter_map(|link| link.to_str().filter(|link| link.starts_with("net:")).map(str::to_owned)).collect()
}

/// Counts datagrams that left a link, down and up: kernels have something to say of their own now and then.
#[derive(Default)]
struct Datagrams([[u64; 2]; 4]);

impl EmulatorTap for Datagrams {
    fn left(&mut self, passage: &Passage<'_>) {
        const UDP: u8 = 17;
        if flow_key(passage.bytes).is_some_and(|key| key.protocol == UDP) {
            self.0[passage.link][usize::from(passage.direction == DumbbellWay::Up)] += 1;
        }
    }
}

#[test]
fn nodes_in_between_forward_and_leave_nothing_behind() {
    if needs_root("nodes_in_between_forward_and_leave_nothing_behind") {
        return;
    }
    let mut graph = Graph::default();
    for (name, between) in [("1", ["a", "r"]), ("2", ["s", "r"]), ("3", ["s", "b"]), ("4", ["r", "c"])] {
        graph.link(name, between).unwrap();
    }
    for wire in [Wire::Tun, Wire::Veth] {
        let nodes = Nodes::make(wire, &graph).unwrap();
        let paths = graph.hops().iter().map(|_| Path::<Frame>::new().delay(Delay::new(Nanos::from_millis(2))));
        let clock = Clock::new();
        let network =
            nodes.join(paths.collect(), vec![Box::new(Datagrams::default())], clock, Lateness::BOUND).unwrap();
        let site = |name: &str| &network.sites()[graph.node(name).unwrap() as usize];
        let ours: Vec<String> = network
            .sites()
            .iter()
            .map(|site| fs::read_link(format!("/proc/self/fd/{}", site.namespace.as_fd().as_raw_fd())).unwrap())
            .map(|link| link.to_str().unwrap().to_owned())
            .collect();
        assert!(ours.iter().all(|name| held().contains(name)));
        let (a, b) = (site("a"), site("b"));
        let mut addresses: Vec<(IpAddr, IpAddr)> = vec![(a.ipv4.into(), b.ipv4.into())];
        addresses.extend(a.ipv6.zip(b.ipv6).map(|(a, b)| (a.into(), b.into())));
        for (from, to) in &addresses {
            let open = |site: &Site, at: IpAddr| {
                let socket = site.namespace.enter(|| UdpSocket::bind(SocketAddr::new(at, 0))).unwrap().unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket
            };
            let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
            let (near, far) = (open(a, any), open(b, *to));
            let begun = clock.now();
            near.send_to(&[7; 1400], far.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 1500];
            let (length, back) = far.recv_from(&mut buffer).unwrap();
            assert_eq!((length, back.ip()), (1400, *from));
            far.send_to(b"back", back).unwrap();
            assert_eq!(near.recv(&mut buffer).unwrap(), 4);
            // Three links of 2 ms, there and back.
            assert!(clock.now() - begun >= Nanos::from_millis(12));
        }
        let tap: Box<dyn Any> = network.stop().unwrap().taps.remove(0);
        let each = addresses.len() as u64;
        // The fourth link is on no way.
        assert_eq!(tap.downcast::<Datagrams>().unwrap().0, [[each; 2], [each; 2], [each; 2], [0; 2]]);
        assert!(held().iter().all(|name| !ours.contains(name)));
    }
}

/// The congestion control of both ends of a connection over TCP between these.
fn congestion([client, server]: [&Site; 2], to: IpAddr) -> [String; 2] {
    let listener = server.namespace.enter(|| TcpListener::bind((to, 0))).unwrap().unwrap();
    let at = listener.local_addr().unwrap();
    let connected = client.namespace.enter(|| TcpStream::connect_timeout(&at, PATIENCE)).unwrap().unwrap();
    let accepted = listener.accept().unwrap().0;
    [&connected, &accepted].map(|socket| tcp_congestion(socket).unwrap())
}

#[test]
fn hosts_of_their_own_reach_each_other_alone_and_over_the_path() {
    if needs_root("hosts_of_their_own_reach_each_other_alone_and_over_the_path") {
        return;
    }
    let mut graph = Graph::default();
    graph.link("1", ["a", "r"]).unwrap();
    graph.link("2", ["r", "b"]).unwrap();
    let node = |name: &str| graph.node(name).unwrap();
    let way = Way { from: node("a"), to: node("b") };
    for wire in [Wire::Tun, Wire::Veth] {
        let mut nodes = Nodes::make(wire, &graph).unwrap();
        let [source, target] = nodes.stubs(&graph, way, Some("reno")).unwrap();
        let [other, beside] = nodes.stubs(&graph, way, None).unwrap();
        let error = nodes.stubs(&graph, way, Some("nosuch")).map(drop).unwrap_err().to_string();
        assert!(error.contains("with the congestion control nosuch"), "{error}");
        let paths = graph.hops().iter().map(|_| Path::<Frame>::new().delay(Delay::new(Nanos::from_millis(2))));
        let clock = Clock::new();
        let network =
            nodes.join(paths.collect(), vec![Box::new(Datagrams::default())], clock, Lateness::BOUND).unwrap();
        let mut addresses: Vec<(IpAddr, IpAddr)> = vec![(source.ipv4.into(), target.ipv4.into())];
        addresses.extend(source.ipv6.zip(target.ipv6).map(|(source, target)| (source.into(), target.into())));
        for (from, to) in &addresses {
            let open = |site: &Site, at: IpAddr| {
                let socket = site.namespace.enter(|| UdpSocket::bind(SocketAddr::new(at, 0))).unwrap().unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket
            };
            let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
            let (near, far) = (open(&source, any), open(&target, *to));
            let begun = clock.now();
            near.send_to(&[7; 1400], far.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 1500];
            let (length, back) = far.recv_from(&mut buffer).unwrap();
            assert_eq!((length, back.ip()), (1400, *from), "no address is translated");
            far.send_to(b"back", back).unwrap();
            assert_eq!(near.recv(&mut buffer).unwrap(), 4);
            // Two links of 2 ms, there and back.
            assert!(clock.now() - begun >= Nanos::from_millis(8));
            assert!(open(&other, any).send_to(b"x", far.local_addr().unwrap()).is_err(), "it is not for others");
            assert_eq!(congestion([&source, &target], *to), ["reno", "reno"]);
        }
        let default = || fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
        let default = beside.namespace.enter(default).unwrap();
        assert_eq!(congestion([&other, &beside], beside.ipv4.into()), [default.trim(); 2]);
        let tap: Box<dyn Any> = network.stop().unwrap().taps.remove(0);
        let each = addresses.len() as u64;
        assert_eq!(tap.downcast::<Datagrams>().unwrap().0, [[each; 2], [each; 2], [0; 2], [0; 2]]);
    }
}

#[test]
fn a_setting_is_one_that_each_namespace_has() {
    if needs_root("a_setting_is_one_that_each_namespace_has") {
        return;
    }
    let site = Site {
        namespace: Namespace::create().unwrap(),
        interface: String::new(),
        ipv4: [10, 0, 0, 1].into(),
        ipv6: None,
    };
    site.set("net.ipv4.tcp_ecn", "0").unwrap();
    let ecn = || fs::read_to_string("/proc/sys/net/ipv4/tcp_ecn").unwrap();
    assert_eq!(site.namespace.enter(ecn).unwrap().trim(), "0");
    for odd in ["net", "kernel.pid_max", "net..ipv4", "net.ipv4./../../kernel/pid_max", "net.ipv4.nosuch"] {
        assert!(site.set(odd, "1").is_err(), "{odd}");
    }
}
