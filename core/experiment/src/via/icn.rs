//! `@icn`: named content, by requests.

use paceline_cc::datapath::ICN;
use paceline_icn::UNIT;
use paceline_icn::flow::{Aggregation, PacedCeiling};
use paceline_icn::ranges::MAX_UNITS;

use super::{DatapathRow, How, name_of, named, one_way};
use crate::endpoints::{FlowEnds, Making};
use crate::icn::{Asking, Requester, Router, UNIT_HEADERS};
use crate::tap::Layer;

const CEILINGS: [(&str, PacedCeiling); 3] =
    [("bounded", PacedCeiling::Bounded), ("window", PacedCeiling::Window), ("unlimited", PacedCeiling::Unlimited)];
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

/// Most units that may arrive before a hole is taken for a loss: those of [`FlowConfig::disorder`](paceline_icn::FlowConfig).
const MOST_DISORDER: u32 = 64;

fn read(how: &mut How, key: &str, word: &str) -> Option<()> {
    let asking = &mut how.asking;
    let number = |most: u32| word.parse().ok().filter(|number| (1..=most).contains(number));
    match (key, word) {
        ("aggregation", "paper") => asking.aggregation = Aggregation::Paper,
        ("aggregation", "one") => asking.aggregation = Aggregation::One,
        ("aggregation", _) => asking.aggregation = Aggregation::Fixed(number(MAX_UNITS)?),
        ("triple", _) => asking.triple = named(&SWITCH, word)?,
        ("ceiling", _) => asking.ceiling = named(&CEILINGS, word)?,
        ("disorder", _) => asking.disorder = number(MOST_DISORDER)?,
        _ => return None,
    }
    Some(())
}

fn write(how: &How) -> Vec<String> {
    let (asking, usual) = (how.asking, Asking::default());
    let aggregation = (asking.aggregation != usual.aggregation).then(|| match asking.aggregation {
        Aggregation::Paper => "aggregation=paper".to_owned(),
        Aggregation::One => "aggregation=one".to_owned(),
        Aggregation::Fixed(units) => format!("aggregation={units}"),
    });
    let triple =
        (asking.triple != usual.triple).then(|| format!("triple={}", if asking.triple { "on" } else { "off" }));
    let ceiling = name_of(&CEILINGS, &asking.ceiling).filter(|_| asking.ceiling != usual.ceiling);
    let ceiling = ceiling.map(|name| format!("ceiling={name}"));
    let disorder = (asking.disorder != usual.disorder).then(|| format!("disorder={}", asking.disorder));
    aggregation.into_iter().chain(triple).chain(ceiling).chain(disorder).collect()
}

fn ends(mut making: Making<'_>) -> FlowEnds {
    let controller = making.controller(&making.flow.controller, Layer::Packets);
    let requester = Requester::new(&making.flow.via.how.asking, &making.config, controller, making.env.seed);
    FlowEnds::Pull(Box::new(requester), Router::default())
}

/// `icn` in the table.
pub(super) static ROW: DatapathRow = DatapathRow {
    datapath: &ICN,
    way: one_way,
    takes: Some(
        "aggregation=paper, one or UNITS (1 to 64), triple=on or off, ceiling=bounded, window or unlimited, \
         and disorder=UNITS (1 to 64)",
    ),
    read,
    write,
    above: false,
    payload: Some(UNIT as u32),
    headers: UNIT_HEADERS,
    ends: Some(ends),
};
