//! The agent: runs any controller of `paceline_cc` for TCP flows of the kernel, from user space.
//!
//! The module [`AGENT`] (`paceline`) reports through a ring what became of a flow; the agent informs the flow's controller
//! (`transport::Counted`), and writes window and pacing rate into memory that the module reads. A socket takes part by
//! selecting the module (`TCP_CONGESTION`). One thread serves all flows; an idle flow costs nothing.
//!
//! When the agent is silent for half a second, its flows are CUBIC, in the kernel, from the window that they have; when it is back,
//! or another is started, they are steered again. Only root can start an agent, and only root reaches its maps: an ordinary user
//! chooses whether a socket of theirs takes part, and nothing about anyone else's.

mod answers;
mod figures;
mod flows;
mod news;
mod orphans;
mod report;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, OpenObject, RingBufferBuilder};
use paceline_cc::observe::Observer;
use paceline_cc::{Env, Nanos, Spec, Telemetry, Time};
use paceline_linux::clock::{monotonic, span, wait};
use paceline_linux::thread::{go_first, set_timer_slack};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::load::{LoadError, Loaded, into_io, missing};
use crate::mapped::Mapped;
use crate::modules::AGENT;
use answers::{ANSWER_BYTES, Answers, CONTROL_BYTES, COUNTS_BYTES};
use figures::Counting;
use flows::Flows;
use news::{Item, News};

pub use figures::AgentFigures;
pub use report::SelectedFlow;

/// One of this many slots is left to others by the flows of one user, root's aside. Our choice: a server that is alone has most, and no user
/// can take all from the others.
const LEFT: u32 = 4;
/// The agent does not look at the ring more often: a look costs some 25 us where it is also a wake-up. Our choice: 2000 a second
/// are 5 % of a core at any rate, and an answer still comes well within a millisecond. A report after a pause is taken in at once.
const REST: Nanos = Nanos::from_micros(500);
/// It shows a sign of life at least that often: a fifth of the silence after which the module takes over (`AGENT_SILENCE`).
const SIGN_OF_LIFE: Nanos = Nanos::from_millis(100);
/// Timers of the thread may be late by this much. Our choice: Linux's default, 50 us, is a tenth of [`REST`].
const SLACK_NS: u32 = 5_000;

/// How much an agent can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentLimits {
    /// Flows at a time, three quarters of them for one user, root aside; others are CUBIC. 16384: what 10 000 idle connections and as many
    /// new ones need, in 3 MB of the kernel.
    pub slots: u32,
    /// Bytes of the ring, a power of two and at least a page. 1 MiB: 9000 reports.
    pub ring: u32,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self { slots: 16384, ring: 1 << 20 }
    }
}

/// Why there is no agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelAgentError {
    /// Its module could not be loaded; another agent holds it, say.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The system lacks something for it.
    #[error("the agent cannot start: {0}")]
    System(#[from] io::Error),
}

impl From<libbpf_rs::Error> for KernelAgentError {
    fn from(error: libbpf_rs::Error) -> Self {
        Self::System(into_io(error))
    }
}

/// A running agent. Dropping it ends it: the module is taken out, and the flows that it steered are CUBIC at once.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = paceline_kernel::KernelAgent::start(|flow| {
///     (flow.remote.port() == 443).then(|| "copa:delta=0.1".parse().expect("a registered controller"))
/// })?;
/// // From here on: setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "paceline").
/// println!("{:?}", agent.figures());
/// # Ok(())
/// # }
/// ```
pub struct KernelAgent {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    counts: Mapped,
    _module: Loaded,
}

/// What the agent and its thread share.
struct Shared {
    counting: Arc<Counting>,
    news: News,
    ended: AtomicBool,
    wake: OwnedFd,
    control: Mapped,
}

impl KernelAgent {
    /// Loads the module and serves the flows that select it. `choose` says, in the agent's thread, which controller steers a
    /// flow; `None` leaves it to CUBIC, and so does a controller that a kernel flow cannot carry
    /// ([`TCP_AGENT`](paceline_cc::datapath::TCP_AGENT)`.carries` says so beforehand).
    ///
    /// # Errors
    /// One line: not root, the kernel lacks something, or another agent is there already.
    pub fn start(choose: impl FnMut(&SelectedFlow) -> Option<Spec> + Send + 'static) -> Result<Self, KernelAgentError> {
        Self::start_with(AgentLimits::default(), choose)
    }

    /// As [`KernelAgent::start`], with room for as many flows and reports.
    ///
    /// # Errors
    /// Those of [`KernelAgent::start`].
    pub fn start_with(
        options: AgentLimits,
        choose: impl FnMut(&SelectedFlow) -> Option<Spec> + Send + 'static,
    ) -> Result<Self, KernelAgentError> {
        Self::start_observed(options, choose, |_, _| None)
    }

