//! What the real world does otherwise than the simulator, and what it cannot do.

use paceline_cc::Nanos;
use paceline_cc::datapath::UDP;
use paceline_experiment::{Change, Cross, DrivenBy, Flow, Graph, When};

use super::hosts::{Hosts, MOST_LINKS};
use super::{MOST, Refused, contestant, cross, programs, rows};
use crate::tcp::{Below, LOADING};

/// Differences from the simulator for these flows over this graph, one line each.
///
/// # Errors
/// The first thing that the real world cannot do, and how to fix it.
pub fn check(graph: &Graph, flows: &[Flow], cross: &[Cross]) -> Result<Vec<String>, Refused> {
    let links = Hosts::new(graph, flows).graph.hops().len() / 2;
    let programs = programs::count(flows);
    let most = if programs > 0 { MOST_LINKS - programs::HOST_LINKS } else { MOST_LINKS };
    if links > most {
        return Err(Refused::Links { links, most });
    }
    if programs > programs::MOST_PROGRAMS {
        return Err(Refused::Programs);
    }
    let mut notes = Vec::new();
    let mut ecn = None;
    if flows.len() > MOST || cross.len() > MOST {
        return Err(Refused::Flows);
    }
    for flow in flows {
        let mut in_kernel = |below: Below| {
            if flow.mss > 1448 || flow.mss < 76 {
                return Err(Refused::Mss { mss: flow.mss });
            }
            if ecn.replace(below.kernel.ecn).is_some_and(|before| before != below.kernel.ecn) {
                return Err(Refused::MixedEcn { controller: flow.controller.clone() });
            }
            Ok(below.notes)
        };
        let real = rows::of(flow)?;
        let via = flow.via.row().datapath.name;
        if flow.receiver.is_some() && via != UDP.name {
            return Err(Refused::Receiver { controller: flow.controller.clone(), via });
        }
        if flow.telemetry.is_some() {
            if !real.carries_telemetry {
                notes.push(format!(
                    "{}: telemetry: in the real world UDP, QUIC and the kernel's TCP alone carry it",
                    contestant(flow)
                ));
            } else if LOADING.is_none() {
                return Err(Refused::NoTelemetry);
            }
        }
        if (flow.remembered.is_some() || flow.remember) && !real.lends_memory {
            notes.push(format!(
                "{}: remembered: in the real world UDP, ICN and what is above TCP begin with it",
                contestant(flow)
            ));
        }
        notes.extend((real.check)(flow)?);
        let below = (real.below)(flow)?;
        check_when(flow, below.as_ref())?;
        notes.extend(below.map(&mut in_kernel).transpose()?.unwrap_or_default());
    }
    if let Some(source) = cross.iter().find(|source| !(cross::HEADERS..=cross::LARGEST).contains(&source.packet)) {
        return Err(Refused::Cross { packet: source.packet });
    }
    notes.sort();
    notes.dedup();
    Ok(notes)
}

/// Whether what the flow's controller triggers can be seen, and done.
fn check_when(flow: &Flow, below: Option<&Below>) -> Result<(), Refused> {
    let Some(When { number, .. }) = flow.when.first() else { return Ok(()) };
    if flow.via.program().is_some() {
        return Err(Refused::WhenProgram { when: *number, contestant: contestant(flow) });
    }
    if below.is_some_and(|below| below.above.is_none() && below.kernel.driven_by != DrivenBy::Agent) {
        return Err(Refused::WhenKernel { when: *number, controller: flow.controller.clone() });
    }
    let of_application = |when: &&When| when.set.iter().any(|change| matches!(change, Change::Application { .. }));
    match flow.when.iter().find(of_application) {
        Some(When { number, .. }) => Err(Refused::WhenApplication { when: *number }),
        None => Ok(()),
    }
}

/// Whether a tunnel can join the ends of these flows.
///
/// # Errors
/// Why not, and how to fix it.
pub fn check_tunnel(graph: &Graph, flows: &[Flow]) -> Result<(), Refused> {
    if *graph != Graph::dumbbell() {
        return Err(Refused::TunnelLinks);
    }
    if flows.iter().any(|flow| flow.telemetry.is_some()) {
        return Err(Refused::TunnelTelemetry);
    }
    if flows.iter().any(|flow| flow.extra_delay > Nanos::ZERO) {
        return Err(Refused::TunnelDelay);
    }
    if let Some(flow) = flows.iter().find(|flow| flow.via.program().is_some()) {
        return Err(Refused::TunnelProgram { contestant: contestant(flow) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use paceline_cc::Time;
    use paceline_experiment::{Does, Handover, Via};
    use paceline_path::PathChange;

    use super::*;

    #[test]
    fn what_a_controller_triggers_needs_one_that_is_seen_and_a_path() {
        let path = Change::Path { hop: 0, change: PathChange::RateBy(0.5) };
        let when = |set: &Change| When {
            number: 3,
            is: Vec::new(),
            after: Time::ZERO,
            skip: 0,
            times: 1,
            delay: Nanos::ZERO,
            lasts: None,
            set: vec![set.clone()],
        };
        let check = |via: Via, set: &Change| {
            let flow = Flow { when: vec![when(set)], ..Flow::bulk("reno".parse().unwrap(), via) };
            check(&Graph::dumbbell(), &[flow], &[]).map_err(|error| error.to_string())
        };
        let above = Via::alcc("reno".parse().unwrap(), Handover::default());
        for via in [Via::udp(), above] {
            assert_eq!(check(via, &path), Ok(Vec::new()));
        }
        let refused = |via: Via, set: &Change, what: &str| {
            let error = check(via, set).unwrap_err();
            assert!(error.contains(what) && !error.contains('\n'), "{error}");
        };
        refused(Via::tcp(Some(DrivenBy::Kernel)), &path, "when[3].flow: reno@tcp runs in the kernel");
        let pause = Change::Application { flow: 0, does: Does::Pause };
        refused(Via::udp(), &pause, "when[3].set: what an application does");
    }
}
