//! The controllers inside ns-3, where that is installed (Debian: libns3-dev).

mod build;

use std::io::Write;
use std::path::Path;
use std::process::Command;

use paceline_fixture::c::{lacks, succeeded};

use build::{here, linked};

#[test]
fn a_controller_uses_a_path_of_ns3() {
    let test = "a_controller_uses_a_path_of_ns3";
    if lacks(test, "a C++ compiler", "c++") {
        return;
    }
    if !Path::new("/usr/include/ns3/tcp-congestion-ops.h").exists() {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: it needs ns-3 (libns3-dev)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    linked(folder.path());
    let program = folder.path().join("dumbbell");
    let mut compile = Command::new("c++");
    compile.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program);
    compile.args([here("examples/ns3/dumbbell.cc"), here("examples/ns3/paceline-tcp.cc")]);
    compile.arg("-I").arg(here("include")).arg("-L").arg(folder.path());
    compile.arg("-lpaceline_cc").arg(format!("-Wl,-rpath,{}", folder.path().display()));
    for part in ["applications", "point-to-point", "internet", "traffic-control", "network", "core"] {
        compile.arg(format!("-lns3-{part}"));
    }
    succeeded(&compile.output().unwrap());
    let run = |spec: &str| Command::new(&program).args([spec, "20"]).output().unwrap();
    // Of 12 Mbit/s 11.66 are payload, and without a queue a packet takes 21 ms. At most 5 % more than in the simulator.
    for (spec, least_mbps, most_ms) in [("copa", 11.2, 27.2), ("bbr", 11.0, 38.6), ("cubic", 11.2, 230.0)] {
        let output = run(spec);
        succeeded(&output);
        let said = String::from_utf8(output.stdout).unwrap();
        let number =
            |behind: &str| -> f64 { said.split_once(behind).unwrap().1.split(' ').next().unwrap().parse().unwrap() };
        let (mbps, ms) = (number(": "), number("p95 "));
        assert!((least_mbps..11.67).contains(&mbps) && (21.0..most_ms).contains(&ms), "{said}");
    }
    let output = run("sprout");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("sprout needs of its host: receiver half"), "{said}");
}
