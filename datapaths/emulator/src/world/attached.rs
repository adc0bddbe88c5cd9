//! An end's interface: a TUN device, or one half of a veth pair whose other half is out of sight.

use std::io;

use super::{Wire, WorldError};
use crate::port::packet::{MAC, with_plain_offloads, without_offloads};
use crate::port::tun::BACKLOG;
use crate::port::{PacketSocket, Port, Tun};
use paceline_linux::clock::Clock;
use paceline_linux::interface::Interfaces;
use paceline_linux::namespace::{Namespace, NamespaceError};

/// An interface and the port behind it.
pub(super) struct Attached(pub(super) Box<dyn Port>);

impl Attached {
    /// An interface of this kind, or of the other where there is none.
    pub(super) fn new(wire: Wire, namespace: &Namespace, name: &str, hub: &mut Hub) -> Result<Self, WorldError> {
        let tun = || Self::tun(namespace, name);
        let mut veth = || Self::veth(namespace, name, hub);
        match wire {
            Wire::Tun => tun().or_else(|tun| veth().map_err(|veth| WorldError::NoInterface { tun, veth })),
            Wire::Veth => veth().or_else(|veth| tun().map_err(|tun| WorldError::NoInterface { tun, veth })),
        }
    }

    /// Forgets what the kernel sent of its own accord while nothing carried it on.
    pub(super) fn discard(&mut self, clock: Clock) -> Result<(), NamespaceError> {
        let mut early = Vec::new();
        while !self.0.read(clock, &mut early).map_err(|error| NamespaceError::system("read a port", error))? {}
        Ok(())
    }

    fn tun(namespace: &Namespace, name: &str) -> Result<Self, NamespaceError> {
        namespace.enter(|| {
            let interfaces = Interfaces::open()?;
            let tun = Tun::create(name).map_err(|error| {
                // For a name that another kind of interface has, the kernel says no more than EINVAL.
                let taken = interfaces.names().is_ok_and(|names| names.iter().any(|other| other == name));
                let error = if taken { io::ErrorKind::AlreadyExists.into() } else { error };
                NamespaceError::system(format!("make the TUN device {name}"), error)
            })?;
            interfaces.backlog(name, BACKLOG)?;
            interfaces.quiet(name)?;
            Ok(Self(Box::new(tun)))
        })?
    }

    fn veth(namespace: &Namespace, name: &str, hub: &mut Hub) -> Result<Self, NamespaceError> {
        let open = hub.open;
        let (hub, half) = hub.next()?;
        namespace.enter(|| Interfaces::open()?.veth(name, Some(MAC), &half, &hub))??;
        let fit = || {
            let interfaces = Interfaces::open()?;
            interfaces.quiet(name)?;
            interfaces.up(name)
        };
        let offloads = |port: &PacketSocket| {
            let chosen = if port.takes_frames() { with_plain_offloads(name) } else { without_offloads(name) };
            chosen.map_err(|error| NamespaceError::system(format!("set up {name}"), error))
        };
        let opened = namespace.enter(fit).flatten().and_then(|()| hub.enter(|| open(&half)).flatten());
        let opened = opened.and_then(|port| namespace.enter(|| offloads(&port)).flatten().map(|()| port));
        if opened.is_err() {
            // Its name may be wanted for another kind, and the kernel takes its time when a namespace ends.
            let _ = namespace.enter(|| Interfaces::open()?.remove(name));
        }
        Ok(Self(Box::new(opened?)))
    }
}

/// Where the other halves of a world's veth pairs are: out of sight, in one namespace that no other program knows, since the
/// kernel takes its time for each. Made with the first of them.
pub(super) struct Hub {
    namespace: Option<Namespace>,
    halves: u32,
    /// Opens one, in its namespace.
    open: fn(&str) -> Result<PacketSocket, NamespaceError>,
}

impl Hub {
    pub(super) fn new() -> Self {
        Self { namespace: None, halves: 0, open: open_half }
    }

