//! What the kernel says of an interface's egress queue, by rtnetlink.
//!
//! Source: rtnetlink(7); Linux include/uapi/linux/pkt_sched.h and gen_stats.h.

use std::fmt;
use std::io;

use paceline_linux::layout::{u32_at, u64_at};
use paceline_linux::netlink::{Netlink, Protocol, attribute, text};

/// The limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelQueueLimit {
    /// In packets.
    Packets(u32),
    /// In octets.
    Bytes(u64),
}

impl fmt::Display for KernelQueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Bytes(octets) => write!(f, "{octets} octets"),
        }
    }
}

/// An egress queue at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueueState {
    /// The queueing discipline at the root, such as `tbf`.
    pub kind: String,
    /// Its limit, where it is known: of `pfifo`, `bfifo`, `tbf`, `codel`, `fq_codel`, `fq`, `pie`, `netem` and `dualpi2`, and of `htb`,
    /// `hfsc`, `prio`, `drr` and `mq` with only such leaves.
    pub limit: Option<KernelQueueLimit>,
    /// Octets of the largest buffer of segmentation offload that is queued as a whole, where larger ones are cut into packets: `tbf`.
    pub whole: Option<u32>,
    /// Packets that wait.
    pub packets: u32,
    /// Octets that wait.
    pub bytes: u32,
    /// Packets dropped.
    pub drops: u32,
}

const RTM_GETQDISC: u16 = 38;
/// `struct tcmsg`.
const MESSAGE: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
const ROOT: u32 = u32::MAX;

/// One queueing discipline.
#[derive(Debug, PartialEq)]
struct Discipline {
    index: i32,
    handle: u32,
    parent: u32,
    state: QueueState,
}

