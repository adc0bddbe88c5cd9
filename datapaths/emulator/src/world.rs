//! Two ends joined by an emulated path: near, where the user is, and far, where the network is.
//!
//! Every namespace, interface and route made here hangs on a file descriptor of this process: nothing is left behind
//! however it ends, and nothing can be stale.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use paceline_cc::Nanos;
use paceline_path::Path;

use crate::emulator::{DuplexLink, Emulator, EmulatorError, EmulatorReport, EmulatorTap, Setup};
use crate::frame::Frame;
use crate::port::packet::may_buffer;
use paceline_linux::clock::Clock;
use paceline_linux::interface::Interfaces;
use paceline_linux::namespace::{Namespace, NamespaceError};

mod attached;
mod network;
mod stubs;

pub use network::{Network, Nodes, interface};

use attached::{Attached, Hub, fix, is_taken};

/// The near end's interface, and that of a far end in a namespace of its own.
const NAMES: [&str; 2] = ["near", "far"];
/// A far end's interface in a namespace that was there before, with the number of its block behind it.
const OUTER: &str = "paceline";

/// A block of addresses: a path inside a path takes a part of the outer one's, so that no address is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    base: u32,
    /// Bits of its prefix.
    length: u8,
}

impl Block {
    /// Of paths that reach a namespace which was there before: RFC 6598's, as Mahimahi has it.
    const SHARED: Self = Self { base: u32::from_be_bytes([100, 64, 0, 0]), length: 10 };
    /// Of worlds that reach nothing else, where any private block would do.
    const ISOLATED: Self = Self { base: u32::from_be_bytes([10, 77, 0, 0]), length: OUTERMOST };

    /// Parts of this block for paths; the first is left out where it has the block's own ends in it.
    fn parts(self) -> impl Iterator<Item = (u32, Self)> {
        let outermost = self.length < OUTERMOST;
        let length = if outermost { OUTERMOST } else { self.length + NESTED };
        let count = if length > LONGEST { 0 } else { 1 << (length - self.length) };
        let part = move |number: u32| (number, Self { base: self.base + (number << (32 - length)), length });
        (u32::from(!outermost)..count).map(part)
    }

    fn far(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base + 1)
    }

    fn near(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base + 2)
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        (address.to_bits() ^ self.base) >> (32 - self.length) == 0
    }

    fn overlaps(self, address: Ipv4Addr, length: u8) -> bool {
        let shared = self.length.min(length).min(32);
        u64::from(address.to_bits() ^ self.base) >> (32 - u32::from(shared)) == 0
    }
}

/// Prefix of an outermost path: 256 of them, each with 16 inside, and so on four deep (our choice).
const OUTERMOST: u8 = 18;
/// Bits by which a path inside a path has a longer prefix.
const NESTED: u8 = 4;
/// Space for two ends.
const LONGEST: u8 = 30;

/// The IPv6 address that goes with an IPv4 address: below fd77::/96.
fn ipv6_of(address: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfd77 << 112 | u128::from(address.to_bits()))
}

/// Why a world could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// Namespaces, interfaces or routes.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The emulator.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// Neither kind of interface can be had.
    #[error("the kernel gives no interface: no TUN device ({tun}), no veth pair ({veth}); {}", fix(tun, veth))]
    NoInterface {
        /// Why not TUN.
        tun: NamespaceError,
        /// Why not veth.
        veth: NamespaceError,
    },
    /// All blocks of addresses are in use.
    #[error("no addresses are left for another path here; end some of those that run")]
    Crowded,
    /// A path inside too many paths.
    #[error("this is the fifth path inside a path; four are possible")]
    TooDeep,
}

/// Where the far end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Far {
    /// In a new namespace: the two ends reach each other and nothing else.
    Isolated,
    /// In the calling thread's namespace: its programs reach the near end, and those of the near end reach its addresses.
    Here,
}

/// What an end's interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A TUN device.
    Tun,
    /// One half of a veth pair, its other half read by a packet socket.
    Veth,
}

impl Wire {
    /// The one to take here. A packet socket reports when a packet arrived, so that it does not matter when the emulator
    /// woke up; but without privilege its buffer is so small that bursts are lost. A TUN device carries more packets a
    /// second ([`crate::accuracy`] measures both).
    pub fn preferred() -> Self {
        if may_buffer() { Self::Veth } else { Self::Tun }
    }
}

/// What is between the ends.
pub struct Between {
    /// From far to near.
    pub down: Path<Frame>,
    /// From near to far.
    pub up: Path<Frame>,
    /// Who watches.
    pub taps: Vec<Box<dyn EmulatorTap>>,
    /// The clock of the run: the paths' schedules begin at its zero.
    pub clock: Clock,
    /// Packets later than this count as late.
    pub bound: Nanos,
}

