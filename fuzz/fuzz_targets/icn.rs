//! Messages of named content from a stranger, on either side: they are refused, or they are read again as they were after being
//! written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_icn::wire::{Answer, MAX_MESSAGE, Request};

fuzz_target!(|bytes: &[u8]| {
    let mut again = Vec::new();
    if let Ok(request) = Request::decode(bytes) {
        request.encode(&mut again);
        assert!(again.len() <= MAX_MESSAGE);
        // Options that may be skipped are not written again; the padding takes their room.
        assert_eq!(Request::decode(&again), Ok(request));
        again.clear();
    }
    match Answer::decode(bytes) {
        Ok(Answer::Data(data, payload)) => {
            again.extend_from_slice(&data.encode_head());
            again.extend_from_slice(payload);
        }
        Ok(Answer::Nack(nack)) => nack.encode(&mut again),
        Ok(Answer::Grant(grant)) => grant.encode(&mut again),
        Err(_) => return,
    }
    assert_eq!(again, bytes);
});
