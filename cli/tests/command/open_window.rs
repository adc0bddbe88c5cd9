//! `paceline open-window`.

use crate::lab::{Lab, refusal};

#[cfg(not(feature = "ebpf"))]
#[test]
fn a_build_without_ebpf_says_how_to_get_one() {
    let lab = Lab::new();
    let said = refusal(&lab.run(&["open-window", "--", "true"]));
    assert!(said.contains("--features ebpf"), "{said}");
}

#[cfg(feature = "ebpf")]
#[test]
fn it_is_loaded_while_the_program_runs() {
    use std::fs;
    use std::io::Write;

    const LIST: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let lab = Lab::new();
    let output = lab.run(&["open-window", "--", "cat", LIST]);
    if output.status.code() == Some(2) {
        let reason = refusal(&output);
        assert!(reason.contains("run it as root") || reason.contains("the kernel"), "{reason}");
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: it_is_loaded_while_the_program_runs: {}", reason.trim());
        return;
    }
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && listed.contains("paceline_open"), "{listed}");
    assert!(!fs::read_to_string(LIST).unwrap().contains("paceline_open"));
    let status = |program: &[&str]| lab.run(&[&["open-window", "--"], program].concat()).status.code();
    assert_eq!(status(&["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(status(&["sh", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(status(&["no-such-program"]), Some(127));
}
