//! The arithmetic that the kernel runs, compiled natively: neither root nor eBPF.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use paceline_telemetry::node::enough;
use paceline_telemetry::wire::{rate_code, read_short_float, short_float};
use paceline_telemetry::{Edge, NodeRecord, PathWord, RecordProfile, TelemetryHeader, WordSignal};

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

#[test]
fn numbers_of_sixteen_bits_are_the_formats() {
    let near = |at: u64| [at.saturating_sub(1), at, at + 1];
    let mut cases: Vec<u64> = (0..48).flat_map(|bits| near(1 << bits)).chain(0..5000).collect();
    cases.extend((0..4000).map(|step| (f64::from(step) * 0.008).exp() as u64));
    cases.extend([2047 << 30, (2047 << 30) + 1, u64::MAX]);
    let questions: Vec<String> = cases.iter().map(|value| format!("short {value}")).collect();
    let Some(answers) = answers("numbers_of_sixteen_bits_are_the_formats", &questions) else { return };
    for (value, answer) in cases.iter().zip(answers) {
        assert_eq!(answer, u64::from(short_float(*value)), "{value}");
    }
}

/// The number in the word as it stands in a header's octets.
fn number(word: PathWord) -> u16 {
    let mut header = TelemetryHeader::new(RecordProfile::Word, 1, Edge::default());
    header.word = Some(word);
    let octets = header.encode();
    u16::from_be_bytes([octets[18], octets[19]])
}

#[test]
fn what_a_hop_says_in_the_word_is_what_user_space_says() {
    // Data rate in 0.1 Mbit/s, packets a second, octets that wait.
    let links = [1, 200, 1000, 65_535, 1_000_000, 1 << 30];
    let loads = [0.0, 0.3, 0.5, 0.999, 1.0, 1.7];
    let waits = [0_u32, 1, 1514, 90_000, 40_000_000, u32::MAX];
    let mut cases = Vec::new();
    for signal in WordSignal::ALL {
        for link in links {
            cases.extend(
                loads
                    .iter()
                    .zip(waits)
                    .map(|(load, waits)| (signal, link, load * f64::from(link) * 1e5 / 12_112.0, waits)),
            );
        }
    }
    let question = |(signal, link, pps, waits): &(WordSignal, u32, f64, u32)| {
        format!("signal {} {link} {} {waits}", *signal as u8, (pps * 65536.0) as u64)
    };
    let questions: Vec<String> = cases.iter().map(question).collect();
    let test = "what_a_hop_says_in_the_word_is_what_user_space_says";
    let Some(answers) = answers(test, &questions) else { return };
    for ((signal, link, pps, waits), answer) in cases.into_iter().zip(answers) {
        let hop = NodeRecord {
            hop_limit: 9,
            rate_100k: Some(link),
            arrival_pps: Some(pps),
            queue_bytes: Some(waits),
            ..NodeRecord::default()
        };
        let mut word = PathWord::asking(signal);
        word.pass(&hop);
        // A float may be rounded to the other side.
        let exact = u64::from(number(word));
        assert!(
            answer.abs_diff(exact) <= 1,
            "{signal:?} of {link}, {pps} packets/s, {waits} octets: {answer}, {exact}"
        );
        assert!(answer < 0xffff && read_short_float(answer as u16).is_some());
    }
}

#[test]
fn the_worse_of_two_hops_stays() {
    let mut cases = Vec::new();
    for signal in WordSignal::ALL {
        for pair in [[3, 4], [4, 3], [4, 4], [4, 0xffff]] {
            cases.push((signal, pair));
        }
    }
    let questions: Vec<String> =
        cases.iter().map(|(signal, [own, there])| format!("worse {} {own} {there}", *signal as u8)).collect();
    let Some(answers) = answers("the_worse_of_two_hops_stays", &questions) else { return };
    for ((signal, [own, there]), answer) in cases.into_iter().zip(answers) {
        let worse = there == 0xffff || if signal == WordSignal::Delay { own > there } else { own < there };
        assert_eq!(answer, u64::from(worse), "{signal:?} {own} {there}");
    }
}