    /// As [`KernelAgent::start_with`], each controller seen by the one that `observe` answers, in the agent's thread, for its flow and what
    /// it is made with. Its times are of the monotonic clock ([`monotonic`]).
    ///
    /// # Errors
    /// Those of [`KernelAgent::start`].
    pub fn start_observed(
        options: AgentLimits,
        choose: impl FnMut(&SelectedFlow) -> Option<Spec> + Send + 'static,
        observe: impl FnMut(&SelectedFlow, &Env) -> Option<Box<dyn Observer>> + Send + 'static,
    ) -> Result<Self, KernelAgentError> {
        let adopted = Cell::new(false);
        let mut parts = None;
        let module = AGENT.load_with(
            |object| {
                size(object, &options)?;
                adopted.set(orphans::adopt(object)?);
                Ok(())
            },
            |object| {
                if !adopted.get() {
                    fill(&map(object, "pl_free")?, options.slots)?;
                }
                let handle = |name| map(object, name);
                parts = Some((handle("pl_control")?, handle("pl_answers")?, handle("pl_counts")?, handle("pl_ring")?));
                Ok(())
            },
        )?;
        let Some((control, answers, counts, ring)) = parts else {
            return Err(io::Error::from(io::ErrorKind::NotFound).into());
        };
        let counting = Arc::new(Counting::new());
        let shared = Arc::new(Shared {
            counting: counting.clone(),
            news: News::default(),
            ended: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?,
            control: Mapped::new(control, CONTROL_BYTES)?,
        });
        let answers = Answers(Mapped::new(answers, options.slots as usize * ANSWER_BYTES)?);
        let counts = Mapped::new(counts, COUNTS_BYTES)?;
        let flows = Flows::new(Box::new(choose), Box::new(observe), answers, options.slots, counting);
        // The number that says which agent it is, before the sign of life that makes it one.
        shared.control.word(12).store(options.slots - options.slots / LEFT, Ordering::Release);
        shared.control.word(8).fetch_add(1, Ordering::Release);
        shared.live(monotonic());
        let served = shared.clone();
        let serve = move || {
            if let Err(error) = served.serve(flows, &ring) {
                eprintln!("the agent ends, its flows are CUBIC: {error}");
            }
        };
        let thread = thread::Builder::new().name("paceline-agent".to_owned()).spawn(serve)?;
        Ok(Self { shared, thread: Some(thread), counts, _module: module })
    }

    /// Someone who informs flows' controllers of what the hops of their paths report; it may outlive the agent.
    pub fn informant(&self) -> Informant {
        Informant(self.shared.clone())
    }

    /// What became of its flows so far.
    pub fn figures(&self) -> AgentFigures {
        let count = |offset| self.counts.wide(offset).load(Ordering::Relaxed);
        AgentFigures { no_slot: count(0), no_room: count(8), lapses: count(16), ..self.shared.counting.figures() }
    }

    /// Whether its thread is running. It ends early only where the system fails it.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

/// Informs the controllers of an agent's flows of what the hops of their paths report, from any thread.
#[derive(Clone)]
pub struct Informant(Arc<Shared>);

impl Informant {
    /// Passes on a report about the flow from `local` to `remote`, if an agent steers it; [`Telemetry::now`] is of the monotonic clock.
    pub fn telemetry(&self, local: SocketAddr, remote: SocketAddr, telemetry: &Telemetry<'_>) {
        self.0.news.push(Item::new(local, remote, telemetry));
        self.0.wake();
    }
}

impl std::fmt::Debug for Informant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Informant")
    }
}

impl std::fmt::Debug for KernelAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Agent").field(&self.figures()).finish()
    }
}

impl Drop for KernelAgent {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Its flows need not find out by its silence.
        self.shared.live(Time::ZERO);
    }
}

impl Shared {
    /// Shows a sign of life.
    fn live(&self, now: Time) {
        self.control.wide(0).store(now.as_nanos() / 1000, Ordering::Release);
    }

    /// Wakes the thread.
    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn serve(&self, flows: Flows, ring: &MapHandle) -> Result<(), KernelAgentError> {
        // An answer that is late steers nothing, and an ordinary thread waits for up to a tick of the scheduler (4 ms). [`REST`] leaves
        // the processor to others.
        set_timer_slack(SLACK_NS);
        go_first();
        let flows = Rc::new(RefCell::new(flows));
        let mut builder = RingBufferBuilder::new();
        let taker = flows.clone();
        let counting = self.counting.clone();
        builder.add(ring, move |bytes| {
            taker.borrow_mut().take(bytes);
            // A report begins with its time.
            if let Some(at) = bytes.first_chunk().map(|at| u64::from_ne_bytes(*at)) {
                counting.reacted((monotonic().as_nanos() / 1000).saturating_sub(at));
            }
            0
        })?;
        let reports = builder.build()?;
        let mut looked = Time::ZERO;
        while !self.ended.load(Ordering::Acquire) {
            let rest = REST - (monotonic() - looked);
            if rest > Nanos::ZERO {
                thread::sleep(Duration::from_nanos(rest.as_nanos()));
            }
            looked = monotonic();
            self.live(looked);
            self.counting.note(|figures| figures.wakes += 1);
            reports.consume()?;
            let mut flows = flows.borrow_mut();
            // It counts wakes; how many there were is of no interest.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            self.news.take().iter().for_each(|item| flows.inform(item, monotonic()));
            flows.tick(monotonic());
            let longest = (flows.next_tick() - monotonic()).min(SIGN_OF_LIFE);
            drop(flows);
            let mut ready = [PollFd::new(ring, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
            wait(&mut ready, Some(span(longest)))?;
        }
        Ok(())
    }
}

/// Makes the maps as large as wanted.
fn size(object: &mut OpenObject, options: &AgentLimits) -> libbpf_rs::Result<()> {
    for mut map in object.maps_mut() {
        let entries = match map.name().as_encoded_bytes() {
            b"pl_answers" | b"pl_flows" | b"pl_free" => options.slots,
            b"pl_ring" => options.ring,
            _ => continue,
        };
        map.set_max_entries(entries)?;
    }
    Ok(())
}

fn map(object: &Object, name: &str) -> libbpf_rs::Result<MapHandle> {
    let map = object.maps().find(|map| map.name() == name).ok_or_else(missing)?;
    MapHandle::try_from(&map)
}

/// All slots are free.
fn fill(free: &MapHandle, slots: u32) -> libbpf_rs::Result<()> {
    (0..slots).try_for_each(|slot| free.update(&[], &slot.to_ne_bytes(), MapFlags::ANY))
}
