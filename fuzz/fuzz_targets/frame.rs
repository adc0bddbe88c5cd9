//! A framed connection with a stranger: its bytes in two pieces, and one by one as they trickle in, read as they do in one; what is read is written again byte by
//! byte as it was; a violation is one line. The first byte of the input says where it is cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_alcc::frame::{Decoder, Item, VERSION, Violation};

/// What `pieces` hold, written again, and how it ended.
fn again(pieces: &[&[u8]]) -> (Vec<u8>, Result<(), Violation>) {
    let (mut out, mut payload, mut decoder) = (vec![VERSION], Vec::new(), Decoder::new());
    for piece in pieces {
        let mut input = *piece;
        loop {
            match decoder.next(&mut input) {
                Ok(Some(Item::Payload(bytes))) => payload.extend_from_slice(bytes),
                Ok(Some(Item::Data(data))) => {
                    assert_eq!(payload.len(), data.bytes as usize);
                    data.write(&mut out);
                    out.append(&mut payload);
                }
                Ok(Some(Item::Ack(ack))) => ack.write(&mut out),
                Ok(None) => break,
                Err(violation) => return (out, Err(violation)),
            }
        }
        assert!(input.is_empty());
    }
    (out, decoder.end())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let (out, ended) = again(&[bytes]);
    assert_eq!(again(&[first, second]), (out.clone(), ended));
    let trickle: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(again(&trickle), (out.clone(), ended));
    match ended {
        Ok(()) if bytes.is_empty() => {}
        Ok(()) => assert_eq!(out, bytes),
        Err(violation) => {
            assert!(!violation.to_string().contains('\n'));
            assert!(matches!(violation, Violation::Version(_)) || bytes.starts_with(&out));
        }
    }
});
