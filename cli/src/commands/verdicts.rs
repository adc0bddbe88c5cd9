//! Features of this machine, for people and programs.

use std::fmt::Write;

use paceline_emulator::machine::{Feature, Fitness};
use serde_json::{Value, json};

/// One line a feature.
pub(crate) fn describe(text: &mut String, features: &[&Feature]) -> std::fmt::Result {
    let width = features.iter().map(|feature| feature.name.len()).max().unwrap_or(0);
    for feature in features {
        let (verdict, detail) = words(&feature.verdict);
        writeln!(text, "{:width$}  {verdict}: {detail}", feature.name)?;
    }
    Ok(())
}

/// A verdict and its detail, for people and programs.
pub(crate) fn words(verdict: &Fitness) -> (&'static str, &str) {
    match verdict {
        Fitness::Works(how) => ("works", how),
        Fitness::FallsBack(to) => ("falls back", to),
        Fitness::No(reason) => ("no", reason),
    }
}

/// A verdict and its detail, by the feature's name.
pub(crate) fn features_as_json(features: &[&Feature]) -> Value {
    let verdicts = features.iter().map(|feature| {
        let (verdict, detail) = words(&feature.verdict);
        (feature.name.to_owned(), json!({ "verdict": verdict, "detail": detail }))
    });
    Value::Object(verdicts.collect())
}
