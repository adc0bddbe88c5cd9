//! `paceline kernel`.

#[cfg(feature = "ebpf")]
mod machine;
#[cfg(feature = "ebpf")]
mod modules;
#[cfg(feature = "ebpf")]
mod run;

use crate::lab::{Lab, refusal};

#[test]
fn the_command_of_before_names_the_new_one() {
    let lab = Lab::new();
    for args in [&["open-window"][..], &["open-window", "--", "true"]] {
        let said = refusal(&lab.run(args));
        assert!(said.starts_with("open-window is gone; write paceline kernel load paceline_open, "), "{said}");
    }
}

#[cfg(not(feature = "ebpf"))]
#[test]
fn a_build_without_ebpf_says_how_to_get_one() {
    let lab = Lab::new();
    for args in [
        &["list"][..],
        &["load", "paceline_open"],
        &["unload", "paceline_open"],
        &["run", "paceline_open", "--", "true"],
        &["watch"],
    ] {
        let said = refusal(&lab.run(&[&["kernel"], args].concat()));
        assert!(said.contains("--features ebpf"), "{said}");
    }
    let output = lab.run(&["kernel", "doctor"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(2) && text.contains("kernel: build"), "{text}");
    assert!(text.contains("no: this paceline has no eBPF; build one with: cargo build"), "{text}");
}
