//! `[telemetry]`: what the data packets of flows carry, and how reports come back.

use paceline_cc::{Ability, Cause, Nanos, Time};
use paceline_experiment::{Faults, HopLie, Impostor, Lie, ReportTrace, Via, telemetry as carried};
use paceline_telemetry::sink::INTERVAL;
use serde::{Deserialize, Serialize};

use super::{Flow, KeyError, Scenario, Who};

/// In-band telemetry of a scenario's flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// The fields of a record, and how many records a header has room for.
    pub profile: ReportTrace,
    /// Longest time between two reports while packets come.
    pub interval: Nanos,
    /// How long a report takes to the sender; without it, as long as an acknowledgement without queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
    /// From when on no report reaches the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stops: Option<Nanos>,
    /// When they reach it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes: Option<Nanos>,
    /// Every report says this of losses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forge: Option<Forged>,
    /// What the last hop on the way of these flows says of itself that is not so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lie: Option<HopLie>,
    /// When the lie begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lie_from: Option<Nanos>,
    /// Added to the delay of each report.
    pub late: Nanos,
    /// Share of reports that are lost.
    pub drop: f64,
    /// Who sends reports in the real world from `stops` on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impostor: Option<Impostor>,
    /// The bus that carries reports in the real world, such as `nats://127.0.0.1:4222`; without it, one within the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
}

impl Default for Telemetry {
    fn default() -> Self {
        let (stops, resumes, forge, late, drop) = (None, None, None, Nanos::ZERO, 0.0);
        Self {
            profile: ReportTrace::default(),
            interval: INTERVAL,
            delay: None,
            stops,
            resumes,
            forge,
            lie: None,
            lie_from: None,
            late,
            drop,
            impostor: None,
            bus: None,
        }
    }
}

/// What a sink that lies says of every loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forged {
    /// The medium lost it.
    Medium,
    /// A full queue dropped it.
    Congestion,
}

/// Least payload of a packet with telemetry, as of one without (`mss`).
const LEAST_PAYLOAD: u32 = 100;

impl Telemetry {
    /// Of a flow in a world.
    fn of(&self) -> carried::FlowTelemetry {
        let at = |time: Option<Nanos>| time.map(|time| Time::ZERO + time);
        let forge = self.forge.map(|forged| match forged {
            Forged::Medium => Cause::Medium,
            Forged::Congestion => Cause::Congestion,
        });
        let faults = Faults {
            stops: at(self.stops),
            resumes: at(self.resumes),
            forge,
            lie: self.lie.map(|says| Lie { says, from: at(self.lie_from).unwrap_or(Time::ZERO) }),
            late: self.late,
            drop: self.drop,
            impostor: self.impostor,
        };
        carried::FlowTelemetry {
            trace: self.profile,
            interval: self.interval,
            delay: self.delay,
            faults,
            bus: self.bus.clone(),
        }
    }

    fn check(&self) -> Result<(), KeyError> {
        let wrong = |key: &str, problem: &str| Err(KeyError::new(format!("telemetry.{key}"), problem));
        if !(Nanos::from_millis(1)..=Nanos::from_secs(1)).contains(&self.interval) {
            return wrong("interval", "it is not between 1ms and 1s; \"10ms\" is the default");
        }
        if !(0.0..=1.0).contains(&self.drop) {
            return wrong("drop", "it is not between 0 and 1; give a share, such as 0.1");
        }
        match (self.stops, self.resumes) {
            (None, Some(_)) => wrong("resumes", "reports never stop; give stops as well"),
            (Some(stops), Some(resumes)) if resumes <= stops => {
                wrong("resumes", "it is not after stops; give a later time")
            }
            _ if self.lie_from.is_some() && self.lie.is_none() => {
                wrong("lie_from", "no hop lies; give lie as well, such as \"busy\"")
            }
            _ if self.impostor.is_some() && self.stops.is_none() => {
                wrong("impostor", "it begins where the sink stops; give stops as well")
            }
            _ if self.impostor.is_some() && self.bus.is_none() => wrong(
                "impostor",
                "reports within one process have no keys; give bus, such as \"nats://127.0.0.1:4222\"",
            ),
            _ => Ok(()),
        }
    }
}

impl Scenario {
    /// Whether the section, and what needs it, can be.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(super) fn check_telemetry(&self) -> Result<(), KeyError> {
        let Some(telemetry) = &self.telemetry else {
            let switched = self.flows.iter().position(|flow| flow.telemetry.is_some());
            return match switched {
                Some(index) => {
                    let problem = "there is no [telemetry] to switch; add the section, or leave this out";
                    Err(KeyError::new(format!("flows[{index}].telemetry"), problem))
                }
                None => self.check_needs(),
            };
        };
        telemetry.check()?;
        let header = telemetry.profile.header_bytes();
        for (index, flow) in self.flows.iter().enumerate() {
            if flow.carries_telemetry() && flow.mss < header + LEAST_PAYLOAD {
                let problem = format!(
                    "the header of telemetry ({}) takes {header} bytes of it, and {LEAST_PAYLOAD} must stay; give {} or more",
                    telemetry.profile,
                    header + LEAST_PAYLOAD
                );
                return Err(KeyError::new(format!("flows[{index}].mss"), problem));
            }
        }
        Ok(())
    }

    /// Whether anybody needs reports where there are none.
    fn check_needs(&self) -> Result<(), KeyError> {
        let each = self
            .contestants
            .iter()
            .enumerate()
            .map(|(index, contestant)| (format!("contestants[{index}]"), contestant));
        let fixed = self.flows.iter().enumerate().filter_map(|(index, flow)| match &flow.contestant {
            Who::Fixed(contestant) => Some((format!("flows[{index}].contestant"), &**contestant)),
            Who::Each => None,
        });
        for (key, contestant) in each.chain(fixed) {
            if contestant.controller.entry().needs().any(|need| need == Ability::Telemetry) {
                let name = contestant.controller.entry().name;
                let problem =
                    format!("{name} needs reports of the path's hops, and the scenario has none; add [telemetry]");
                return Err(KeyError::new(key, problem));
            }
        }
        Ok(())
    }
}

impl Flow {
    fn carries_telemetry(&self) -> bool {
        self.telemetry != Some(false)
    }

    /// Its telemetry in a world, over this datapath.
    pub(super) fn telemetry(&self, section: Option<&Telemetry>, via: &Via) -> Option<carried::FlowTelemetry> {
        let offered = self.carries_telemetry() && via.datapath().offers(Ability::Telemetry);
        section.filter(|_| offered).map(Telemetry::of)
    }
}
