//! Why something cannot run in the real world, or did not come to its end there.

use std::io;

use paceline_cc::{Misfit, Spec};
use paceline_emulator::log::LogLost;
use paceline_emulator::world::WorldError;
use paceline_experiment::endpoints::NotSimulated;
use paceline_linux::namespace::NamespaceError;
use paceline_named::router::ServerError;
use paceline_udp::Trouble;

#[cfg(feature = "ebpf")]
use super::TelemetryError;
use super::programs::{MOST_PROGRAMS, ProgramFailure};
use super::{GRACE, MOST, cross};
use crate::tcp::KernelError;

/// What the real world cannot do of a scenario.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The graph has too many links.
    #[error(
        "--real: {links} links, with one for each extra_delay to a node, are more than {most}; write fewer, or leave out --real"
    )]
    Links {
        /// Those of hosts included.
        links: usize,
        /// How many there may be.
        most: usize,
    },
    /// There are too many flows, or sources of cross traffic.
    #[error("--real: more than {MOST} flows or sources of cross traffic; run fewer, or leave out --real")]
    Flows,
    /// The kernel takes no packets of this size.
    #[error("--real: mss = {mss}: the kernel takes 76 to 1448 here")]
    Mss {
        /// As the scenario has it.
        mss: u32,
    },
    /// Datagrams of this size do not fit into a packet.
    #[error("--real: mss = {mss}: a packet would be above 1500 bytes; write 1448 or less")]
    Datagram {
        /// As the scenario has it.
        mss: u32,
    },
    /// Kernel flows with and without ECN.
    #[error(
        "--real: {controller}: kernel flows with and without ECN cannot share a world; give all of them ecn=on, or none"
    )]
    MixedEcn {
        /// The first that differs.
        controller: Spec,
    },
    /// This build has no telemetry.
    #[error(
        "--real: telemetry: this paceline has no eBPF; build it with 'cargo build --release -p paceline-cli \
         --features ebpf', or leave out --real"
    )]
    NoTelemetry,
    /// The kernel cannot run a flow.
    #[error("--real: {0}")]
    Kernel(#[from] KernelError),
    /// Packets of cross traffic are too small or too large.
    #[error(
        "--real: cross: packet = {packet} is not between {least} and {most} bytes", least = cross::HEADERS, most = cross::LARGEST
    )]
    Cross {
        /// As the scenario has it, bytes.
        packet: u32,
    },
    /// This build lacks the feature that runs the datapath.
    #[error("--real: {controller}@{via}: {why}, or write {controller}@udp")]
    NotBuilt {
        /// The flow's.
        controller: Spec,
        /// The datapath.
        via: &'static str,
        /// What is missing, and how to build it.
        why: &'static str,
    },
    /// Nothing runs the datapath in real time.
    #[error(
        "--real: {controller}@{via}: the real world has no datapath '{via}'; leave out --real, or write {controller}@udp"
    )]
    NoDatapath {
        /// The flow's.
        controller: Spec,
        /// The datapath.
        via: &'static str,
    },
    /// A stack of QUIC cannot run the controller.
    #[error("--real: {controller}@{via}: {misfit}")]
    Quic {
        /// The flow's.
        controller: Spec,
        /// The stack.
        via: &'static str,
        /// What it needs, and where it can run.
        misfit: Box<Misfit>,
    },
    /// Flows over QUIC are of one kind.
    #[error(
        "--real: {controller}@{via}: workload: over QUIC it is 'bulk' or {{ bytes = ... }}; write {controller}@udp"
    )]
    QuicWorkload {
        /// The flow's.
        controller: Spec,
        /// The stack.
        via: &'static str,
    },
    /// QUIC's acknowledgements do not say when packets arrived.
    #[error("--real: {controller}@{via}: arrivals: QUIC does not report when packets arrived; take it out")]
    QuicArrivals {
        /// The flow's.
        controller: Spec,
        /// The stack.
        via: &'static str,
    },
    /// Too many flows of programs.
    #[error("--real: more than {MOST_PROGRAMS} flows of programs; run fewer")]
    Programs,
    /// No table of the scenario describes the program.
    #[error("--real: {contestant}: no program is known by this name; add its table to [programs]")]
    NoProgram {
        /// The contestant.
        contestant: String,
    },
    /// The commands of a scenario run when that is wanted.
    #[error("--real: {contestant}: the scenario's commands are not run; read them, and add --run-programs")]
    Commands {
        /// The contestant.
        contestant: String,
    },
    /// A program is told how many bytes it has to bring over, and nothing else.
    #[error("--real: {contestant}: workload: of a program it is 'bulk' or {{ bytes = ... }}; write one of them")]
    ProgramWorkload {
        /// The contestant.
        contestant: String,
    },
    /// Another user needs root.
    #[error("--real: {contestant}: user: to run as {user} needs root; run paceline as root, or take it out")]
    ProgramUser {
        /// The contestant.
        contestant: String,
        /// As the scenario has it.
        user: String,
    },
    /// There is no such user.
    #[error("--real: {contestant}: user: this machine has no user '{}'; name one that it has", user.escape_debug())]
    NoUser {
        /// The contestant.
        contestant: String,
        /// As the scenario has it.
        user: String,
    },
    /// Programs have hosts of their own.
    #[error("tunnel: {contestant}: a program has hosts of its own, which no tunnel joins; take one of them out")]
    TunnelProgram {
        /// The contestant.
        contestant: String,
    },
    /// The flow's receiver is the kernel's, or another's.
    #[error(
        "--real: {controller}@{via}: receiver: its receiver is not one of paceline's; take it out, or write {controller}@udp"
    )]
    Receiver {
        /// The flow's.
        controller: Spec,
        /// The datapath.
        via: &'static str,
    },
    /// The watched controller is the kernel's.
    #[error(
        "--real: when[{when}].flow: {controller}@tcp runs in the kernel, where its states are not seen; write \
         {controller}@tcp:driven_by=agent or {controller}@udp"
    )]
    WhenKernel {
        /// Which of the scenario.
        when: u32,
        /// The flow's.
        controller: Spec,
    },
    /// The watched controller is a program's.
    #[error("--real: when[{when}].flow: {contestant}: a program does not show its states; watch another flow")]
    WhenProgram {
        /// Which of the scenario.
        when: u32,
        /// The contestant.
        contestant: String,
    },
    /// An application is to do something else.
    #[error(
        "--real: when[{when}].set: what an application does changes in the simulator alone; change a path, or leave out --real"
    )]
    WhenApplication {
        /// Which of the scenario.
        when: u32,
    },
    /// A tunnel joins two ends.
    #[error("tunnel: it joins two ends, and the scenario has [links]; take it out, or write [down] and [up]")]
    TunnelLinks,
    /// Hops do not see what is inside a tunnel.
    #[error("tunnel: hops do not see what is inside it, and the scenario has [telemetry]; take one of them out")]
    TunnelTelemetry,
    /// A flow has an end of its own.
    #[error("tunnel: it joins two ends, and a flow with an extra_delay has another one; take one of them out")]
    TunnelDelay,
}

