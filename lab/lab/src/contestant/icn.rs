//! The options of `@icn`.

use paceline_experiment::icn::Asking;
use paceline_icn::flow::{Aggregation, Ceiling};
use paceline_icn::ranges::MAX_UNITS;

use super::Unknown;

const CEILINGS: [(&str, Ceiling); 3] =
    [("bounded", Ceiling::Bounded), ("window", Ceiling::Window), ("unlimited", Ceiling::Unlimited)];

/// Most units that may arrive before a hole is taken for a loss: those of [`FlowConfig::disorder`](paceline_icn::FlowConfig).
const MOST_DISORDER: u32 = 64;

/// Reads `aggregation=one,ceiling=window`.
pub(super) fn asking(options: &str) -> Result<Asking, Unknown> {
    let mut asking = Asking::default();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let refused = || Unknown::new(option);
        let (key, word) = option.split_once('=').ok_or_else(refused)?;
        let number = |most: u32| word.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(refused);
        match (key, word) {
            ("aggregation", "paper") => asking.aggregation = Aggregation::Paper,
            ("aggregation", "one") => asking.aggregation = Aggregation::One,
            ("aggregation", _) => asking.aggregation = Aggregation::Fixed(number(MAX_UNITS)?),
            ("triple", "on") => asking.triple = true,
            ("triple", "off") => asking.triple = false,
            ("ceiling", _) => asking.ceiling = CEILINGS.iter().find(|(name, _)| *name == word).ok_or_else(refused)?.1,
            ("disorder", _) => asking.disorder = number(MOST_DISORDER)?,
            _ => return Err(refused()),
        }
    }
    Ok(asking)
}

/// The inverse: nothing where everything is as it is by default.
pub(super) fn text(asking: Asking) -> String {
    let usual = Asking::default();
    let aggregation = (asking.aggregation != usual.aggregation).then(|| match asking.aggregation {
        Aggregation::Paper => "aggregation=paper".to_owned(),
        Aggregation::One => "aggregation=one".to_owned(),
        Aggregation::Fixed(units) => format!("aggregation={units}"),
    });
    let triple =
        (asking.triple != usual.triple).then(|| format!("triple={}", if asking.triple { "on" } else { "off" }));
    let ceiling = CEILINGS.iter().find(|(_, ceiling)| *ceiling == asking.ceiling && asking.ceiling != usual.ceiling);
    let ceiling = ceiling.map(|(name, _)| format!("ceiling={name}"));
    let disorder = (asking.disorder != usual.disorder).then(|| format!("disorder={}", asking.disorder));
    let options: Vec<String> = aggregation.into_iter().chain(triple).chain(ceiling).chain(disorder).collect();
    if options.is_empty() { String::new() } else { format!(":{}", options.join(",")) }
}