/// One end.
#[derive(Clone, Debug)]
pub struct Site {
    /// Where its programs run.
    pub namespace: Namespace,
    /// The name of its interface; of a node with several, of the first.
    pub interface: String,
    /// Its IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address; `None` when the kernel has no IPv6.
    pub ipv6: Option<Ipv6Addr>,
}

/// Two ends with nothing between them yet. Making them takes the kernel a second or two on a busy machine; joining them takes
/// none, so that a clock may start in between.
pub struct WorldEnds {
    near: Site,
    far: Site,
    near_port: Attached,
    far_port: Attached,
}

impl WorldEnds {
    /// Makes them. [`paceline_linux::namespace::acquire`] comes first.
    ///
    /// # Errors
    /// When the kernel refuses; nothing is left behind.
    pub fn make(wire: Wire, far: Far) -> Result<Self, WorldError> {
        let inside = Namespace::create()?;
        let outside = match far {
            Far::Isolated => Namespace::create()?,
            Far::Here => Namespace::current()?,
        };
        let mut hub = Hub::new();
        let (block, name, far_port) = match far {
            Far::Isolated => (Block::ISOLATED, NAMES[1].to_owned(), Attached::new(wire, &outside, NAMES[1], &mut hub)?),
            Far::Here => claim(wire, &outside, &mut hub)?,
        };
        let near_port = Attached::new(wire, &inside, NAMES[0], &mut hub)?;
        let ipv6 = fit(&inside, NAMES[0], block.near(), block.length)?;
        let there = fit(&outside, &name, block.far(), block.length)?;
        inside.enter(|| Interfaces::open()?.default_route(NAMES[0], ipv6.is_some()))??;
        inside.enter(|| Interfaces::wait_until_running(NAMES[0]))??;
        outside.enter(|| Interfaces::wait_until_running(&name))??;
        let near = Site { namespace: inside, interface: NAMES[0].to_owned(), ipv4: block.near(), ipv6 };
        let far = Site { namespace: outside, interface: name, ipv4: block.far(), ipv6: there };
        Ok(Self { near, far, near_port, far_port })
    }

    /// Starts the emulator between them.
    ///
    /// # Errors
    /// When the kernel refuses; nothing is left behind.
    pub fn join(mut self, between: Between) -> Result<EmulatedWorld, WorldError> {
        let Between { down, up, taps, clock, bound } = between;
        for port in [&mut self.near_port, &mut self.far_port] {
            port.discard(clock)?;
        }
        let links = vec![DuplexLink { near: self.near_port.0, far: self.far_port.0, down, up, transit: [None, None] }];
        let emulator = Emulator::start(Setup { links, taps, clock, bound, changer: None })?;
        Ok(EmulatedWorld { near: self.near, far: self.far, emulator })
    }
}

/// Two ends and the running emulator between them. Dropping it ends both.
pub struct EmulatedWorld {
    near: Site,
    far: Site,
    emulator: Emulator,
}

impl EmulatedWorld {
    /// Makes the ends and starts the emulator. [`paceline_linux::namespace::acquire`] comes first.
    ///
    /// # Errors
    /// When the kernel refuses; nothing is left behind.
    pub fn build(far: Far, between: Between) -> Result<Self, WorldError> {
        Self::build_over(Wire::preferred(), far, between)
    }

    /// As [`EmulatedWorld::build`], over this kind of interface rather than the other, where the kernel has it.
    ///
    /// # Errors
    /// As [`EmulatedWorld::build`].
    pub fn build_over(wire: Wire, far: Far, between: Between) -> Result<Self, WorldError> {
        WorldEnds::make(wire, far)?.join(between)
    }

    /// The user's end.
    pub fn near(&self) -> &Site {
        &self.near
    }

    /// The network's end.
    pub fn far(&self) -> &Site {
        &self.far
    }

    /// Whether the emulator still carries packets; if not, [`EmulatedWorld::stop`] says why.
    pub fn is_running(&self) -> bool {
        self.emulator.is_running()
    }

    /// Stops the emulator; the ends are gone with their last program.
    ///
    /// # Errors
    /// When the emulator ended before, and why.
    pub fn stop(self) -> Result<EmulatorReport, EmulatorError> {
        let report = self.emulator.stop();
        // The kernel would do it as well, a moment after the last descriptor is closed.
        let _ = self.far.namespace.enter(|| Interfaces::open()?.remove(&self.far.interface));
        report
    }
}

