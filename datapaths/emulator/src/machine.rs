//! What this machine is and allows, and what that means for each feature of paceline.

mod loading;

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::Nanos;

use crate::port::{PacketSocket, Tun};
use paceline_linux::clock::{Clock, Lateness};
use paceline_linux::interface::Interfaces;
use paceline_linux::namespace::{Namespace, NamespaceError, Privilege, acquire};
use paceline_linux::release::release;
use paceline_linux::sockopt::{UdpGsoSegment, setsockopt};
use paceline_linux::tcp::controllers;
use paceline_linux::thread::{go_first, set_timer_slack};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

pub use loading::loading;

/// Something that was found out about the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is about.
    pub name: &'static str,
    /// What was found.
    pub value: String,
}

/// How a feature does on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// As documented.
    Works(String),
    /// In another way, at a price.
    FallsBack(String),
    /// Not at all, for this reason.
    No(String),
}

/// A feature of paceline on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// How it does.
    pub verdict: Fitness,
}

/// All that was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkup {
    /// The machine.
    pub facts: Vec<Fact>,
    /// What emulated paths need.
    pub emulation: Vec<Feature>,
    /// Everything else that is not simulated.
    pub others: Vec<Feature>,
}

/// Wake-ups that are timed, a millisecond each.
const WAKE_UPS: u32 = 200;
/// With less idle processor time than this an emulator is disturbed (our choice: half a core).
const SPARE_CORES: f64 = 0.5;

/// Examines the machine; takes about a fifth of a second. Moves the process into a user namespace when it is not root,
/// so it comes before any other thread.
pub fn examine() -> Checkup {
    let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let sysctl = |name: &str| read(&format!("/proc/sys/{name}")).unwrap_or_else(|| "not there".to_owned());
    let busy_before = processor_time();
    let lateness = wake_ups();
    let spare = spare_cores(busy_before, processor_time());
    let scheduling = thread::spawn(go_first).join().map_or_else(|_| "unknown".to_owned(), |found| found.to_string());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let segments = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(io::Error::from)
        .and_then(|udp| setsockopt(&udp, UdpGsoSegment, &1400));
    let available = controllers();
    let clock = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    let bpf = sysctl("kernel/unprivileged_bpf_disabled");
    let default_controller = sysctl("net/ipv4/tcp_congestion_control");
    let ecn = ecn_text(&sysctl("net/ipv4/tcp_ecn"), &sysctl("net/ipv4/tcp_ecn_fallback"));
    // From here on the process may be in a user namespace.
    let acquired = acquire();
    let tun = inside(|| Tun::create("check").map(drop).map_err(NoInterface::Tun));
    let veth = inside(veth);
    let ipv6 = Path::new("/proc/sys/net/ipv6").exists();
    let state = |result: &Result<(), NoInterface>| match result {
        Ok(()) => "works".to_owned(),
        Err(reason) => reason.to_string(),
    };
    let facts = vec![
        fact("kernel", release()),
        fact("cores", cores.to_string()),
        fact("spare CPU", format!("{spare:.1} cores idle")),
        fact("clock source", clock.clone().unwrap_or_else(|| "unknown".to_owned())),
        fact(
            "timers",
            format!(
                "a sleep ends {} late at p50, {} at p99, {} at most",
                lateness.p50(),
                lateness.p99(),
                lateness.max()
            ),
        ),
        fact("priority", scheduling),
        fact("namespaces", namespaces_text(&acquired)),
        fact("TUN devices", state(&tun)),
        fact("veth pairs", state(&veth)),
        fact("IPv6", if ipv6 { "yes" } else { "no" }.to_owned()),
        fact("UDP segmentation offload", segments.as_ref().map_or_else(io::Error::to_string, |()| "works".to_owned())),
        fact("TCP congestion control", format!("{default_controller}; available: {}", available.join(" "))),
        fact("TCP ECN", ecn),
        fact("eBPF", bpf_text(btf, &bpf)),
    ];
    let emulate = emulate(&acquired, &tun, &veth);
    let emulation = vec![
        feature("emulate", emulate.clone()),
        feature("precise release", precise(&lateness, spare, cores, clock.as_deref())),
        feature("IPv6 behind a path", if ipv6 { works("yes") } else { no("the kernel has no IPv6 (ipv6.disable=1?)") }),
    ];
    let mut others = vec![
        feature("simulation", works("it needs nothing")),
        feature("race --real", race(&emulate)),
        feature(
            "serve, send, fetch",
            match segments {
                Ok(()) => works("with segmentation offload"),
                Err(_) => falls_back("a system call a packet or a batch, without segmentation offload"),
            },
        ),
    ];
    others.extend([("cubic@tcp", "cubic"), ("bbr@tcp", "bbr"), ("reno@tcp", "reno")].map(|(name, controller)| {
        let known = available.iter().any(|known| known == controller);
        feature(
            name,
            if known {
                works("in the kernel")
            } else {
                no(&format!("the kernel has no {controller}; as root: modprobe tcp_{controller}"))
            },
        )
    }));
    Checkup { facts, emulation, others }
}

fn fact(name: &'static str, value: String) -> Fact {
    Fact { name, value }
}

