//! What the module says of a flow: `struct report` and `struct greeting` of `agent.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use paceline_cc::{Nanos, Phase, Time};
use paceline_linux::layout::{u16_at, u32_at, u64_at};
use paceline_transport::{Counters, FlowLimit, Samples};

/// Bytes of `struct report`.
const REPORT: usize = 112;
/// Bytes of `struct greeting`.
const GREETING: usize = 160;
/// `AF_INET6`.
const INET6: u16 = 10;

/// What a report is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    New,
    State,
    Closed,
}

/// A report as it came. Times are in microseconds of the monotonic clock; positions and counters wrap around.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) kind: Kind,
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) at: u64,
    first_sent: u64,
    last_sent: u64,
    state: u8,
    flags: u8,
    backoff: u8,
    mss: u32,
    una: u32,
    next: u32,
    written: u32,
    highest: u32,
    sacked: u32,
    in_flight: u32,
    pub(super) delivered: u32,
    marked: u32,
    lost: u32,
    resent: u32,
    recoveries: u32,
    echoes: u32,
    timeouts: u32,
    undone: u32,
    rtt: u32,
    rtt_least: u32,
    srtt: u32,
}

/// A TCP flow that has selected the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedFlow {
    /// Its own end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The inode of its network namespace (`/proc/PID/ns/net`).
    pub namespace: u32,
}

impl Report {
    /// Reads one from the ring.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < REPORT {
            return None;
        }
        let kind = match bytes[32] {
            1 => Kind::New,
            2 => Kind::State,
            3 => Kind::Closed,
            _ => return None,
        };
        let field = |number: usize| u32_at(bytes, 36 + 4 * number);
        Some(Self {
            kind,
            at: u64_at(bytes, 0)?,
            first_sent: u64_at(bytes, 8)?,
            last_sent: u64_at(bytes, 16)?,
            slot: u32_at(bytes, 24)?,
            generation: u32_at(bytes, 28)?,
            state: bytes[33],
            flags: bytes[34],
            backoff: bytes[35],
            mss: field(0)?,
            una: field(1)?,
            next: field(2)?,
            written: field(3)?,
            highest: field(4)?,
            sacked: field(5)?,
            in_flight: field(6)?,
            delivered: field(7)?,
            marked: field(8)?,
            lost: field(9)?,
            resent: field(10)?,
            recoveries: field(11)?,
            echoes: field(12)?,
            timeouts: field(13)?,
            undone: field(14)?,
            rtt: field(15)?,
            rtt_least: field(16)?,
            srtt: field(17)?,
        })
    }

    /// Recoveries, echoes and timeouts.
    pub(super) fn episodes(&self) -> u32 {
        self.recoveries.wrapping_add(self.echoes).wrapping_add(self.timeouts)
    }

    /// When it was, by the clock of the kernel.
    pub(super) fn time(&self) -> Time {
        micros(self.at)
    }

    /// The counters that follow `before`, which this flow had at its last report; `None` for its first.
    pub(super) fn counters(&self, before: Option<&Counters>) -> Counters {
        // A counter moves by less than half of its range between two reports.
        let on = |before: u64, now: u32| {
            before + u64::from(now.wrapping_sub(before as u32).cast_signed().max(0).cast_unsigned())
        };
        let from = |of: fn(&Counters) -> u64, now: u32| before.map_or(u64::from(now), |before| on(of(before), now));
        let ahead = |position: u32| u64::from(position.wrapping_sub(self.una).cast_signed().max(0).cast_unsigned());
        let una = from(|before| before.una, self.una);
        let next = una + ahead(self.next);
        let timeouts = from(|before| before.timeouts, self.timeouts);
        let fired = before.is_some_and(|before| timeouts > before.timeouts);
        let micros_of = |span: u32| Nanos::from_micros(u64::from(span));
        let mut now = Counters::start(self.mss);
        now.at = self.time();
        now.una = una;
        now.next = next;
        now.highest = if self.sacked > 0 { una + ahead(self.highest) } else { una };
        now.ahead = self.sacked;
        now.in_flight = self.in_flight;
        now.unsent = u64::from(self.written.wrapping_sub(self.next).cast_signed().max(0).cast_unsigned());
        now.lost = from(|before| before.lost, self.lost);
        now.resent = from(|before| before.resent, self.resent);
        now.marked = from(|before| before.marked, self.marked);
        now.recoveries = from(|before| before.recoveries, self.recoveries);
        now.echoes = from(|before| before.echoes, self.echoes);
        now.timeouts = timeouts;
        // Linux counts a timeout after it has said so (tcp_retransmit_timer).
        now.backoff = u32::from(self.backoff) + u32::from(fired);
        now.undone = from(|before| before.undone, self.undone);
        now.rtt = (self.rtt > 0)
            .then(|| Samples { newest: micros_of(self.rtt), least: micros_of(self.rtt_least.min(self.rtt)) });
        now.srtt = (self.srtt > 0).then(|| micros_of(self.srtt));
        now.departures = (self.first_sent > 0).then(|| (micros(self.first_sent), micros(self.last_sent)));
        now.phase = match self.state {
            2 => Phase::Cwr,
            3 => Phase::Recovery,
            4 => Phase::Loss,
            _ => Phase::Open,
        };
        now.limit = match self.flags {
            1 => FlowLimit::Window,
            2 => FlowLimit::Application,
            _ => FlowLimit::Unknown,
        };
        now
    }
}

