//! What can be loaded into the kernel: one row for each object under `src/bpf` that is a TCP congestion control.

use crate::needs::Need;

/// A TCP congestion control as an eBPF object.
#[derive(Debug)]
#[non_exhaustive]
pub struct Module {
    /// Its name for `TCP_CONGESTION`, at most 15 characters; the map of its operations has the same.
    pub name: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// What it can do, in a word or two each, such as `pacing` or `ECN`.
    pub abilities: &'static [&'static str],
    /// The oldest Linux that has what it needs, for people.
    pub since: &'static str,
    /// What it needs of the kernel beyond TCP controllers that end with a link.
    pub needs: &'static [Need],
    /// Why it must not be a namespace's default, if it must not.
    pub never_default: Option<&'static str>,
    /// The controller that it is, as contestants name it: `copa`; `None` where it is not one by itself.
    pub controller: Option<&'static str>,
    /// It uses ECN, so both ends have to agree on it.
    pub ecn: bool,
    /// The compiled programs.
    pub(crate) object: &'static [u8],
}

/// What most modules are; a row names what differs: `Module { name, summary, object, ..PLAIN }`.
const PLAIN: Module = Module {
    name: "",
    summary: "",
    abilities: &[],
    // Linux kernel/bpf/bpf_struct_ops.c: links of struct_ops came with 6.4.
    since: "6.4",
    needs: &[],
    never_default: None,
    controller: None,
    ecn: false,
    object: &[],
};

/// The object that `build.rs` makes of `src/bpf/NAME.bpf.c`.
macro_rules! object {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"))
    };
}

/// Keeps TCP's window large and constant and repairs losses as always, so that a controller above the socket (ALCC) alone
/// decides how much is in flight. Over it a loss costs the flow a repair and no window, which is what bounds ALCC over CUBIC
/// (ALCC, section 7).
///
/// Never make it a default: nothing but the application then limits what is in flight. It refuses (a socket that gets it as
/// its namespace's `net.ipv4.tcp_congestion_control` is given Reno).
pub const OPEN_WINDOW: &Module = &Module {
    name: paceline_cc::datapath::OPEN_WINDOW,
    summary: "a window that stays open at losses, below a controller of the application",
    abilities: &["open window"],
    never_default: Some("nothing but an application above it limits what is in flight"),
    object: object!("open_window"),
    ..PLAIN
};

/// CUBIC with HyStart, window by window as Linux has it (RFC 9438; Linux 6.18 `net/ipv4/tcp_cubic.c`). Losses are repaired and
/// marks answered by the kernel's proportional rate reduction, as for its own. What differs: HyStart can be switched off, for all
/// flows or one ([`crate::KernelHyStart`]).
pub const CUBIC: &Module = &Module {
    name: "pl_cubic",
    summary: "CUBIC as the kernel has it, with a switch for HyStart",
    abilities: &["window"],
    controller: Some("cubic"),
    object: object!("cubic"),
    ..PLAIN
};

/// DCTCP, both halves (RFC 8257; Linux 6.18 `net/ipv4/tcp_dctcp.c`): shrinks by half the share of marked packets, and echoes
/// exactly which were. For paths that mark at a shallow step. The sockets of both ends must select it before they connect or
/// listen; where ECN is not agreed on, the flow is Reno's.
pub const DCTCP: &Module = &Module {
    name: "pl_dctcp",
    summary: "DCTCP, sender and receiver, for paths that mark at a shallow step",
    abilities: &["window", "ECN"],
    controller: Some("dctcp"),
    ecn: true,
    object: object!("dctcp"),
    ..PLAIN
};

/// Copa with its default parameters, in fixed point (Arun and Balakrishnan, NSDI 2018; `core/cc/src/copa.rs`): aims at the rate
/// 1/(delta x queueing delay), competes where others fill the buffer. Paced by the socket's own timers.
pub const COPA: &Module = &Module {
    name: "pl_copa",
    summary: "Copa: a short queue, and competition where others fill the buffer",
    abilities: &["window", "pacing"],
    controller: Some("copa"),
    object: object!("copa"),
    ..PLAIN
};

/// Steered from user space by a [`KernelAgent`](crate::KernelAgent), which loads it and decides which flows run which controller. What no
/// agent steers is CUBIC.
pub const AGENT: &Module = &Module {
    name: "paceline",
    summary: "any controller of paceline in user space, by an agent; CUBIC without one",
    abilities: &["any controller", "pacing", "fallback"],
    object: object!("agent"),
    ..PLAIN
};

/// Paced chirping, ours (`start=chirp`), and then DCTCP: a flow finds the free capacity by trains of ever closer packets
/// (docs/design/paced-chirping.md).
pub const CHIRP: &Module = &Module {
    name: "pl_chirp",
    summary: "paced chirping, ours, then DCTCP: up to speed with a queue of a few packets",
    abilities: &["chirps", "pacing", "ECN"],
    controller: Some("dctcp:start=chirp"),
    ecn: true,
    object: object!("chirp"),
    ..PLAIN
};

