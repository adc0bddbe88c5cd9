//! The arithmetic that the kernel runs, compiled natively: neither root nor eBPF.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use paceline_telemetry::node::enough;
use paceline_telemetry::wire::rate_code;

/// What `tests/native/meter.c` answers to each line of numbers; `None`: there is no compiler, which is said.
fn answers(test: &str, questions: &[String]) -> Option<Vec<u64>> {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/native/meter.c");
    let (program, input) = (folder.path().join("meter"), folder.path().join("questions"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut compile = Command::new(&compiler);
    compile.args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
    let Ok(compiled) = compile.output() else {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: {test}: there is no C compiler ({compiler})");
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::fs::write(&input, questions.join("\n")).unwrap();
    let output = Command::new(program).stdin(std::fs::File::open(input).unwrap()).output().unwrap();
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect())
}

#[test]
fn codes_of_rates_are_the_formats() {
    // In steps of 0.7 %: well within one of 9 %.
    let rates: Vec<f64> = (0..3100).map(|step| (f64::from(step) * 0.007).exp()).filter(|rate| *rate < 2e9).collect();
    let questions: Vec<String> = rates.iter().map(|rate| format!("code {}", (rate * 65536.0) as u64)).collect();
    let Some(answers) = answers("codes_of_rates_are_the_formats", &questions) else { return };
    assert_eq!(answers.len(), rates.len());
    for (rate, code) in rates.iter().zip(answers) {
        // At the limit between two codes the integers may take the other one.
        let exact = 8.0 * rate.log2();
        let near = (exact - exact.floor() - 0.5).abs() < 1e-3;
        assert!(code == u64::from(rate_code(*rate)) || near, "{rate}: {code}");
    }
}

#[test]
fn weights_fall_by_e_in_100_ms() {
    let spans: Vec<u64> = (0..200).map(|step| step * 5_000_017).collect();
    let questions: Vec<String> = spans.iter().map(|span| format!("decay {span}")).collect();
    let Some(answers) = answers("weights_fall_by_e_in_100_ms", &questions) else { return };
    for (span, share) in spans.iter().zip(answers) {
        let exact = (-(*span as f64) / 1e8).exp();
        assert!((share as f64 / f64::from(1 << 30) - exact).abs() < 2e-4, "{span}: {share}");
    }
}

#[test]
fn a_steady_rate_is_measured_within_one_percent() {
    let rates = [20.0_f64, 83.0, 1666.0, 81_274.0, 830_000.0];
    let questions: Vec<String> = rates.iter().map(|rate| format!("steady {}", (1e9 / rate) as u64)).collect();
    let Some(answers) = answers("a_steady_rate_is_measured_within_one_percent", &questions) else { return };
    for (rate, measured) in rates.iter().zip(answers) {
        // Just after a packet: the series of the weights of all before it.
        let expected = 10.0 / (1.0 - (-1.0 / (rate * 0.1)).exp());
        let measured = measured as f64 / 65536.0;
        assert!((measured / expected - 1.0).abs() < 0.01, "{rate}: {measured}");
    }
}

#[test]
fn rooms_and_shares_saturate() {
    let cases = [
        // Limit in packets, packets, limit in octets, octets: room, share.
        ([60, 0, 0, 0], 60, 0),
        ([60, 59, 0, 9], 1, 64_442),
        ([60, 60, 0, 0], 0, 0xfffe),
        ([60, 90, 0, 0], 0, 0xfffe),
        ([0, 9, 90_000, 0], 59, 0),
        ([0, 9, 90_000, 88_487], 0, 64_433),
        ([0, 9, 90_000, 100_000], 0, 0xfffe),
        ([0, 9, 0, 100_000], 0xffff, 0xffff),
        ([100_000, 0, 0, 0], 0xfffe, 0),
    ];
    let asked =
        |what: &str| cases.iter().map(|([a, b, c, d], ..)| format!("{what} {a} {b} {c} {d}")).collect::<Vec<_>>();
    let test = "rooms_and_shares_saturate";
    let Some(rooms) = answers(test, &asked("room")) else { return };
    let Some(shares) = answers(test, &asked("share")) else { return };
    for ((case, room, share), (a, b)) in cases.iter().zip(rooms.into_iter().zip(shares)) {
        assert_eq!((a, b), (*room, *share), "{case:?}");
    }
}

#[test]
fn flows_count_from_the_same_packets_on() {
    let of = |packets: u64| {
        [0, packets, packets * packets / 254, packets * packets / 7, packets * packets]
            .map(|squares| (packets, squares))
    };
    let cases: Vec<(u64, u64)> = (0..60).flat_map(|step| of(step * step * 7)).collect();
    let questions: Vec<String> = cases.iter().map(|(packets, squares)| format!("enough {packets} {squares}")).collect();
    let Some(answers) = answers("flows_count_from_the_same_packets_on", &questions) else { return };
    for ((packets, squares), answer) in cases.into_iter().zip(answers) {
        assert_eq!(answer, u64::from(enough(packets, squares)), "{packets} packets, {squares} squares");
    }
}