    /// The namespace, and the name of the next half.
    fn next(&mut self) -> Result<(Namespace, String), NamespaceError> {
        let namespace = match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => self.namespace.insert(Namespace::create()?).clone(),
        };
        self.halves += 1;
        Ok((namespace, format!("hub{}", self.halves)))
    }
}

fn open_half(name: &str) -> Result<PacketSocket, NamespaceError> {
    Interfaces::open()?.up(name)?;
    Interfaces::wait_until_running(name)?;
    PacketSocket::open(name).map_err(|error| NamespaceError::system("open a packet socket", error))
}

/// What to do when neither kind of interface can be had.
pub(super) fn fix(tun: &NamespaceError, veth: &NamespaceError) -> &'static str {
    let any = |kinds: &[io::ErrorKind]| [tun, veth].iter().any(|error| kinds.contains(&error.kind()));
    match () {
        () if any(&TAKEN) => "remove the interface that has its name",
        () if any(&[io::ErrorKind::TimedOut]) => "try again when the machine is less busy, or load the module tun",
        () => "load the module tun or veth",
    }
}

/// What the system says when an interface's name is in use.
const TAKEN: [io::ErrorKind; 2] = [io::ErrorKind::ResourceBusy, io::ErrorKind::AlreadyExists];

/// Whether someone else was faster.
pub(super) fn is_taken(error: &WorldError) -> bool {
    let taken = |error: &NamespaceError| TAKEN.contains(&error.kind());
    matches!(error, WorldError::NoInterface { tun, veth } if taken(tun) || taken(veth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_linux::namespace::needs_root;

    fn names(namespace: &Namespace) -> Vec<String> {
        namespace.enter(|| Interfaces::open().and_then(|open| open.names())).unwrap().unwrap()
    }

    fn never_runs(half: &str) -> Result<PacketSocket, NamespaceError> {
        Err(NamespaceError::system(format!("wait for {half}"), io::ErrorKind::TimedOut))
    }

    #[test]
    fn a_tun_device_takes_the_name_of_a_veth_pair_that_never_ran() {
        if needs_root("a_tun_device_takes_the_name_of_a_veth_pair_that_never_ran") {
            return;
        }
        let namespace = Namespace::create().unwrap();
        let mut hub = Hub { open: never_runs, ..Hub::new() };
        let attached = Attached::new(Wire::Veth, &namespace, "paceline0", &mut hub).map(drop);
        assert!(attached.is_ok(), "{}", attached.unwrap_err());
        let error = Attached::veth(&namespace, "paceline1", &mut hub).map(drop).unwrap_err();
        assert_eq!(error.to_string(), "cannot wait for hub2: timed out");
        assert!(!names(&namespace).contains(&"paceline1".to_owned()));
    }

    #[test]
    fn a_name_that_is_taken_is_said_of_both_kinds() {
        if needs_root("a_name_that_is_taken_is_said_of_both_kinds") {
            return;
        }
        let (namespace, other) = (Namespace::create().unwrap(), Namespace::create().unwrap());
        namespace.enter(|| Interfaces::open()?.veth("paceline0", None, "other", &other)).unwrap().unwrap();
        for wire in [Wire::Veth, Wire::Tun] {
            let error = Attached::new(wire, &namespace, "paceline0", &mut Hub::new()).map(drop).unwrap_err();
            assert!(is_taken(&error), "{error}");
            let text = error.to_string();
            for part in [
                "make the TUN device paceline0: entity already exists",
                "make the veth pair paceline0, hub1: File exists",
            ] {
                assert!(text.contains(part), "{text}");
            }
            assert!(text.ends_with("; remove the interface that has its name"), "{text}");
        }
        assert!(names(&namespace).contains(&"paceline0".to_owned()), "it is not ours to remove");
    }

    #[test]
    fn what_to_do_is_said_by_what_was_wrong() {
        let error = |kind: io::ErrorKind| NamespaceError::system("make it", kind);
        let (none, slow) = (io::ErrorKind::NotFound, io::ErrorKind::TimedOut);
        assert_eq!(fix(&error(none), &error(none)), "load the module tun or veth");
        assert_eq!(fix(&error(none), &error(slow)), "try again when the machine is less busy, or load the module tun");
    }
}
