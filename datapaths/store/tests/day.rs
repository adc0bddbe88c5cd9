//! A day of a thousand receivers that come, go and ask for many objects, in virtual time: neither what the kernel has nor what the router has
//! grows, and who asks at its end is answered as at its beginning. `ICN_REQUESTS` makes it a longer one.
#![cfg(target_os = "linux")]

mod asking;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use asking::{Asking, SECRET, STORED, Whole, ends, had, head, settings};
use paceline_cc::{Rate, Time};
use paceline_fixture::frame::UdpEnds;
use paceline_icn::name::NameKind;
use paceline_icn::scheduler::WIRE_UNIT;
use paceline_icn::wire::{AddressToken, DATA_HEAD, MissingReason, PADDED, UnitAnswer, UnitRequest};
use paceline_icn::{Admission, Limits, Name, Ranges, Router, RouterConfig, Secrets, UNIT};
use paceline_linux::clock::monotonic;
use paceline_store::{FrameVerdict, KernelStore, KernelStoreSettings, PART_UNITS};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const RECEIVERS: usize = 1000;
const OBJECTS: f64 = 5000.0;
const HOURS: u64 = 24;
/// Requests that a receiver makes at once.
const ROW: u64 = 8;
/// When it begins, in seconds since 1970.
const BEGUN: u64 = 1_800_000_000;

struct Receiver {
    from: SocketAddr,
    token: Option<AddressToken>,
    name: Name,
    nonce: u64,
    next: u64,
}

/// The router over both ways, at a virtual time.
struct Day {
    kernel: KernelStore,
    limits: Arc<Limits>,
    router: Router,
    secrets: Secrets,
    admission: Admission,
    /// The monotonic clock when the router's was at zero, modulo 2^64: the difference wraps, as the program's does.
    origin: u64,
    units: u64,
    busy: u64,
    granted: u64,
}