/// Paced chirping as the newest kernel branch of its authors has it (`start=chirp-r`), and then DCTCP.
pub const CHIRP_R: &Module = &Module {
    name: "pl_chirp_r",
    summary: "paced chirping, the newest kernel branch, then DCTCP",
    abilities: &["chirps", "pacing", "ECN"],
    controller: Some("dctcp:start=chirp-r"),
    ecn: true,
    object: object!("chirp"),
    ..PLAIN
};

/// As [`CHIRP`], and then the kernel's CUBIC: the socket's controller is `cubic` from there on.
pub const CHIRP_CUBIC: &Module = &Module {
    name: "pl_chirp_cubic",
    summary: "paced chirping, ours, then the kernel's CUBIC",
    abilities: &["chirps", "pacing"],
    controller: Some("cubic:start=chirp"),
    object: object!("chirp"),
    ..PLAIN
};

/// CUBIC that keeps its window where in-band telemetry says that the medium lost the packets (Bhat et al.: L1). What is known of
/// a flow comes as a record (`paceline_telemetry::PathRecord`); a flow without one is that of [`CUBIC`].
pub const CUBIC_L1: &Module = &Module {
    name: "pl_cubic_l1",
    summary: "CUBIC that keeps its window where telemetry says that the medium lost the packets",
    controller: Some("cubic-l1"),
    ..WITH_TELEMETRY
};

/// As [`CUBIC_L1`], and grows at such a loss by a quarter where the bottleneck has room.
pub const CUBIC_L1G: &Module = &Module {
    name: "pl_cubic_l1g",
    summary: "as pl_cubic_l1, and grows at such a loss where the bottleneck has room",
    controller: Some("cubic-l1g"),
    ..WITH_TELEMETRY
};

/// As [`CUBIC_L1`], and takes 5 % off (Bhat et al.: L2).
pub const CUBIC_L2: &Module = &Module {
    name: "pl_cubic_l2",
    summary: "as pl_cubic_l1, and takes 5 % off its window at such a loss",
    controller: Some("cubic-l2"),
    ..WITH_TELEMETRY
};

/// CUBIC whose slow start grows by the room that the bottleneck reports (Bhat et al.: equation (1), increment 1), without HyStart.
/// A flow without a record (`paceline_telemetry::PathRecord`) has slow start.
pub const CUBIC_EQ1: &Module = &Module {
    name: "pl_cubic_eq1",
    summary: "CUBIC that starts by the room of the bottleneck's queue: equation (1), increment 1",
    controller: Some("cubic:eq1=1"),
    ..WITH_TELEMETRY
};

/// [`CUBIC_EQ1`] with the increment 2.
pub const CUBIC_EQ2: &Module = &Module {
    name: "pl_cubic_eq2",
    summary: "as pl_cubic_eq1, with increment 2",
    controller: Some("cubic:eq1=2"),
    ..WITH_TELEMETRY
};

/// [`CUBIC_EQ1`] with the increment 3.
pub const CUBIC_EQ3: &Module = &Module {
    name: "pl_cubic_eq3",
    summary: "as pl_cubic_eq1, with increment 3",
    controller: Some("cubic:eq1=3"),
    ..WITH_TELEMETRY
};

/// What the modules of `src/bpf/cubic_telemetry.bpf.c` are.
const WITH_TELEMETRY: Module =
    Module { abilities: &["window", "telemetry"], object: object!("cubic_telemetry"), ..PLAIN };

/// Every module, in the order of lists.
pub const MODULES: &[&Module] = &[
    OPEN_WINDOW,
    CUBIC,
    CUBIC_L1,
    CUBIC_L1G,
    CUBIC_L2,
    CUBIC_EQ1,
    CUBIC_EQ2,
    CUBIC_EQ3,
    DCTCP,
    COPA,
    CHIRP,
    CHIRP_R,
    CHIRP_CUBIC,
    AGENT,
];

/// The module of that name.
pub fn module(name: &str) -> Option<&'static Module> {
    MODULES.iter().copied().find(|module| module.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_into_the_kernel_and_is_given_once() {
        for module in MODULES {
            // TCP_CA_NAME_MAX, with the zero byte at the end.
            assert!((1..16).contains(&module.name.len()), "{}", module.name);
            assert_eq!(MODULES.iter().filter(|other| other.name == module.name).count(), 1, "{}", module.name);
            assert!(!module.abilities.is_empty() && !module.summary.is_empty(), "{}", module.name);
        }
    }

    #[test]
    fn controllers_are_written_as_contestants_write_them() {
        for controller in MODULES.iter().filter_map(|module| module.controller) {
            assert_eq!(controller.parse::<paceline_cc::Spec>().unwrap().to_string(), controller);
        }
    }
}
