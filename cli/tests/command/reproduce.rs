//! A paper's experiments again.

use std::fs;

use serde_json::Value;

use crate::lab::{Lab, refusal};

#[test]
fn a_figure_gives_claims_and_a_page() {
    let lab = Lab::new();
    let claims = |threads: &str| {
        let args =
            ["reproduce", "paced-chirping", "--figure", "fig7", "--runs", "1", "--json", "-", "--report", "page"];
        let output = lab.run(&[&args[..], &["--threads", threads, "--seed", "7"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let claims: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let all = claims.iter().all(|claim| claim["holds"].as_bool().unwrap());
        assert_eq!(output.status.code(), Some(i32::from(!all)), "{text}");
        assert!(output.stderr.is_empty());
        claims
    };
    let first = claims("1");
    assert!(!first.is_empty());
    for claim in &first {
        assert_eq!(claim["figure"], "Fig 7");
        for key in ["claim", "paper", "ours", "contestant"] {
            assert!(!claim[key].as_str().unwrap().is_empty(), "{key} in {claim}");
        }
        let command = claim["command"].as_str().unwrap();
        assert!(command.starts_with("paceline race scenarios/paced-chirping/mixed.toml --contestants "), "{command}");
        assert!(command.ends_with(" --runs 1 --seed 7"), "{command}");
        assert!(!claim["cells"].as_array().unwrap().is_empty());
    }
    assert_eq!(first, claims("2"));
    let page = fs::read_to_string(lab.path("page/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Fig 7") && !page.contains("NaN"));
    assert!(page.contains("--contestants dctcp:start=chirp-q@tcp"));
    assert!(page.contains("reproduce paced-chirping --figure fig7 --runs 1 --seed 7"));
}

#[test]
fn a_paper_about_real_sockets_runs_in_the_simulator_too() {
    let lab = Lab::new();
    let args = ["reproduce", "alcc", "--sim", "--figure", "fig22", "--runs", "1", "--seconds", "10", "--json", "-"];
    let output = lab.run(&[&args[..], &["--report", "page"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let claims: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(claims.len(), 2, "{text}");
    for claim in &claims {
        assert_eq!((claim["figure"].as_str(), claim["world"].as_str()), (Some("Fig 22"), Some("sim")));
        let command = claim["command"].as_str().unwrap();
        assert!(
            command.starts_with("paceline race scenarios/alcc/tunnel-tcp.toml --contestants copa@alcc "),
            "{command}"
        );
        assert!(
            command.ends_with(" --runs 1 --seconds 10") && command.contains("--set flows.1.start=2000ms"),
            "{command}"
        );
    }
    let page = fs::read_to_string(lab.path("page/report.html")).unwrap();
    assert!(
        page.contains("virtual time") && page.contains("reproduce alcc --figure fig22 --sim --runs 1 --seconds 10")
    );
}

#[test]
fn without_a_name_it_lists_what_there_is() {
    let lab = Lab::new();
    let output = lab.run(&["reproduce"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text.starts_with("paced-chirping  Misund and Briscoe"), "{text}");
    assert!(text.contains("--figure fig5"));
}

#[test]
fn what_is_not_there_is_one_line() {
    let lab = Lab::new();
    let line = |args: &[&str]| refusal(&lab.run(args));
    assert_eq!(line(&["reproduce", "paced-chirp"]), "unknown paper 'paced-chirp'; did you mean paced-chirping?");
    let wrong = line(&["reproduce", "paced-chirping", "--figure", "fig55"]);
    assert!(wrong.starts_with("--figure: 'fig55' is not in paced-chirping; did you mean fig5"), "{wrong}");
    let wrong = line(&["reproduce", "paced-chirping", "--figure", "fig7", "--runs", "0"]);
    assert!(wrong.starts_with("--runs: 0 is not between 1 and"), "{wrong}");
    let wrong = line(&["reproduce", "alcc", "--sim", "--seconds", "0"]);
    assert_eq!(wrong, "--seconds: 0 is not above 0; write 10 for ten seconds");
    let wrong = line(&["reproduce", "paced-chirping", "--json", "no/claims.jsonl"]);
    assert!(wrong.starts_with("--json: no/claims.jsonl: cannot be written"), "{wrong}");
    let wrong = line(&["reproduce", "paced-chirping", "--figure", "robust", "--trace", "none", "--report", "page"]);
    assert!(wrong.starts_with("--trace: none cannot be read"), "{wrong}");
    let wrong = line(&["reproduce", "paced-chirping", "--report", "small.toml/page"]);
    assert!(wrong.starts_with("--report: small.toml/page: cannot be written"), "{wrong}");
}
