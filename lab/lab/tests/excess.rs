//! A window in the wrong unit ends its run in one line and in little memory, in any language and by any executor.

use paceline_cc::fixed::Fixed;
use paceline_cc::registry::{Definition, register};
use paceline_lab::race::{Settings, race};
use paceline_lab::scenario::{Options, Source};

const PATH: &str = "name = \"s\"\nseconds = 3\nruns = 1\n[down]\nrate = \"10 Mbit/s\"\ndelay = \"10ms\"\n\
                    queue = \"droptail:bdp=1\"\n[up]\ndelay = \"10ms\"\n";

/// The runs that ended, and why the others did not.
fn raced(contestants: &str, path: &str) -> (Vec<String>, Vec<String>) {
    let options = Options { contestants: Some(contestants.to_owned()), ..Options::default() };
    let raced = race(&Source::from_text("s.toml", path, options), &Settings::default()).unwrap();
    let ended = raced.runs.iter().map(|run| run.record.contestant()).collect();
    (ended, raced.failures.iter().map(ToString::to_string).collect())
}

#[test]
fn what_the_path_can_never_hold_is_refused_over_every_datapath() {
    // Bytes per second times nanoseconds.
    register(Definition::new("wrong-unit", |_, env| Box::new(Fixed::new(env, 2e13 / 1448.0, None)))).unwrap();
    let (ended, failures) = raced(
        "fixed:window=100000000@udp,fixed:window=100000000@tcp,fixed:window=100000000@alcc/open,\
         fixed:window=100000000@icn,wrong-unit@udp,cubic@tcp",
        PATH,
    );
    assert_eq!(ended, ["fixed:window=100000000@icn", "cubic@tcp"], "{failures:?}");
    assert_eq!(failures.len(), 4);
    let says = "fixed:window=100000000: a window of 144800000000 bytes has put ";
    assert!(failures[0].contains(says), "{}", failures[0]);
    assert!(failures[0].contains(" and the path holds 50000; give the window in bytes"), "{}", failures[0]);
    assert!(failures[3].contains("wrong-unit: a window of 20000000000000 bytes"), "{}", failures[3]);
    assert!(failures.iter().all(|failure| failure.lines().count() == 1));
}

#[test]
#[cfg(feature = "parquet")]
fn a_sweep_refuses_it_too() {
    use paceline_lab::sweep::Sweep;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), PATH).unwrap();
    let text = "scenario = 's.toml'\ncontestants = ['fixed:window=100000000@udp']\n[grid]\ndown.delay = ['10ms']\n";
    let sweep = Sweep::parse(text, folder.path()).unwrap();
    let failure = sweep.point(0).run().unwrap_err();
    assert!(
        failure.to_string().starts_with("fixed:window=100000000: a window of 144800000000 bytes has put "),
        "{failure}"
    );
}

#[test]
fn long_paths_deep_buffers_and_outages_are_not_refused() {
    let path = |down: &str, up: &str| {
        PATH.replace("rate = \"10 Mbit/s\"\ndelay = \"10ms\"\nqueue = \"droptail:bdp=1\"", down)
            .replace("[up]\ndelay = \"10ms\"", up)
    };
    for (down, up) in [
        ("rate = \"1 Gbit/s\"\ndelay = \"300ms\"\nqueue = \"droptail:bdp=4\"", "[up]\ndelay = \"300ms\""),
        ("rate = \"200 Mbit/s\"\ndelay = \"5ms\"\nqueue = \"infinite\"", "[up]\ndelay = \"5ms\""),
        ("rate = \"10 Mbit/s\"\ndelay = \"10ms\"\nqueue = \"infinite\"\noutages = [[\"1s\", \"2500ms\"]]", "[up]"),
    ] {
        let (ended, failures) =
            raced("reno@tcp,cubic@udp,bbr@alcc/open,bbr@icn,fixed:window=20000@udp", &path(down, up));
        assert_eq!((ended.len(), failures.len()), (5, 0), "{down}: {failures:?}");
    }
}
