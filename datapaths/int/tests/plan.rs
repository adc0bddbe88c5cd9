//! What would change if a source were on, and that saying so changes nothing.
#![cfg(target_os = "linux")]

mod nodes;

use std::io::Write;
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::path::Path;

use nodes::{A, B, Chain, opened, run};
use paceline_int::{NodeError, SourceNode, SourceOptions, SourcePlan};
use paceline_telemetry::RecordProfile;

#[test]
fn nodes_cost_what_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/telemetry.md");
    let page = std::fs::read_to_string(page).unwrap();
    let row = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
        line.split('|').skip(2).take(3).map(|cell| cell.trim().parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    let costs = paceline_int::COSTS;
    assert_eq!(row("a packet, on the way"), costs.map(|cost| cost.packet_ns));
    assert_eq!(row("a buffer of segmentation offload, on the way"), costs.map(|cost| cost.buffer_ns));
}

/// What is at a's interface, and what passes it.
fn state(chain: &Chain) -> String {
    run(&chain.a, "tc filter show dev a0 egress")
        + &run(&chain.a, "tc qdisc show dev a0")
        + &run(&chain.a, "ip -6 route")
}

#[test]
fn a_plan_says_what_a_source_then_does_and_changes_nothing() {
    let test = "a_plan_says_what_a_source_then_does_and_changes_nothing";
    let Some(chain) = Chain::new(test) else { return };
    let before = state(&chain);
    let plan = |options: &SourceOptions| chain.a.enter(|| SourcePlan::of(B, options, &[1500, 576])).unwrap();
    // A connection that is older than the source, and two that its rules leave out.
    let listeners = [5201, 5202].map(|port| chain.b.enter(|| TcpListener::bind((B, port))).unwrap().unwrap());
    let streams = [5201, 5202].map(|port| chain.a.enter(|| TcpStream::connect((B, port))).unwrap().unwrap());
    let _accepted = listeners.each_ref().map(|listener| listener.accept().unwrap());
    let options = SourceOptions { ports: vec![5201], patience: None, ..SourceOptions::default() };
    let said = plan(&options).unwrap();
    assert_eq!((said.interface.as_str(), said.mtu, said.narrow, said.segment), ("a0", 1500, false, 1428));
    let lean = &said.profiles[0];
    assert_eq!((lean.profile, lean.octets, lean.largest, lean.segment), ("lean", 64, 120, Some(1308)));
    assert!((lean.shares[&1500] - 100.0 * 71.0 / 1500.0).abs() < 1e-9, "{lean:?}");
    assert!((lean.bulk_loss - 5.31).abs() < 0.01, "{lean:?}");
    assert_eq!(said.flows.len(), 2, "{said:?}");
    let [flow, other] = &said.flows[..] else { panic!("{said:?}") };
    assert_eq!((flow.tuple.src, flow.tuple.dport, flow.left_out_by, flow.fits), (A, 5201, None, false));
    assert_eq!((other.tuple.dport, other.left_out_by), (5202, Some("ports")));
    let text = said.to_string();
    for line in ["to fd77:2::1: leaves through a0, MTU 1500 (of the interface)", "    1 left out by --ports"] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
    let by =
        |options: &SourceOptions| plan(options).unwrap().flows.iter().map(|flow| flow.left_out_by).collect::<Vec<_>>();
    let elsewhere = SourceOptions { addresses: vec![(Ipv6Addr::LOCALHOST, 64)], ..SourceOptions::default() };
    assert_eq!(by(&elsewhere), [Some("addresses"); 2]);
    let near = SourceOptions { addresses: vec![("fd77:2::".parse().unwrap(), 32)], ..SourceOptions::default() };
    assert_eq!(by(&near), [None; 2]);
    assert_eq!(state(&chain), before);

    // As it says: the older connection's full packets go without, a new one's segments are as long as it says.
    let Some(source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
    (&streams[0]).write_all(&[0; 100_000]).unwrap();
    assert!(source.counters().too_big > 0, "{:?}", source.counters());
    let new = chain.a.enter(|| TcpStream::connect((B, 5201))).unwrap().unwrap();
    let port = new.local_addr().unwrap().port();
    let said = plan(&options).unwrap();
    let flow = said.flows.iter().find(|flow| flow.tuple.sport == port).unwrap();
    assert_eq!((Some(flow.segment), flow.fits), (said.profiles[0].segment, true));
    drop(source);

    // A narrower route, and none.
    run(&chain.a, "ip -6 route add fd77:2::1 via fd77:1::2 mtu 1400");
    let narrow = plan(&SourceOptions { profile: RecordProfile::Counted, full_every: 0, ..options.clone() }).unwrap();
    let counted = narrow.profiles.iter().find(|one| one.profile == "counted").unwrap();
    assert_eq!((narrow.mtu, narrow.narrow, counted.segment), (1400, true, Some(1400 - 72 - 72)));
    run(&chain.a, "ip -6 route del fd77:2::1");
    run(&chain.a, "ip -6 route del default");
    let none = plan(&options).unwrap_err();
    assert!(matches!(none, NodeError::NoRoute { .. }) && none.to_string().contains("fd77:2::1"), "{none}");
    assert!(plan(&SourceOptions { hops: 9, ..options }).unwrap_err().to_string().starts_with("hops: 9 hops"));
}

#[test]
fn flows_of_a_cgroup_are_told_from_others() {
    let test = "flows_of_a_cgroup_are_told_from_others";
    let Some(chain) = Chain::new(test) else { return };
    let listener = chain.b.enter(|| TcpListener::bind((B, 5201))).unwrap().unwrap();
    let _stream = chain.a.enter(|| TcpStream::connect((B, 5201))).unwrap().unwrap();
    let _accepted = listener.accept().unwrap();
    let root = Path::new("/sys/fs/cgroup");
    if !root.join("cgroup.controllers").exists() {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: cgroup v2 is not mounted at {}", root.display());
        return;
    }
    let of = |cgroup: &Path| {
        let options = SourceOptions { cgroup: Some(cgroup.to_owned()), ..SourceOptions::default() };
        chain.a.enter(|| SourcePlan::of(B, &options, &[])).unwrap()
    };
    assert_eq!(of(root).unwrap().flows[0].left_out_by, None);
    let other = root.join(format!("paceline-plan-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&other) {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {}: {error}", other.display());
        return;
    }
    let said = of(&other);
    std::fs::remove_dir(&other).unwrap();
    assert_eq!(said.unwrap().flows[0].left_out_by, Some("cgroup"));
    assert!(of(&other).unwrap_err().to_string().starts_with("cgroup: "));
}

#[test]
fn room_for_hops_of_a_plan_is_the_sources() {
    let test = "room_for_hops_of_a_plan_is_the_sources";
    let Some(chain) = Chain::new(test) else { return };
    let plan = |hops, full_every| {
        let options = SourceOptions { hops, full_every, ..SourceOptions::default() };
        chain.a.enter(|| SourcePlan::of(B, &options, &[1500])).unwrap().unwrap()
    };
    let five = plan(5, 0);
    let full = five.profiles.iter().find(|one| one.profile == "full").unwrap();
    assert_eq!((full.octets, full.segment), (240, Some(1188)));
    let ten = plan(10, 0);
    let fits: Vec<bool> = ten.profiles.iter().map(|one| one.segment.is_some()).collect();
    assert_eq!(
        ten.profiles.iter().map(|one| one.profile).collect::<Vec<_>>()[..4],
        ["lean", "timed", "counted", "full"]
    );
    assert_eq!(fits[..4], [true, false, true, false]);
}