fn feature(name: &'static str, verdict: Fitness) -> Feature {
    Feature { name, verdict }
}

fn works(how: &str) -> Fitness {
    Fitness::Works(how.to_owned())
}

fn falls_back(to: &str) -> Fitness {
    Fitness::FallsBack(to.to_owned())
}

fn no(reason: &str) -> Fitness {
    Fitness::No(reason.to_owned())
}

/// Why an interface cannot be had here.
#[derive(Debug, thiserror::Error)]
enum NoInterface {
    #[error(transparent)]
    Tun(io::Error),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}

/// Something tried in a namespace of its own.
fn inside(work: impl FnOnce() -> Result<(), NoInterface> + Send) -> Result<(), NoInterface> {
    Namespace::create()?.enter(work)?
}

fn veth() -> Result<(), NoInterface> {
    let hub = Namespace::create()?;
    Interfaces::open()?.veth("check", None, "hub", &hub)?;
    let opened = hub.enter(|| PacketSocket::open("hub").map(drop))?;
    Ok(opened.map_err(|error| NamespaceError::system("open a packet socket", error))?)
}

fn namespaces_text(acquired: &Result<Privilege, NamespaceError>) -> String {
    match acquired {
        Ok(Privilege::UserNamespace) => "in a user namespace".to_owned(),
        Ok(_) => "as root".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn emulate(
    acquired: &Result<Privilege, NamespaceError>,
    tun: &Result<(), NoInterface>,
    veth: &Result<(), NoInterface>,
) -> Fitness {
    match (acquired, tun, veth) {
        (Err(error), ..) => no(&error.to_string()),
        (_, Err(tun), Err(veth)) => {
            no(&format!("no TUN device ({tun}), no veth pair ({veth}); load the module tun or veth"))
        }
        (Ok(Privilege::UserNamespace), ..) => {
            falls_back("a world of its own with --far; root is needed to reach this machine through the path")
        }
        (_, Ok(()), Err(veth)) => {
            falls_back(&format!("TUN devices, which report no arrival times, since there is no veth pair ({veth})"))
        }
        _ => works("this machine is reached through the path"),
    }
}

/// A race has namespaces of its own for both ends: what falls back for a single program does not for it.
fn race(emulate: &Fitness) -> Fitness {
    match emulate {
        Fitness::No(_) => emulate.clone(),
        _ => works("in namespaces of its own"),
    }
}

fn precise(lateness: &Lateness, spare: f64, cores: usize, clock: Option<&str>) -> Fitness {
    if let Some(slow @ ("hpet" | "acpi_pm")) = clock {
        return falls_back(&format!("the clock source {slow} takes microseconds to read; tsc or kvm-clock is wanted"));
    }
    if cores < 2 {
        return falls_back("a single core is shared with the programs behind the path; two are wanted");
    }
    if spare < SPARE_CORES {
        return falls_back(&format!("only {spare:.1} cores are idle now; end other work before measuring"));
    }
    if lateness.p99() > lateness.bound() {
        return falls_back(&format!("sleeps end {} late at p99; results may not be trusted", lateness.p99()));
    }
    works("each result says how late packets were released")
}

/// How late short sleeps end.
fn wake_ups() -> Lateness {
    let measured = thread::spawn(|| {
        // Of this thread alone.
        set_timer_slack(1);
        let clock = Clock::new();
        let mut lateness = Lateness::new(Lateness::BOUND);
        for _ in 0..WAKE_UPS {
            let due = clock.now() + Nanos::from_millis(1);
            thread::sleep(Duration::from_millis(1));
            lateness.record(due, clock.now());
        }
        lateness
    });
    measured.join().unwrap_or_else(|_| Lateness::new(Lateness::BOUND))
}

/// Idle ticks of all processors, and when.
fn processor_time() -> (u64, Instant) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    // user, nice, system, idle, iowait.
    let ticks = |row: &str| row.split_whitespace().skip(4).take(2).filter_map(|tick| tick.parse::<u64>().ok()).sum();
    (stat.lines().next().map_or(0, ticks), Instant::now())
}

fn spare_cores(before: (u64, Instant), after: (u64, Instant)) -> f64 {
    /// USER_HZ, which is 100 on every architecture that Rust knows.
    const TICKS: f64 = 100.0;
    let seconds = (after.1 - before.1).as_secs_f64().max(1e-3);
    after.0.saturating_sub(before.0) as f64 / TICKS / seconds
}

/// ip-sysctl: tcp_ecn.
fn ecn_text(setting: &str, fallback: &str) -> String {
    let meaning = match setting {
        "0" => "never",
        "1" => "asked for and granted",
        "2" => "granted, not asked for",
        "3" => "AccECN granted, not asked for",
        "4" => "AccECN asked for and granted",
        "5" => "AccECN granted, classic asked for",
        _ => "unknown",
    };
    format!("tcp_ecn = {setting} ({meaning}), tcp_ecn_fallback = {fallback}")
}

fn bpf_text(btf: bool, unprivileged: &str) -> String {
    let types = if btf { "type information is there (BTF)" } else { "no type information (CONFIG_DEBUG_INFO_BTF)" };
    let who = if unprivileged == "0" { "open to all users" } else { "root alone may load programs" };
    format!("{types}; {who}")
}
