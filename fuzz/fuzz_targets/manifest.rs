//! First units of a stranger: each is refused in one line, or has exactly one encoding and a layout that can be walked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_icn::{Manifest, Record, UNIT};

fuzz_target!(|bytes: &[u8]| {
    // Short inputs are first units too: what is behind them is zero.
    let mut unit = [0; UNIT];
    let kept = bytes.len().min(UNIT);
    unit[..kept].copy_from_slice(&bytes[..kept]);
    for bytes in [bytes, &unit] {
        match Manifest::decode(bytes) {
            Ok(manifest) => {
                assert_eq!(&manifest.encode()[..], bytes);
                let layout = manifest.layout();
                let last = layout.stored_units() - 1;
                assert!(layout.place(last).is_some() && layout.place(last + 1).is_none());
                assert!(i64::try_from(layout.stored_bytes()).is_ok());
            }
            Err(error) => assert!(!error.to_string().contains(char::is_control)),
        }
        match Record::decode(bytes) {
            Ok(record) => {
                assert_eq!(&record.encode()[..], bytes);
                // Its own name at least is right.
                if let Err(error) = record.verify(&record.name(), 0) {
                    assert!(!error.to_string().contains(char::is_control));
                }
            }
            Err(error) => assert!(!error.to_string().contains(char::is_control)),
        }
    }
});
