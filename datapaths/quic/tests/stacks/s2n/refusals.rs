//! What s2n-quic cannot express is refused when the factory is made; a program's own loop has less than ours.

use std::net::UdpSocket;

use paceline_cc::registry::CONTROLLERS;
use paceline_cc::{Misfit, Spec};
use paceline_quic::Factory;
use paceline_quic::s2n::{Io, S2N};

fn refused(made: impl Fn(Spec) -> Result<Factory, Misfit>) -> Vec<&'static str> {
    let more = ["cubic:start=chirp", "dctcp:start=chirp-q"];
    let all = CONTROLLERS.iter().map(|entry| entry.name).chain(more);
    all.filter(|text| made(text.parse().unwrap()).is_err()).collect()
}

#[test]
fn a_race_has_gaps_marks_and_ect1_a_loop_of_ours_gaps_and_marks_any_program_marks() {
    let halves = ["rledbat", "sprout", "sprout-ewma"];
    assert_eq!(refused(|spec| S2N.factory(spec, 1)), halves);
    let io = Io::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    assert_eq!(refused(|spec| io.factory(spec, 1)), ["prague", "rledbat", "sprout", "sprout-ewma"]);
    assert_eq!(
        refused(|spec| Factory::s2n(spec, 1)),
        ["prague", "rledbat", "sprout", "sprout-ewma", "cubic:start=chirp", "dctcp:start=chirp-q"]
    );
    assert_eq!(
        Factory::s2n("cubic:start=chirp".parse().unwrap(), 1).unwrap_err().to_string(),
        "start=chirp needs an exact gap before each packet, and s2n-quic's own loop wakes up once a millisecond; use paceline_quic::s2n::Io"
    );
}
