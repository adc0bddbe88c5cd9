//! Puts a program on an interface, so that it is gone with its owner, however that ends.
//!
//! By a tcx link, which the kernel ends with its descriptor (Linux 6.6 and newer); else as a filter of the clsact discipline, which
//! outlives its owner: then a process waits for the owner's end and removes it.
//!
//! Source: Linux kernel/bpf/tcx.c, net/sched/cls_bpf.c; tc(8), tc-bpf(8).

#![expect(unsafe_code, reason = "libbpf-rs 0.27 has no call for tcx links")]

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::ptr::NonNull;

use libbpf_rs::{AsRawLibbpf, Link, Object, ProgramMut, TC_EGRESS, TC_INGRESS, TcHook, libbpf_sys};

use crate::interface::Interface;
use crate::load::{missing, refused};
use crate::{Hook, NodeError};

/// Which packets of the interface.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Ingress,
    Egress,
}

/// Where among the programs there, whichever came first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    First,
    Last,
}

impl Place {
    /// As the priority of a filter: smaller ones run first, and several may have the same. Our choice: in front of all others that leave
    /// these two free, for many filters end the search.
    const fn priority(self) -> u32 {
        match self {
            Self::First => 1,
            Self::Last => 2,
        }
    }
}

/// A program on an interface. Dropping it removes it.
pub(crate) enum Attached {
    Link { _link: Link },
    Filter { _guard: Guard },
}

impl Attached {
    /// How it is held.
    pub(crate) const fn hook(&self) -> Hook {
        match self {
            Self::Link { .. } => Hook::Tcx,
            Self::Filter { .. } => Hook::Clsact,
        }
    }
}

/// Attaches the object's program of this name; `only` for a hook that must be, and no other.
pub(crate) fn attach(
    role: &'static str,
    object: &mut Object,
    program: &str,
    interface: &Interface,
    (side, place): (Side, Place),
    only: Option<Hook>,
) -> Result<Attached, NodeError> {
    let program = object.progs_mut().find(|one| one.name() == program).ok_or_else(|| refused(role, missing()))?;
    let failed = |source| NodeError::Attach { name: interface.name.clone(), role, source };
    if only != Some(Hook::Clsact) {
        match link(&program, interface.index, place) {
            Ok(link) => return Ok(Attached::Link { _link: link }),
            // Linux before 6.6 knows no such link.
            Err(error) if only.is_none() && error.kind() == io::ErrorKind::InvalidInput => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(NodeError::NotRoot),
            Err(error) => return Err(failed(error)),
        }
    }
    filter(&program, interface, side, place).map(|guard| Attached::Filter { _guard: guard }).map_err(failed)
}

fn link(program: &ProgramMut<'_>, index: i32, place: Place) -> io::Result<Link> {
    // Relative to no program: to all of them.
    let flags = match place {
        Place::First => libbpf_sys::BPF_F_BEFORE,
        Place::Last => libbpf_sys::BPF_F_AFTER,
    };
    let sz = size_of::<libbpf_sys::bpf_tcx_opts>() as _;
    let options = libbpf_sys::bpf_tcx_opts { sz, flags, ..Default::default() };
    // SAFETY: the program lives in the object that it was taken from; the options, which have their size in them, until it returns.
    let link = unsafe { libbpf_sys::bpf_program__attach_tcx(program.as_libbpf_object().as_ptr(), index, &options) };
    let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: libbpf made it, says so by not giving null, and leaves it to its caller.
    Ok(unsafe { Link::from_ptr(link) })
}

/// A process that removes a filter when this one ends, or when it is dropped.
pub(crate) struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Waits until its standard input ends; then removes the filter, and the discipline if it was made for it and has no other, or has none
/// within a second: the two filters of a source that is killed go at the same time.
const REMOVE: &str = r#"cat >/dev/null
tc filter del dev "$1" "$2" pref "$3" handle "$4" bpf
[ "$5" = made ] || exit 0
for turn in 1 2 3 4 5 6 7 8 9 10; do
	[ -n "$(tc filter show dev "$1" ingress; tc filter show dev "$1" egress)" ] || exec tc qdisc del dev "$1" clsact
	sleep 0.1
done"#;

fn filter(program: &ProgramMut<'_>, interface: &Interface, side: Side, place: Place) -> io::Result<Guard> {
    let (point, word) = match side {
        Side::Ingress => (TC_INGRESS, "ingress"),
        Side::Egress => (TC_EGRESS, "egress"),
    };
    // What waits is there before the filter is.
    Command::new("tc").arg("-V").stdout(Stdio::null()).status().map_err(|error| {
        io::Error::new(error.kind(), "on a kernel before 6.6 it takes the command tc; install iproute2")
    })?;
    let had = Command::new("tc").args(["qdisc", "show", "dev", &interface.name]).output()?;
    let made = !String::from_utf8_lossy(&had.stdout).contains("clsact");
    let mut hook = TcHook::new(program.as_fd());
    hook.ifindex(interface.index).attach_point(TC_INGRESS | TC_EGRESS);
    hook.create().map_err(io::Error::other)?;
    hook.attach_point(point).priority(place.priority());
    let hook = hook.attach().map_err(io::Error::other)?;
    let (pref, handle) = (hook.get_priority().to_string(), format!("{:#x}", hook.get_handle()));
    let guard = Command::new("sh")
        .args(["-c", REMOVE, "sh", &interface.name, word, &pref, &handle, if made { "made" } else { "found" }])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What the terminal sends is not for it.
        .process_group(0)
        .spawn();
    match guard {
        Ok(guard) => Ok(Guard(guard)),
        Err(error) => {
            let mut hook = hook;
            let _ = hook.detach();
            Err(error)
        }
    }
}
