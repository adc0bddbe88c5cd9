//! Requests, and a store and a router that both have the units that they are for.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use paceline_cc::{Rate, Time};
use paceline_fixture::frame::UdpEnds;
use paceline_icn::name::NameKind;
use paceline_icn::wire::{AddressToken, UnitHead, UnitRequest};
use paceline_icn::{Burst, Found, Limits, Name, Ranges, Router, RouterConfig, Secrets, Shelf, UNIT, Units};
use paceline_linux::clock::{monotonic, unix};
use paceline_store::{FrameVerdict, KernelStore, KernelStoreError, KernelStoreSettings, PART_UNITS};

pub(crate) const SECRET: [u8; 32] = [5; 32];
pub(crate) const PORT: u16 = 4871;
/// Of the router, on the link.
pub(crate) const LINK: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Units of each object; all are whole.
pub(crate) const STORED: u64 = 100;

/// Where it cannot be had at all, says why the test is skipped.
pub(crate) fn had<T>(test: &str, result: Result<T, KernelStoreError>) -> Option<T> {
    match result {
        Ok(had) => Some(had),
        Err(reason @ (KernelStoreError::NotRoot | KernelStoreError::NoBtf | KernelStoreError::NoBarrier(_))) => {
            // Not by a macro, whose output is not shown for tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn name(number: u8) -> Name {
    Name::new(NameKind::Object, [number; 32])
}

/// A unit of an object; each is another, and so is each eight bytes of it.
pub(crate) fn unit(of: &Name, number: u64) -> Vec<u8> {
    let word = |index: u64| u64::from(of.hash()[0]) << 56 | number << 16 | index;
    (0..UNIT as u64 / 8).flat_map(|index| word(index).to_be_bytes()).collect()
}

/// All of a part.
pub(crate) fn part(of: &Name, number: u64) -> Vec<u8> {
    let first = number * u64::from(PART_UNITS);
    (first..STORED.min(first + u64::from(PART_UNITS))).flat_map(|number| unit(of, number)).collect()
}

/// When this began, in seconds since 1970: an hour may begin meanwhile.
pub(crate) fn started() -> u64 {
    static STARTED: OnceLock<u64> = OnceLock::new();
    *STARTED.get_or_init(|| unix().as_secs())
}

pub(crate) fn settings(limits: &Limits) -> KernelStoreSettings {
    let mut secrets = Secrets::new(&SECRET, started());
    KernelStoreSettings {
        port: PORT,
        link: LINK,
        keys: secrets.keys(started()),
        charges: limits.of_one_unit(),
        unix_offset: unix() - Duration::from_nanos(monotonic().as_nanos()),
        origin: Duration::ZERO,
    }
}

/// From there to the router.
pub(crate) fn ends(from: SocketAddr) -> UdpEnds {
    let to: IpAddr = if from.is_ipv4() { [192, 0, 2, 1].into() } else { "2001:db8::1".parse().unwrap() };
    UdpEnds { link: ([2, 0, 0, 0, 0, 7], LINK), from, to: SocketAddr::new(to, PORT) }
}

/// The head of a unit that leaves.
pub(crate) fn head(burst: &Burst, unit: u64) -> Vec<u8> {
    let Burst { nonce, stored_units, waited, app_limited, .. } = *burst;
    UnitHead { nonce, unit, stored_units, waited, app_limited }.encode_head().to_vec()
}

/// What is asked, by whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking {
    pub(crate) ends: UdpEnds,
    pub(crate) request: UnitRequest,
}

impl Asking {
    /// For a unit of object `number`, with a good token.
    pub(crate) fn new(from: &str, number: u8, unit: u64) -> Self {
        let from: SocketAddr = from.parse().unwrap();
        let ranges = Ranges::new(Units { first: unit, count: 1 }).unwrap();
        let token = Some(token(from, started()));
        let request =
            UnitRequest { nonce: 0x0123_4567_89ab_cdef, name: name(number), ranges, token, hops: 0, padded: 0 };
        Self { ends: ends(from), request }
    }

    pub(crate) fn message(&self) -> Vec<u8> {
        let mut message = Vec::new();
        self.request.encode(&mut message);
        message
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        self.ends.frame(&self.message())
    }
}

pub(crate) fn token(from: SocketAddr, unix_s: u64) -> AddressToken {
    Secrets::new(&SECRET, unix_s).mint(from, unix_s)
}

/// A store with objects 1 and 2, and a router with the same limits and objects.
pub(crate) struct Both {
    pub(crate) kernel: KernelStore,
    pub(crate) limits: Arc<Limits>,
    router: Router,
}

/// Every object, whole.
pub(crate) struct Whole;

impl Shelf for Whole {
    fn find(&mut self, _: &Name) -> Found {
        Found::Here { stored_units: Some(STORED), whole: true }
    }

    fn has(&mut self, _: &Name, units: Units) -> u32 {
        units.count
    }
}

impl Both {
    pub(crate) fn new(test: &str) -> Option<Self> {
        Self::limited(test, RouterConfig::new(Rate::INFINITY))
    }

    pub(crate) fn limited(test: &str, config: RouterConfig) -> Option<Self> {
        let mut kernel = had(test, KernelStore::load(1 << 20))?;
        let limits = Arc::new(Limits::within(&config, 99, kernel.buckets()));
        kernel.set(&settings(&limits)).unwrap();
        kernel.answer_for(&["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()]).unwrap();
        for number in [1, 2] {
            for index in [0, 1] {
                assert!(kernel.insert(&name(number), index, STORED, &part(&name(number), index)).unwrap());
            }
        }
        let secrets = Secrets::new(&SECRET, started());
        let router = Router::sharing(config, secrets, 7, Arc::clone(&limits));
        Some(Self { kernel, limits, router })
    }

    pub(crate) fn judge(&self, frame: &[u8]) -> FrameVerdict {
        self.kernel.judge(frame).unwrap().0
    }

    /// What the router in user space answers: refusals, then units.
    pub(crate) fn routed(&mut self, asking: &Asking) -> Vec<Vec<u8>> {
        let (mut answers, now) = (Vec::new(), monotonic());
        self.router.on_datagram(
            now,
            unix().as_secs(),
            asking.ends.from,
            &asking.message(),
            &mut Whole,
            &mut |_, bytes| {
                answers.push(bytes.to_vec());
            },
        );
        while let Some(burst) = self.router.poll(now) {
            for number in burst.units.iter() {
                let mut message = head(&burst, number);
                message.extend_from_slice(&unit(&burst.name, number));
                answers.push(message);
            }
        }
        answers
    }

    /// What the kernel answers with.
    pub(crate) fn answer(&self, asking: &Asking) -> Option<Vec<u8>> {
        let FrameVerdict::Answered(frame) = self.judge(&asking.frame()) else { return None };
        let (ends, payload) = UdpEnds::read(&frame).expect("a datagram with right checksums");
        assert_eq!(ends, asking.ends.reversed());
        assert_eq!(frame, ends.frame(payload), "heads as a host without options sends them");
        Some(payload.to_vec())
    }
}

/// As a router's clock has it.
pub(crate) fn now() -> Time {
    monotonic()
}