/// Why a world could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// The world could not be built.
    #[error(transparent)]
    World(#[from] WorldError),
    /// It has something that the real world cannot do.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The kernel cannot run a flow.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A flow failed.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// Telemetry failed.
    #[cfg(feature = "ebpf")]
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Telemetry needs IPv6.
    #[error("telemetry: this kernel has no IPv6; load its module, or take telemetry out")]
    NoIpv6,
    /// The tunnel failed.
    #[error("the tunnel broke ({0})")]
    Tunnel(#[source] io::Error),
    /// The emulator ended before the flows.
    #[error("the emulator stopped")]
    EmulatorStopped,
    /// The capture of its packets cannot be written.
    #[error(transparent)]
    Capture(#[from] LogLost),
    /// What the emulator saw is gone.
    #[error("the emulator lost its recorder; please report it")]
    NoRecorder,
    /// A socket at an end of the path cannot be had.
    #[error("cannot open a socket at an end of the path ({0})")]
    Socket(#[source] io::Error),
    /// A thread cannot be had.
    #[error("cannot start a thread ({0}); run fewer flows")]
    Thread(#[source] io::Error),
    /// What content routers are to have cannot be written.
    #[error("the objects that flows fetch cannot be kept in memory ({0}); make them smaller, or run fewer flows")]
    Objects(#[source] io::Error),
    /// A content router cannot begin, or cannot go on.
    #[error("a content router: {0}")]
    Router(#[from] ServerError),
    /// It did not come to its end.
    #[error("{flow} had not stopped {seconds} s after the end; the run is given up", seconds = GRACE.as_secs())]
    Stuck {
        /// The first that had not.
        flow: String,
    },
    /// It was asked to stop.
    #[error("it was stopped")]
    Aborted,
}

impl From<NamespaceError> for TestbedError {
    fn from(error: NamespaceError) -> Self {
        Self::World(error.into())
    }
}

/// Why a flow did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The system refused something to its sender, or to both of its ends.
    #[error("{flow}: {source}")]
    System {
        /// The contestant, such as `copa@udp`.
        flow: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused something to its receiver.
    #[error("{flow}: receiver: {source}")]
    Receiver {
        /// The contestant.
        flow: String,
        /// What the system said.
        source: io::Error,
    },
    /// An endpoint over UDP could not go on.
    #[error("{flow}: {source}")]
    Udp {
        /// The contestant.
        flow: String,
        /// Why not.
        source: Trouble,
    },
    /// An endpoint over QUIC could not go on.
    #[cfg(feature = "quic")]
    #[error("{flow}: {source}")]
    Quic {
        /// The contestant.
        flow: String,
        /// Why not.
        source: paceline_quic::Error,
    },
    /// A program that is not ours did not do its part.
    #[error("{flow}: {failure}")]
    Program {
        /// The contestant.
        flow: String,
        /// What went wrong.
        failure: ProgramFailure,
    },
    /// Its namespace cannot be entered.
    #[error("{flow}: {source}")]
    Namespace {
        /// The contestant.
        flow: String,
        /// Why not.
        source: NamespaceError,
    },
    /// A thread of it cannot be had.
    #[error("{flow}: cannot start a thread ({source}); run fewer flows")]
    Thread {
        /// The contestant.
        flow: String,
        /// What the system said.
        source: io::Error,
    },
    /// A thread of it panicked.
    #[error("{flow}: its {thread} stopped by a mistake in it; please report it")]
    Panicked {
        /// The contestant.
        flow: String,
        /// Which: `sender`, `receiver` or `router`.
        thread: &'static str,
    },
    /// Its ends cannot be made.
    #[error(transparent)]
    NoEnds(#[from] NotSimulated),
    /// It has no part in the kernel.
    #[error("{flow}: no flow of the kernel; please report it")]
    NoKernel {
        /// The contestant.
        flow: String,
    },
}