impl Day {
    fn new(test: &str) -> Option<Self> {
        let kernel = had(test, KernelStore::load(4 << 20))?;
        kernel.answer_for(&["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()]).unwrap();
        // A source saves up less than a row.
        let config = RouterConfig {
            source_rate: Rate::from_mbps(1.0),
            source_depth: (ROW - 1) * WIRE_UNIT,
            ..RouterConfig::new(Rate::from_mbps(100.0))
        };
        let limits = Arc::new(Limits::within(&config, 99, kernel.buckets()));
        let router = Router::sharing(config, Secrets::new(&SECRET, BEGUN), 7, Arc::clone(&limits));
        let (secrets, admission) = (Secrets::new(&SECRET, BEGUN), Admission::new(3));
        Some(Self { kernel, limits, router, secrets, admission, origin: 0, units: 0, busy: 0, granted: 0 })
    }

    fn now(&self) -> Time {
        Time::from_nanos(monotonic().as_nanos().wrapping_sub(self.origin))
    }

    fn unix_s(&self) -> u64 {
        BEGUN + self.now().as_nanos() / 1_000_000_000
    }

    /// It is this long after the beginning, for the program too.
    fn turn_to(&mut self, seconds: u64) {
        let (real, ours) = (monotonic().as_nanos(), seconds * 1_000_000_000);
        self.origin = real.wrapping_sub(ours);
        let settings = KernelStoreSettings {
            keys: self.secrets.keys(self.unix_s()),
            unix_offset: Duration::from_secs(BEGUN + seconds) - Duration::from_nanos(real),
            origin: Duration::from_nanos(self.origin),
            ..settings(&self.limits)
        };
        self.kernel.set(&settings).unwrap();
    }

    /// The receiver's next request, and what comes of it.
    fn ask(&mut self, receiver: &mut Receiver) {
        let Receiver { from, token, name, nonce, next } = *receiver;
        let padded = if token.is_none() { PADDED } else { 0 };
        let request = UnitRequest { nonce, name, ranges: Ranges::one(next), token, hops: 0, padded };
        let asking = Asking { ends: ends(from), request };
        let mut answers = Vec::new();
        match self.kernel.judge(&asking.frame()).unwrap().0 {
            FrameVerdict::Answered(frame) => answers.push(UdpEnds::read(&frame).unwrap().1.to_vec()),
            FrameVerdict::Dropped => {}
            FrameVerdict::Passed => self.route(&asking, &mut answers),
        }
        for answer in answers {
            match UnitAnswer::decode(&answer).unwrap() {
                UnitAnswer::Data(head, bytes) => {
                    assert_eq!((head.nonce, head.unit, bytes.len()), (nonce, next, UNIT));
                    self.units += 1;
                    receiver.next += 1;
                }
                UnitAnswer::Nack(nack) => {
                    let reason = nack.reason;
                    assert!(matches!(reason, MissingReason::Busy | MissingReason::NoToken), "{reason:?}");
                    self.busy += u64::from(reason == MissingReason::Busy);
                }
                UnitAnswer::Grant(grant) => {
                    self.granted += 1;
                    receiver.token = Some(grant.token);
                }
            }
        }
    }

    /// Through the socket; what is asked for often goes to the kernel, as the router's threads see to it.
    fn route(&mut self, asking: &Asking, answers: &mut Vec<Vec<u8>>) {
        let (now, unix_s) = (self.now(), self.unix_s());
        self.router.on_datagram(now, unix_s, asking.ends.from, &asking.message(), &mut Whole, &mut |_, bytes| {
            answers.push(bytes.to_vec());
        });
        while let Some(burst) = self.router.poll(self.now()) {
            let mut answer = head(&burst, burst.units.first);
            answer.resize(DATA_HEAD + UNIT, 1);
            answers.push(answer);
            let part = burst.units.first / u64::from(PART_UNITS);
            if self.admission.missed(&burst.name, burst.nonce) && !self.kernel.has(&burst.name, part) {
                let units = u64::from(PART_UNITS).min(STORED - part * u64::from(PART_UNITS)) as usize;
                self.kernel.insert(&burst.name, part, STORED, &vec![1; units * UNIT]).unwrap();
            }
        }
        assert_eq!(self.router.queued(), 0);
    }

    /// So far: answered in the kernel, units in all, refused as busy, tokens, renewals, parts that made room.
    fn figures(&self) -> [u64; 6] {
        let counts = self.kernel.counts().unwrap();
        [counts.answered, self.units, self.busy, self.granted, counts.renewals, self.kernel.evicted()]
    }
}

fn name_of(number: u32) -> Name {
    let mut hash = [7; 32];
    hash[..4].copy_from_slice(&number.to_be_bytes());
    Name::new(NameKind::Object, hash)
}

/// Another one; a few objects are asked for by most.
fn comes(random: &mut Pcg64) -> Receiver {
    let host: u32 = random.random();
    let ip: IpAddr = match host % 4 {
        0 => Ipv6Addr::new(0x2001, 0xdb8, (host >> 16) as u16, host as u16, 0, 0, 0, 9).into(),
        _ => Ipv4Addr::from_bits(0x0a00_0000 | host >> 8).into(),
    };
    let drawn: f64 = random.random();
    let name = name_of((drawn * drawn * drawn * drawn * OBJECTS) as u32);
    Receiver { from: SocketAddr::new(ip, 40_000), token: None, name, nonce: random.random(), next: 0 }
}

/// Bytes of this process's own memory.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_day_of_a_thousand_receivers_leaves_nothing_behind() {
    let Some(mut day) = Day::new("a_day_of_a_thousand_receivers_leaves_nothing_behind") else { return };
    let requests: u64 = std::env::var("ICN_REQUESTS").ok().and_then(|number| number.parse().ok()).unwrap_or(40_000);
    let rows = requests / ROW / HOURS;
    let mut random = Pcg64::seed_from_u64(5);
    let mut receivers: Vec<Receiver> = (0..RECEIVERS).map(|_| comes(&mut random)).collect();
    let (room, tables) = (day.kernel.memory().1, day.router.memory());
    let (mut hours, mut bytes) = (Vec::new(), Vec::new());
    for hour in 0..HOURS {
        let before = day.figures();
        for row in 0..rows {
            day.turn_to(hour * 3600 + row * 3600 / rows);
            let who = random.random_range(0..RECEIVERS);
            if receivers[who].next + ROW > STORED || random.random_bool(0.05) {
                receivers[who] = comes(&mut random);
            }
            for _ in 0..ROW {
                day.ask(&mut receivers[who]);
            }
        }
        let now = day.figures();
        hours.push(std::array::from_fn::<u64, 6, _>(|which| now[which] - before[which]));
        bytes.push(memory());
        assert!(day.kernel.memory().0 <= room && day.kernel.memory().1 == room);
        assert_eq!(day.router.memory(), tables);
        println!("hour {}: {} bytes; {:?}", hour + 1, bytes[hour as usize], hours[hour as usize]);
    }
    // Tables are touched page by page: the queue's, and what was asked for once.
    let (first, last) = (bytes[0], bytes[HOURS as usize - 1]);
    assert!(last < first + (2 << 20), "{first} bytes, then {last}");
    // Answered in the kernel, and in all.
    for which in [0, 1] {
        let (last, all) = (hours[HOURS as usize - 1][which], hours[1..].iter().map(|hour| hour[which]).sum::<u64>());
        assert!(all > 0 && last * (HOURS - 1) > all / 2, "{last} in the last hour, {all} in all");
    }
    let [.., busy, granted, renewals, evicted] = day.figures();
    assert!(busy > 0 && granted > 0 && renewals > 0 && evicted > 0, "{:?}", day.figures());
}
