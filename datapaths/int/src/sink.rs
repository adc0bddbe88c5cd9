//! The sink: takes headers out of what arrives, and reports what they said.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, Object, RingBuffer, RingBufferBuilder};
use paceline_cc::Time;
use paceline_linux::layout::{u16_at, u32_at, u64_at};
use paceline_telemetry::sink::JudgedGap;
use paceline_telemetry::{FlowReport, NodeReport, TelemetryHeader, Tuple};

use crate::attach::{Attached, Place, Side, attach};
use crate::counters::counters;
use crate::flows::read_tuple;
use crate::interface::Interface;
use crate::load::{load, map, refused, words};
use crate::table::Table;
use crate::{HeaderClock, Hook, NodeError};

const ROLE: &str = "sink";
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sink.bpf.o"));
/// Between two looks while packets come, which wake nothing then: an eighth of the time between two reports (our choice).
const PAUSE: Duration = Duration::from_millis(1);
/// How long the reader looks on its own accord after the last packet (our choice: two reports).
const LINGER: Duration = Duration::from_millis(20);
/// Where the program is told that the reader sleeps.
const READER: &str = ".data.reader";
/// `struct arrival` of src/bpf/sink.bpf.c.
const ARRIVAL: usize = 56;

counters! {
    /// What a sink has counted.
    SinkCounters {
        /// Headers taken out: one for a buffer.
        taken,
        /// Packets on the wire that had one.
        packets,
        /// Packets whose header was taken out and lost, because user space did not read quickly enough.
        ring_full,
        /// Buffers with a header of another namespace, left as they were.
        unknown_namespace,
        /// Buffers with another Hop-by-Hop header, or one with other options as well, left as they were.
        foreign_header,
        /// Packets where the kernel refused a change.
        failed,
        /// Packets whose header was taken out and not read, because they are of no connection of this host, TCP would not take them, or they
        /// are of UDP and [`SinkOptions::udp`] is off.
        foreign_flow,
    }
}

/// What a sink does.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// The clock that the headers' times are of.
    pub clock: HeaderClock,
    /// Source and sink have that clock in common, so that delays are delays and not differences.
    pub synced: bool,
    /// Most flows at a time; those that were silent longest make place for others. 65536 by default, the format's. Who is silent for a
    /// minute is forgotten anyway.
    pub flows: usize,
    /// Octets of the buffer between kernel and user space, a power of two and a multiple of the page size. 1 MiB by default: some
    /// 7000 headers.
    pub ring_bytes: u32,
    /// Flows that this machine forwards are read too, though it cannot tell what is forged of them: for a router at the edge of the
    /// domain. `false` by default: only packets that TCP of this machine would take.
    pub forwarded: bool,
    /// Least hop limit of packets that are read: with 255 at all senders, 255 less the routers on the way keeps out what comes from
    /// further away (RFC 5082). 0 by default: any.
    pub hop_limit: u8,
    /// Datagrams of UDP that a socket of this machine receives are read too. `false` by default: they have no numbers that a stranger would
    /// have to know, so that only [`SinkOptions::hop_limit`] and the domain's edges keep forged ones out.
    pub udp: bool,
    /// How the program must be held; `None`: as the kernel can.
    pub hook: Option<Hook>,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            clock: HeaderClock::Machine,
            synced: false,
            flows: 65536,
            ring_bytes: 1 << 20,
            forwarded: false,
            hop_limit: 0,
            udp: false,
            hook: None,
        }
    }
}

/// A header that came.
struct Arrival {
    at: Time,
    tuple: Tuple,
    packets: u16,
    /// Packets that came without a header since the last one, where the source numbers them too.
    bare: u32,
    hop_limit: u8,
    /// `None`: it is not read.
    header: Option<TelemetryHeader>,
}

impl Arrival {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (fixed, header) = bytes.split_first_chunk::<ARRIVAL>()?;
        let header = header.get(..usize::from(u16_at(fixed, 44)?))?;
        Some(Self {
            at: Time::from_nanos(u64_at(fixed, 0)?),
            tuple: read_tuple(&fixed[8..44])?,
            packets: u16_at(fixed, 46)?,
            bare: u32_at(fixed, 48)?,
            hop_limit: u32_at(fixed, 52)? as u8,
            header: TelemetryHeader::decode(header).ok().map(|(header, _)| header),
        })
    }
}

/// A sink at an interface. Dropping it takes it away, as the end of the process does, however that ends.
pub struct SinkNode {
    attached: Attached,
    interface: Interface,
    ring: RingBuffer<'static>,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    object: Object,
    table: Table,
    clock: HeaderClock,
    unreadable: u64,
    /// Until when it looks without being woken; and that the program knows that it does so no more.
    linger: Instant,
    sleeps: bool,
}