/// A block of addresses and an interface in a namespace that others use too. The kernel gives a name to one of two who
/// ask at once, and the name has the block's number in it.
fn claim(wire: Wire, namespace: &Namespace, hub: &mut Hub) -> Result<(Block, String, Attached), WorldError> {
    let (taken, own, names) = namespace.enter(|| {
        let interfaces = Interfaces::open()?;
        let names = interfaces.names()?;
        let inner = names.iter().any(|name| name == NAMES[0]);
        let own = if inner { interfaces.addresses(Some(NAMES[0]))? } else { Vec::new() };
        Ok::<_, NamespaceError>((interfaces.addresses(None)?, own, names))
    })??;
    let mine = own.iter().find_map(|(address, length)| match address {
        IpAddr::V4(address) if Block::SHARED.contains(*address) || Block::ISOLATED.contains(*address) => {
            Some(Block { base: address.to_bits() - 2, length: *length })
        }
        _ => None,
    });
    let pool = mine.unwrap_or(Block::SHARED);
    if pool.parts().next().is_none() {
        return Err(WorldError::TooDeep);
    }
    let free = |block: Block| {
        let inside = mine.map(Block::near);
        taken.iter().all(|(address, length)| match address {
            IpAddr::V4(address) if Some(*address) != inside => !block.overlaps(*address, *length),
            _ => true,
        })
    };
    for (number, block) in pool.parts().filter(|(_, block)| free(*block)) {
        let name = format!("{OUTER}{number}");
        if names.contains(&name) {
            continue;
        }
        match Attached::new(wire, namespace, &name, hub) {
            Ok(port) => return Ok((block, name, port)),
            Err(error) if is_taken(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(WorldError::Crowded)
}

/// Joins two namespaces by a veth pair alone, and says the address at `far`: what an emulated path is compared with.
pub(crate) fn bare_veth(near: &Namespace, far: &Namespace) -> Result<Ipv4Addr, NamespaceError> {
    near.enter(|| Interfaces::open()?.veth(NAMES[0], None, NAMES[1], far))??;
    fit(near, NAMES[0], Block::ISOLATED.near(), Block::ISOLATED.length)?;
    fit(far, NAMES[1], Block::ISOLATED.far(), Block::ISOLATED.length)?;
    near.enter(|| Interfaces::wait_until_running(NAMES[0]))??;
    far.enter(|| Interfaces::wait_until_running(NAMES[1]))??;
    Ok(Block::ISOLATED.far())
}

/// Sets an interface up and gives it its addresses; the IPv6 address if there is IPv6.
fn fit(namespace: &Namespace, name: &str, ipv4: Ipv4Addr, length: u8) -> Result<Option<Ipv6Addr>, NamespaceError> {
    namespace.enter(|| {
        let interfaces = Interfaces::open()?;
        interfaces.add_address(name, ipv4.into(), length)?;
        let ipv6 = ipv6_of(ipv4);
        let has_ipv6 = std::path::Path::new("/proc/sys/net/ipv6").exists()
            && interfaces.add_address(name, ipv6.into(), 96 + length).is_ok();
        interfaces.up(name)?;
        Ok(has_ipv6.then_some(ipv6))
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(block: Block, number: usize) -> Block {
        block.parts().nth(number).unwrap().1
    }

    #[test]
    fn blocks_nest_four_deep_without_touching_each_other() {
        assert_eq!(Block::SHARED.parts().count(), 256);
        let outermost = part(Block::SHARED, 1);
        assert_eq!((outermost.far(), outermost.length), ("100.64.64.1".parse().unwrap(), 18));
        let mut block = outermost;
        for depth in 2..=4 {
            let own = [block.far(), block.near()];
            assert_eq!(block.parts().count(), 15);
            for (_, inner) in block.parts() {
                assert!(own.iter().all(|address| !inner.contains(*address)), "{depth}: {inner:?}");
                assert!(block.contains(inner.near()));
            }
            block = part(block, 0);
        }
        assert_eq!(block.parts().count(), 0);
    }

    #[test]
    fn a_block_in_use_is_seen() {
        let block = part(Block::SHARED, 0);
        assert!(block.overlaps("100.64.3.9".parse().unwrap(), 32));
        assert!(block.overlaps("100.64.3.9".parse().unwrap(), 8));
        assert!(block.overlaps("1.2.3.4".parse().unwrap(), 0));
        assert!(!block.overlaps("100.64.64.1".parse().unwrap(), 18));
    }

    #[test]
    fn ipv6_addresses_hold_the_ipv4_address() {
        assert_eq!(ipv6_of("10.77.0.2".parse().unwrap()).to_string(), "fd77::a4d:2");
    }
}
