//! The kernel's own CUBIC and ours, call by call on the same sockets: windows and states are equal.
#![cfg(target_os = "linux")]

mod path;

use std::io::Write;
use std::time::Duration;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};
use path::{Link, beside, carry, load};

/// The programs that run both: the kernel's steers (`tests/bpf/cubic_pair.bpf.c`).
static PAIR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cubic_pair.bpf.o"));

/// `struct pair_counts`, in its order.
#[derive(Debug)]
struct Counts {
    acks: u64,
    samples: u64,
    reductions: u64,
    timeouts: u64,
    idles: u64,
    ticks: u64,
    avoiding: u64,
    curved: u64,
    as_reno: u64,
    hystart: u64,
    windows_differ: u64,
    states_differ: u64,
}

fn counts(object: &Object) -> Counts {
    let map = object.maps().find(|map| map.name() == "pair_counts").unwrap();
    let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
    let mut numbers = bytes.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()));
    let mut next = || numbers.next().unwrap();
    Counts {
        acks: next(),
        samples: next(),
        reductions: next(),
        timeouts: next(),
        idles: next(),
        ticks: next(),
        avoiding: next(),
        curved: next(),
        as_reno: next(),
        hystart: next(),
        windows_differ: next(),
        states_differ: next(),
    }
}

#[test]
fn the_kernels_cubic_and_ours_have_the_same_windows() {
    let test = "the_kernels_cubic_and_ours_have_the_same_windows";
    let Some(_held) = load(test, &["pl_cubic"]) else { return };
    if !Btf::from_vmlinux().is_ok_and(|btf| btf.type_by_name::<Func<'_>>("cubictcp_cong_avoid").is_some()) {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: the kernel's CUBIC is not built in");
        return;
    }
    let mut object = ObjectBuilder::default().open_memory(PAIR).unwrap().load().unwrap();
    let mut operations = object.maps_mut().find(|map| map.name() == "pl_test_pair").unwrap();
    let _link = operations.attach_struct_ops().unwrap();

    let link = |mbps, rtt_ms, queue, loss| Link { mbps, rtt_ms, queue, loss };
    let paths = [
        // A buffer of one BDP, a tenth and five of them; losses at random; silences, in which the curve stands still; a short
        // and a long path; one so slow that its flow times out.
        (link(20.0, 40, "droptail:bytes=100kB", 0.0), 5, 0),
        (link(20.0, 40, "droptail:bytes=10kB", 0.0), 4, 0),
        (link(20.0, 20, "droptail:bytes=250kB", 0.0), 4, 0),
        (link(20.0, 30, "droptail:bytes=100kB", 0.002), 5, 0),
        (link(20.0, 30, "droptail:bytes=100kB", 0.02), 4, 0),
        (link(20.0, 30, "droptail:bytes=50kB", 0.001), 6, 300),
        (link(50.0, 4, "droptail:bytes=50kB", 0.0), 4, 0),
        (link(20.0, 200, "droptail:bytes=200kB", 0.001), 6, 0),
        (link(0.5, 60, "droptail:packets=5", 0.25), 6, 0),
    ];
    beside(paths, |(link, seconds, pause_ms)| {
        let pause = Duration::from_millis(pause_ms);
        let span = Duration::from_secs(seconds);
        let outcome = carry("pl_test_pair", &link, span, pause, |_| ());
        let (mbps, most) = (outcome.mbps(span), outcome.looks.iter().map(|look| look.cwnd).max());
        let _ = writeln!(std::io::stderr(), "{link:?}: {mbps:.1} Mbit/s, window {most:?}");
    });
    let counts = counts(&object);
    assert_eq!((counts.windows_differ, counts.states_differ), (0, 0), "{counts:?}");
    // All that CUBIC does was done.
    assert!(counts.acks > 5000 && counts.samples > 5000, "{counts:?}");
    assert!(counts.avoiding > 1000 && counts.curved > 500 && counts.as_reno > 500, "{counts:?}");
    assert!(counts.reductions > 20 && counts.timeouts > 0, "{counts:?}");
    assert!(counts.idles > 0 && counts.hystart > 0 && counts.ticks < counts.acks, "{counts:?}");
}