fn micros(micros: u64) -> Time {
    Time::from_nanos(micros.saturating_mul(1000))
}

impl SelectedFlow {
    /// Reads the ends from a greeting.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < GREETING {
            return None;
        }
        let bytes = &bytes[REPORT..];
        let family = u16_at(bytes, 0)?;
        let end = |offset: usize, port: usize| {
            let address: [u8; 16] = bytes.get(offset..offset + 16)?.try_into().ok()?;
            let [a, b, c, d, ..] = address;
            let address = if family == INET6 {
                IpAddr::from(Ipv6Addr::from(address)).to_canonical()
            } else {
                IpAddr::from(Ipv4Addr::new(a, b, c, d))
            };
            Some(SocketAddr::new(address, u16_at(bytes, port)?))
        };
        Some(Self { local: end(12, 2)?, remote: end(28, 4)?, namespace: u32_at(bytes, 8)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> [u8; GREETING] {
        let mut bytes = [0; GREETING];
        bytes[0..8].copy_from_slice(&5_000_u64.to_ne_bytes());
        bytes[24..28].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[28..32].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[32] = 1;
        bytes[33] = 3;
        for (number, value) in [1448, u32::MAX - 999, 1448, 4344, 900, 2].into_iter().enumerate() {
            bytes[36 + 4 * number..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes[112..114].copy_from_slice(&2_u16.to_ne_bytes());
        bytes[114..116].copy_from_slice(&1234_u16.to_ne_bytes());
        bytes[116..118].copy_from_slice(&80_u16.to_ne_bytes());
        bytes[120..124].copy_from_slice(&99_u32.to_ne_bytes());
        bytes[124..128].copy_from_slice(&[10, 0, 0, 1]);
        bytes[140..144].copy_from_slice(&[10, 0, 0, 2]);
        bytes
    }

    #[test]
    fn a_greeting_is_read() {
        let flow = SelectedFlow::read(&bytes()).unwrap();
        assert_eq!(flow.local, "10.0.0.1:1234".parse().unwrap());
        assert_eq!(flow.remote, "10.0.0.2:80".parse().unwrap());
        assert_eq!(flow.namespace, 99);
        let mut six = bytes();
        six[112] = 10;
        six[124..140].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        assert_eq!(SelectedFlow::read(&six).unwrap().local, "[::1]:1234".parse().unwrap());
        let report = Report::read(&bytes()).unwrap();
        assert_eq!((report.kind, report.slot, report.generation, report.at), (Kind::New, 7, 3, 5000));
        assert!(Report::read(&bytes()[..111]).is_none() && SelectedFlow::read(&bytes()[..159]).is_none());
        let mut odd = bytes();
        odd[32] = 9;
        assert!(Report::read(&odd).is_none());
    }

    #[test]
    fn positions_and_counters_go_on_past_their_range() {
        let report = Report::read(&bytes()).unwrap();
        let first = report.counters(None);
        assert_eq!((first.una, first.next - first.una), (u64::from(u32::MAX) - 999, 2448));
        assert_eq!((first.unsent, first.highest - first.una, first.phase), (2896, 1900, Phase::Recovery));
        let later = Report { una: 500, next: 600, sacked: 0, ..report }.counters(Some(&first));
        assert_eq!((later.una - first.una, later.next - later.una, later.highest), (1500, 100, later.una));
        // A report from before is not a step of four billion.
        let before = Report { una: u32::MAX - 1999, ..report }.counters(Some(&first));
        assert_eq!(before.una, first.una);
        let fired = Report { timeouts: 1, ..report }.counters(Some(&first));
        assert_eq!((first.backoff, fired.backoff, fired.timeouts), (0, 1, 1));
    }
}
