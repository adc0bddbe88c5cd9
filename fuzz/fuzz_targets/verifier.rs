//! Units of an object, changed, cut and in any order: a unit is found genuine only if its bytes are the object's, and memory is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_icn::{Builder, UNIT, UnitVerdict, Verifier};

/// Index units that may be held.
const HELD: usize = 11;

fuzz_target!(|bytes: &[u8]| {
    let [low, high, steps @ ..] = bytes else { return };
    // Up to 180 data units: trees of up to two levels.
    let length = usize::from(u16::from_le_bytes([*low, *high])) * 4 % (180 * UNIT);
    let content: Vec<u8> = (0..length).map(|at| (at / UNIT * 31 + at) as u8).collect();
    let mut builder = Builder::new(length as u64, "text/plain");
    let layout = *builder.layout();
    let mut units = vec![Vec::new(); layout.stored_units() as usize];
    for (index, data) in content.chunks(UNIT).enumerate() {
        units[layout.unit_of(index as u64) as usize] = data.to_vec();
        builder.push(data, &mut |unit, bytes| units[unit as usize] = bytes.to_vec());
    }
    let manifest = builder.finish(&mut |unit, bytes| units[unit as usize] = bytes.to_vec()).expect("it is complete");
    let mut verifier = Verifier::with_limit(&manifest.name(), HELD);
    for step in steps.chunks_exact(4) {
        let unit = u64::from(step[0]) | u64::from(step[1] & 1) << 8;
        let from = if step[1] & 2 == 0 { unit } else { u64::from(step[2]) };
        let mut offered = units.get(from as usize).cloned().unwrap_or_default();
        match step[1] >> 2 & 3 {
            1 if !offered.is_empty() => {
                let at = usize::from(step[2]) * 6 % offered.len();
                offered[at] ^= step[3];
            }
            2 => offered.truncate(usize::from(step[2]) * 6),
            3 => offered.push(step[3]),
            _ => {}
        }
        let known = verifier.knows(unit);
        match verifier.check(unit, &offered) {
            UnitVerdict::Genuine => assert!(!known && offered == units[unit as usize] && verifier.knows(unit)),
            UnitVerdict::Known => assert!(known),
            UnitVerdict::Corrupt => assert!(offered != units[unit as usize]),
            UnitVerdict::Early => assert!(unit > 0 && !known),
            UnitVerdict::Foreign => assert!(unit >= layout.stored_units()),
        }
        assert!(verifier.held() <= HELD);
    }
    // Whatever came before, the object can still be had.
    for (unit, bytes) in (0..).zip(&units) {
        assert!(matches!(verifier.check(unit, bytes), UnitVerdict::Genuine | UnitVerdict::Known));
    }
    assert!(verifier.is_done() || layout.height() > 1);
});
