//! A fetch that goes on with what an earlier one left.

use paceline_cc::Time;
use paceline_icn::{Fetch, FetchConfig, Layout, Output, Saved, UNIT, UnitPlace};

use crate::common::origin::{Network, Route, object};
use crate::fetch::{fetch, rough, secs};

#[test]
fn what_is_on_disk_is_not_asked_for() {
    let object = object(3_000_000);
    let config = FetchConfig { units: true, ..FetchConfig::default() };
    let first = Fetch::new(config, object.name, 0..u64::MAX, 7);
    let mut first = Network::new(first, vec![Route::new(&object)]);
    first.routes[0].fate = rough(5, 20);
    first.run(Time::from_millis(200));
    assert!(!first.fetch.is_done());
    let had: Vec<u64> = first
        .outputs
        .iter()
        .filter_map(|output| match output {
            Output::Unit { unit, bytes } => {
                let from = *unit as usize * UNIT;
                assert!(object.stored[from..from + bytes.len()] == *bytes);
                Some(*unit)
            }
            _ => None,
        })
        .collect();
    assert!(had.len() > 500);
    let mut second = fetch(&object);
    second.have(had.iter().copied());
    let mut second = Network::new(second, vec![Route::new(&object)]);
    second.run(secs(60));
    assert!(second.fetch.is_done());
    let total = (object.stored.len() as u64).div_ceil(UNIT as u64);
    let fetched = second.fetch.stats().units;
    assert!(fetched <= total - had.len() as u64 + total / 50, "{fetched} of {total}, {} were there", had.len());
    for (offset, bytes) in &second.got {
        assert!(object.bytes[*offset as usize..][..bytes.len()] == *bytes);
    }
    let mut third = fetch(&object);
    third.have(0..total);
    let mut third = Network::new(third, vec![Route::new(&object)]);
    third.run(secs(60));
    assert!(third.fetch.is_done() && third.got.is_empty());
    assert!(third.fetch.stats().units <= 2, "the manifest says that all is there");
}

/// Index units as a disk has them.
struct Disk(Vec<u8>);

impl Saved for Disk {
    fn read(&mut self, unit: u64, buffer: &mut [u8; UNIT]) -> bool {
        let from = unit as usize * UNIT;
        let bytes = self.0.get(from..).filter(|bytes| bytes.len() >= UNIT);
        bytes.inspect(|bytes| buffer.copy_from_slice(&bytes[..UNIT])).is_some()
    }
}

#[test]
fn with_its_index_on_disk_a_fetch_asks_for_what_is_missing_and_nothing_else() {
    let object = object(3_000_000);
    let units = (object.stored.len() as u64).div_ceil(UNIT as u64);
    let missing = |unit: u64| unit % 97 == 50 || (1200..1300).contains(&unit);
    let layout = Layout::new(object.bytes.len() as u64);
    let is_data = |unit| matches!(layout.place(unit), Some(UnitPlace::Data { .. }));
    let resumed = |disk: Vec<u8>| {
        let config = FetchConfig { units: true, bytes: false, ..FetchConfig::default() };
        let mut fetch = Fetch::new(config, object.name, 0..u64::MAX, 7);
        fetch.resume((0..units).filter(|unit| !missing(*unit)), Box::new(Disk(disk)));
        let mut network = Network::new(fetch, vec![Route::new(&object)]);
        network.run(secs(60));
        assert!(network.fetch.is_done(), "{:?}", network.fetch.stats());
        let mut came: Vec<u64> = network
            .outputs
            .iter()
            .filter_map(|output| match output {
                Output::Unit { unit, .. } => Some(*unit),
                _ => None,
            })
            .collect();
        came.sort_unstable();
        came
    };
    let wanted: Vec<u64> = (0..units).filter(|unit| missing(*unit) && is_data(*unit)).collect();
    assert_eq!(resumed(object.stored.clone()), wanted);
    // A damaged index unit is asked for again, whatever is below it.
    let damaged = (100..units).find(|unit| !is_data(*unit)).expect("one in 59");
    let mut stored = object.stored.clone();
    stored[damaged as usize * UNIT + 70] ^= 1;
    let mut more = wanted.clone();
    more.push(damaged);
    more.sort_unstable();
    assert_eq!(resumed(stored), more);
    // A damaged manifest as well.
    let mut stored = object.stored.clone();
    stored[9] ^= 1;
    // What is right behind it was asked for before that was known.
    let mut all = resumed(stored);
    all.retain(|unit| *unit > 2);
    assert_eq!(all, wanted);
}
