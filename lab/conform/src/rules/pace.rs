//! Packets leave at the rate that was answered, whoever answered it: what [`paceline_cc::Pacing`] asks of a datapath.

use crate::rig::Rig;
use crate::rule::{Rule, Seen};
use crate::trajectory::{Trajectory, quantile};

/// Where the pace alone holds packets back.
const KEPT: Rule = Rule {
    id: "",
    controller: "",
    says: "packets that only the pace holds back leave at the rate that was answered",
    source: "draft-ietf-ccwg-bbr section 5.6.2; paceline_cc::Pacing",
    measures: "rate of departures over the rate answered, median of stretches of 100 ms",
    expect: (0.97, 1.03),
    tolerance: "3 %, our choice: a host's timers, and a change of the rate within a gap",
    rig: Rig::Deep,
    needs: &[],
    measure: |of| Seen::median(of.paces.kept.clone()).ok_or("pace alone held no packet back for 100 ms"),
};

/// Wherever there is a pace.
const EARLY: Rule = Rule {
    id: "",
    controller: "",
    says: "no packet leaves before its time",
    source: "draft-ietf-ccwg-bbr section 5.6.2; Linux tcp_tso_autosize; paceline_cc::Pacing",
    measures: "ms by which a packet left early, the most of 100 ms, 99th percentile",
    expect: (0.0, 1.05),
    tolerance: "1 ms, our choice as in Linux: what a datapath that was held up may catch up",
    rig: Rig::Deep,
    needs: &[],
    measure: early,
};

pub(super) const RULES: &[Rule] = &[
    Rule { id: "bbr-pace", controller: "bbr", ..KEPT },
    Rule { id: "bbr-pace-early", controller: "bbr", ..EARLY },
    Rule { id: "bbr3-pace", controller: "bbr3", ..KEPT },
    Rule { id: "bbr3-pace-early", controller: "bbr3", ..EARLY },
    Rule { id: "copa-pace-early", controller: "copa", rig: Rig::Endless, ..EARLY },
    Rule { id: "prague-pace-early", controller: "prague", rig: Rig::Marking, ..EARLY },
];

fn early(of: &Trajectory) -> Result<Seen, &'static str> {
    if let Some(why) = of.paces.together {
        return Err(why);
    }
    let spans = of.paces.early.clone();
    let value =
        quantile(spans.iter().map(|span| span.value).collect(), 0.99).ok_or("no pace is answered for 100 ms")?;
    Ok(Seen { value, spans: spans.into_iter().filter(|span| span.value >= value).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{RuleVerdict, TrajectorySpan};
    use crate::trajectory::Origin;

    #[test]
    fn a_pace_that_is_not_kept_departs() {
        let spans = |value| vec![TrajectorySpan { from: 0.0, to: 0.1, value }; 10];
        let mut of = Trajectory::new("a flow", Origin::Events, 1448.0);
        assert!(
            matches!(KEPT.judge(&of), RuleVerdict::NotSeen(_)) && matches!(EARLY.judge(&of), RuleVerdict::NotSeen(_))
        );
        for (kept, early, holds) in [(1.0, 0.0, true), (0.98, 1.0, true), (1.1, 3.0, false), (0.9, 1.2, false)] {
            (of.paces.kept, of.paces.early) = (spans(kept), spans(early));
            for rule in [KEPT, EARLY] {
                assert_eq!(matches!(rule.judge(&of), RuleVerdict::Holds(_)), holds, "{kept} {early}");
            }
        }
        of.paces.together = Some("packets leave in pairs");
        assert!(matches!(EARLY.judge(&of), RuleVerdict::NotSeen(_)), "the datapath does so");
    }
}