impl SinkNode {
    /// Begins at an interface of the calling thread's network namespace, for what arrives through it.
    ///
    /// # Errors
    /// One line: the process is not root, there is no such interface, the kernel lacks something, or an option cannot be.
    pub fn open(interface: &str, options: &SinkOptions) -> Result<Self, NodeError> {
        if !options.ring_bytes.is_power_of_two() || options.ring_bytes < 4096 {
            let reason = format!("{} is not a power of two from 4096 on", options.ring_bytes);
            return Err(NodeError::Option { option: "ring bytes", reason });
        }
        let interface = Interface::find(interface)?;
        let config = words(&[
            interface.l2,
            u32::from(options.clock == HeaderClock::Tai),
            u32::from(options.forwarded),
            u32::from(options.hop_limit),
            u32::from(options.udp),
        ]);
        let mut object = load(ROLE, OBJECT, &config, |object| {
            let mut ring = object.maps_mut().find(|map| map.name() == "arrivals").ok_or_else(crate::load::missing)?;
            ring.set_max_entries(options.ring_bytes)
        })?;
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let ring = reader(&object, Arc::clone(&arrivals)).map_err(|source| refused(ROLE, source))?;
        let attached =
            attach(ROLE, &mut object, "pl_int_sink", &interface, (Side::Ingress, Place::Last), options.hook)?;
        let table = Table::new(options.flows, options.synced);
        let (clock, linger) = (options.clock, Instant::now());
        Ok(Self { attached, interface, ring, arrivals, object, table, clock, unreadable: 0, linger, sleeps: false })
    }

    /// How its program is held.
    pub const fn hook(&self) -> Hook {
        self.attached.hook()
    }

    /// Whether it still does something; to be asked about ten times a second, in the network namespace that it was opened in.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn ensure(&self) -> Result<(), NodeError> {
        self.interface.ensure(ROLE)
    }

    /// What its program has counted.
    pub fn counters(&self) -> SinkCounters {
        SinkCounters::read(&self.object)
    }

    /// Headers that were taken out and could not be read.
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Flows that it knows.
    pub fn flows(&self) -> usize {
        self.table.len()
    }

    /// Flows that it forgot because there were too many.
    pub const fn forgotten(&self) -> u64 {
        self.table.forgotten
    }

    /// What missing packets were taken for since the last call, 4096 gaps at most.
    pub fn judged(&mut self) -> Vec<(Tuple, JudgedGap)> {
        std::mem::take(&mut self.table.judged)
    }

    /// A node reported: the limits of its queues.
    pub fn node(&mut self, report: &NodeReport) {
        self.table.node(report);
    }

    /// Waits for reports, at most this long, and gives those that are due; none after that time. Call it again and again: while it is
    /// not called, packets' headers wait in a buffer that may become full.
    ///
    /// # Errors
    /// What the system says.
    pub fn reports(&mut self, longest: Duration) -> libbpf_rs::Result<Vec<FlowReport>> {
        let start = Instant::now();
        let mut reports = Vec::new();
        loop {
            self.take()?;
            let now = self.clock.now();
            self.table.poll(now, &mut reports);
            let left = longest.saturating_sub(start.elapsed());
            if !reports.is_empty() || left.is_zero() {
                return Ok(reports);
            }
            let due = Duration::from_nanos(self.table.next_timeout().since(now).as_nanos());
            if Instant::now() < self.linger {
                thread::sleep(due.min(left).min(PAUSE));
            } else if !self.sleeps {
                // A packet of this moment may have found it awake: one look more.
                self.go_to_sleep()?;
                thread::sleep(due.min(left).min(PAUSE));
            } else {
                match self.ring.poll(due.min(left)) {
                    // A signal: the caller looks what it means.
                    Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => return Ok(reports),
                    polled => polled?,
                }
            }
        }
    }

    /// Says to the program that the next packet is to wake it.
    fn go_to_sleep(&mut self) -> libbpf_rs::Result<()> {
        self.sleeps = true;
        map(&self.object, READER)?.update(&0_u32.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY)
    }

    /// Takes what waits.
    fn take(&mut self) -> libbpf_rs::Result<()> {
        self.ring.consume()?;
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        if !arrivals.is_empty() {
            self.linger = Instant::now() + LINGER;
            self.sleeps = false;
        }
        for Arrival { at, tuple, packets, bare, hop_limit, header } in arrivals.drain(..) {
            match header {
                Some(header) => self.table.arrive(at, tuple, (&header, hop_limit), packets, bare),
                None => self.unreadable += 1,
            }
        }
        Ok(())
    }
}

fn reader(object: &Object, arrivals: Arc<Mutex<Vec<Arrival>>>) -> libbpf_rs::Result<RingBuffer<'static>> {
    let map = map(object, "arrivals")?;
    let mut ring = RingBufferBuilder::new();
    ring.add(&map, move |bytes: &[u8]| {
        arrivals.lock().unwrap_or_else(PoisonError::into_inner).extend(Arrival::read(bytes));
        0
    })?;
    ring.build()
}
