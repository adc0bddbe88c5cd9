//! Experiments: what describes a run, and what comes out of it, in virtual time and in real time.
//!
//! A [`Config`] says what happens: a [`Topology`], [`Flow`]s with their workloads, cross traffic, and a [`Seed`] from which
//! everything random is drawn. A [`Recorder`] turns what was seen into an [`Outcome`]; a [`Tap`] sees each packet.

pub mod config;
mod draw;
pub mod endpoints;
pub mod icn;
pub mod lie;
pub mod live;
pub mod media;
mod memory;
pub mod metered;
pub mod misbehaving;
pub mod node;
pub mod outcome;
pub mod program;
pub mod record;
pub mod seed;
pub mod tap;
pub mod telemetry;
pub mod topology;
pub mod truth;
pub mod via;
pub mod when;
pub mod workload;

pub use config::{Config, Content, Cross, Cut, DumbbellWay, Flow, OnOff, Poisson, Timing, Way, Workload};
pub use lie::{HopLie, Lie};
pub use live::{Glance, Hooks, Live};
pub use media::{Frames, MediaRate, Stream, StreamOutcome};
pub use memory::PathMemory;
pub use metered::MeteredHop;
pub use misbehaving::Misbehaviour;
pub use node::{Node, UdpPacket};
pub use outcome::{
    Excess, FlowOutcome, FlowSeries, HopOutcome, MAX_COMPLETIONS, Outcome, RouterOutcome, RunFailure, Series, SplitSum,
};
pub use paceline_transport::{Acks, Mode};
pub use program::{Program, ProgramOutcome, ProgramPlaces};
pub use record::{Recorder, Sample};
pub use seed::Seed;
pub use tap::{Fate, Layer, Moment, SharedTap, Subject, Tap};
pub use telemetry::{Faults, FlowTelemetry, Impostor, NamedLosses, ReportTrace, TelemetryOutcome};
pub use topology::{ContentRouter, Graph, GraphError, GraphHop, Topology};
pub use truth::Truth;
pub use via::{DrivenBy, Handover, Via};
pub use when::{Agenda, Change, Changer, Condition, Does, Fired, Trigger, When};
pub use workload::{AppTurn, Application, Arrivals, Gaps, NewFlow};
