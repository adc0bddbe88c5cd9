//! Both directions of a Wi-Fi link, driven in the order of time, with sources at either end.

use paceline_cc::{Codepoint, Nanos, Time};
use paceline_path::{Air, Direction, Packet, Path, build_link};

/// 1472 bytes of payload, UDP and IP.
pub(crate) const FULL: u32 = 1500;
/// A request: 84 bytes with its headers.
pub(crate) const REQUEST: u32 = 84;
/// Data towards the station, requests towards the access point.
pub(crate) const DOWN: usize = 0;
pub(crate) const UP: usize = 1;

pub(crate) struct Rig {
    pub(crate) paths: [Path<u32>; 2],
    pub(crate) now: Time,
}

/// A direction, from the keys of a scenario file.
pub(crate) fn direction(text: &str) -> Direction {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl Rig {
    /// A link with these keys of `wifi` in both directions.
    pub(crate) fn new(wifi: &str, seed: u64) -> Self {
        Self::of(&format!("wifi = {{ {wifi} }}"), seed)
    }

    /// The same with any keys.
    pub(crate) fn of(text: &str, seed: u64) -> Self {
        let both = direction(text);
        let load = |name: &str| Err(name.to_owned());
        let seeds = [2 * seed, 2 * seed + 1];
        let paths = build_link([&both, &both], seeds, Nanos::from_millis(10), &load).expect("valid");
        Self { paths, now: Time::ZERO }
    }

    pub(crate) fn push(&mut self, way: usize, size: u32, body: u32) {
        self.paths[way].push(self.now, Packet::new(0, size, Codepoint::NotEct, body));
    }

    /// What comes out next, by `until`; time then stands there.
    pub(crate) fn pop(&mut self, until: Time) -> Option<(usize, Packet<u32>)> {
        loop {
            for way in [DOWN, UP] {
                if let Some(packet) = self.paths[way].pop(self.now) {
                    return Some((way, packet));
                }
            }
            let next = self.paths[DOWN].next().min(self.paths[UP].next());
            if next > until {
                self.now = until;
                return None;
            }
            assert!(next > self.now, "no progress at {next}");
            self.now = next;
        }
    }

    pub(crate) fn air(&self, way: usize) -> Air {
        self.paths[way].air().expect("a Wi-Fi link")
    }

    /// Payload of full packets that a saturated direction delivers in this many seconds, Mbit/s; a request comes back for every
    /// `per_request` of them.
    pub(crate) fn saturated(&mut self, seconds: u64, per_request: Option<u32>) -> f64 {
        let end = self.now + Nanos::from_secs(seconds);
        (0..900).for_each(|_| self.push(DOWN, FULL, 0));
        let (mut arrived, mut since) = (0, 0);
        while let Some((way, _)) = self.pop(end) {
            if way == UP {
                continue;
            }
            arrived += 1;
            since += 1;
            self.push(DOWN, FULL, 0);
            if per_request.is_some_and(|count| since >= count) {
                since = 0;
                self.push(UP, REQUEST, 0);
            }
        }
        f64::from(arrived) * 1472.0 * 8.0 / seconds as f64 / 1e6
    }
}