/// The egress queue of interface number `index` in the calling thread's network namespace.
///
/// # Errors
/// What the system says; [`io::ErrorKind::NotFound`] where the interface has none.
pub fn queue(index: i32) -> io::Result<QueueState> {
    let disciplines = dump()?;
    whole(&disciplines, index).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn dump() -> io::Result<Vec<Discipline>> {
    let mut found = Vec::new();
    Netlink::open(Protocol::NetlinkRoute)?
        .dump(RTM_GETQDISC, &[0; MESSAGE], |message| found.extend(discipline(message)))?;
    Ok(found)
}

fn discipline(message: &[u8]) -> Option<Discipline> {
    let index = u32_at(message, 4)?.cast_signed();
    let (handle, parent) = (u32_at(message, 8)?, u32_at(message, 12)?);
    let attributes = message.get(MESSAGE..)?;
    let kind = text(attribute(attributes, TCA_KIND)?);
    let limit = attribute(attributes, TCA_OPTIONS).and_then(|options| limit(&kind, options));
    let whole = attribute(attributes, TCA_OPTIONS).filter(|_| kind == "tbf").and_then(burst);
    let counted = attribute(attributes, TCA_STATS2).and_then(|stats| attribute(stats, TCA_STATS_QUEUE));
    let counted = |at| counted.and_then(|queue| u32_at(queue, at)).unwrap_or(0);
    let state = QueueState { kind, limit, whole, packets: counted(0), bytes: counted(4), drops: counted(8) };
    Some(Discipline { index, handle, parent, state })
}

/// Where each kind has its limit.
fn limit(kind: &str, options: &[u8]) -> Option<KernelQueueLimit> {
    let packets = |attributes, wanted| u32_at(attribute(attributes, wanted)?, 0).map(KernelQueueLimit::Packets);
    match kind {
        // struct tc_fifo_qopt.
        "pfifo" | "pfifo_head_drop" => u32_at(options, 0).map(KernelQueueLimit::Packets),
        "bfifo" => u32_at(options, 0).map(|bytes| KernelQueueLimit::Bytes(bytes.into())),
        // TCA_TBF_PARMS, struct tc_tbf_qopt: two rates before it.
        "tbf" => u32_at(attribute(options, 1)?, 24).map(|bytes| KernelQueueLimit::Bytes(bytes.into())),
        // struct tc_netem_qopt.
        "netem" => u32_at(options, 4).map(KernelQueueLimit::Packets),
        // TCA_CODEL_LIMIT, TCA_FQ_CODEL_LIMIT, TCA_PIE_LIMIT.
        "codel" | "fq_codel" | "pie" => packets(options, 2),
        // TCA_FQ_PLIMIT, TCA_DUALPI2_LIMIT.
        "fq" | "dualpi2" => packets(options, 1),
        _ => None,
    }
}

/// Octets of a token bucket: in `struct tc_tbf_qopt` its rate in octets a second, and the time that it takes to fill in ticks of 64 ns
/// (Linux include/net/pkt_sched.h).
fn burst(options: &[u8]) -> Option<u32> {
    let parameters = attribute(options, 1)?;
    // TCA_TBF_RATE64, where the rate has more than 32 bits.
    let wide = attribute(options, 4).and_then(|rate| u64_at(rate, 0));
    let rate = wide.or_else(|| u32_at(parameters, 8).map(u64::from))?;
    let octets = u128::from(rate) * u128::from(u32_at(parameters, 28)?) * 64 / 1_000_000_000;
    Some(u32::try_from(octets).unwrap_or(u32::MAX))
}

/// The root's state, with its leaves' limits together where it has none itself.
fn whole(disciplines: &[Discipline], index: i32) -> Option<QueueState> {
    let here = || disciplines.iter().filter(|one| one.index == index);
    let root = here().find(|one| one.parent == ROOT)?;
    let mut state = root.state.clone();
    if !matches!(state.kind.as_str(), "htb" | "hfsc" | "prio" | "drr" | "mq") {
        return Some(state);
    }
    // The upper half of a number is the discipline, the lower one the class.
    let leaves = || here().filter(|one| one.parent != ROOT && (one.parent ^ root.handle) >> 16 == 0);
    state.limit = leaves().map(|leaf| leaf.state.limit).reduce(|sum, limit| match (sum?, limit?) {
        (KernelQueueLimit::Packets(a), KernelQueueLimit::Packets(b)) => {
            Some(KernelQueueLimit::Packets(a.saturating_add(b)))
        }
        (KernelQueueLimit::Bytes(a), KernelQueueLimit::Bytes(b)) => Some(KernelQueueLimit::Bytes(a.saturating_add(b))),
        _ => None,
    })?;
    if state.kind == "mq" {
        // It counts when it is asked, which is now, but not in every kernel.
        state.packets = leaves().map(|leaf| leaf.state.packets).sum();
        state.bytes = leaves().map(|leaf| leaf.state.bytes).sum();
        state.drops = leaves().map(|leaf| leaf.state.drops).sum();
    }
    Some(state)
}

#[cfg(test)]
mod tests {
    use paceline_linux::netlink::to_attribute;

    use super::*;

    fn message(index: i32, [handle, parent]: [u32; 2], kind: &str, options: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 4];
        for number in [index.cast_unsigned(), handle, parent, 0] {
            out.extend_from_slice(&number.to_ne_bytes());
        }
        out.extend(to_attribute(TCA_KIND, format!("{kind}\0").as_bytes()));
        out.extend(to_attribute(TCA_OPTIONS, options));
        let counted: Vec<u8> = [5_u32, 7000, 3].into_iter().flat_map(u32::to_ne_bytes).collect();
        out.extend(to_attribute(TCA_STATS2, &to_attribute(TCA_STATS_QUEUE, &counted)));
        out
    }

    #[test]
    fn a_tbf_says_its_limit_and_its_counts() {
        let mut options = [0; 36];
        options[24..28].copy_from_slice(&90_000_u32.to_ne_bytes());
        // 10 000 octets at 50 Mbit/s: 1.6 ms.
        options[8..12].copy_from_slice(&6_250_000_u32.to_ne_bytes());
        options[28..32].copy_from_slice(&25_000_u32.to_ne_bytes());
        let read = discipline(&message(4, [0x10_0000, ROOT], "tbf", &to_attribute(1, &options))).unwrap();
        let state = whole(&[read], 4).unwrap();
        assert_eq!((state.kind.as_str(), state.limit), ("tbf", Some(KernelQueueLimit::Bytes(90_000))));
        assert_eq!((state.packets, state.bytes, state.drops, state.whole), (5, 7000, 3, Some(10_000)));
    }

    #[test]
    fn leaves_are_added_up_where_all_are_known() {
        let leaf = |number: u32, kind, limit: u32| {
            discipline(&message(4, [number << 16, 0x1_0000 | number], kind, &limit.to_ne_bytes())).unwrap()
        };
        let root = || discipline(&message(4, [0x1_0000, ROOT], "htb", &[])).unwrap();
        let both = [root(), leaf(2, "bfifo", 1000), leaf(3, "bfifo", 500)];
        assert_eq!(whole(&both, 4).unwrap().limit, Some(KernelQueueLimit::Bytes(1500)));
        let other = [root(), leaf(2, "bfifo", 1000), leaf(3, "red", 500)];
        assert_eq!(whole(&other, 4).unwrap().limit, None);
        let mixed = [root(), leaf(2, "bfifo", 1000), leaf(3, "pfifo", 500)];
        assert_eq!(whole(&mixed, 4).unwrap().limit, None);
        assert_eq!(whole(&both, 5), None);
    }

    #[test]
    fn what_is_cut_off_is_nothing() {
        let whole = message(4, [1, ROOT], "pfifo", &100_u32.to_ne_bytes());
        for length in 0..whole.len() {
            let _ = discipline(&whole[..length]);
        }
        assert_eq!(discipline(&whole[..24]), None);
    }
}
