//! Network namespaces without names: each is held by a file descriptor, so that it is gone with the process that made
//! it, however that ends.
//!
//! Source: namespaces(7), network_namespaces(7), user_namespaces(7).

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};

use crate::interface::{Interfaces, LOOPBACK};

/// The calling thread's network namespace.
const OF_THIS_THREAD: &str = "/proc/thread-self/ns/net";

/// Settings of every namespace made here; one that the kernel does not have is left as it is.
const SETTINGS: [(&str, &str); 9] = [
    // An earlier flow's losses would set the slow-start threshold of a later one.
    ("net/ipv4/tcp_no_metrics_save", "1"),
    // A path inside a path goes through.
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    // Each way is the only one: no redirects to a better one are needed, nor doubts where a packet came from. The kernel joins
    // what holds for all interfaces and for each.
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    // Interfaces have the addresses given to them and no others.
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
];

/// Why a namespace could not be made, entered or fitted out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// This process may not make namespaces.
    #[error("network namespaces: {reason}; {fix}")]
    Refused {
        /// What the kernel or its settings said.
        reason: String,
        /// Who could do it.
        fix: &'static str,
    },
    /// The system refused a step.
    #[error("cannot {step}: {source}")]
    System {
        /// What was attempted.
        step: String,
        /// What the system said.
        source: io::Error,
    },
}

impl NamespaceError {
    /// The kind of what the system said.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Refused { .. } => io::ErrorKind::PermissionDenied,
            Self::System { source, .. } => source.kind(),
        }
    }

    /// The system refused this step.
    pub fn system(step: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { step: step.into(), source: source.into() }
    }
}

/// A network namespace, held by a file descriptor; it ends with the last holder and the last process inside.
#[derive(Clone, Debug)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// A new namespace with its loopback interface up and with settings fit for measuring: no memory of earlier TCP
    /// flows, forwarding on.
    ///
    /// # Errors
    /// When the process lacks the privilege; see [`acquire`].
    pub fn create() -> Result<Self, NamespaceError> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| match error {
                Errno::ENOSPC => NamespaceError::Refused {
                    reason: "there are as many as the kernel allows (user.max_net_namespaces)".to_owned(),
                    fix: "end some of the programs that have them, or raise the limit",
                },
                other => NamespaceError::system("make a network namespace", other),
            })?;
            for (setting, value) in SETTINGS {
                let _ = fs::write(Path::new("/proc/sys").join(setting), value);
            }
            Interfaces::open()?.up(LOOPBACK)?;
            Self::current()
        })?
    }

    /// The calling thread's.
    pub fn current() -> Result<Self, NamespaceError> {
        let file = File::open(OF_THIS_THREAD).map_err(|error| NamespaceError::system("open a namespace", error))?;
        Ok(Self { file: Arc::new(file) })
    }

    /// Runs `work` inside, on a thread of its own; what it opens there stays there.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        on_a_thread(|| {
            self.join()?;
            Ok(work())
        })?
    }

    /// Moves the calling thread inside, for good.
    pub fn join(&self) -> Result<(), NamespaceError> {
        setns(&*self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|error| NamespaceError::system("enter a network namespace", error))
    }
}

/// From now on the processes that the calling thread starts are in a process namespace of their own.
///
/// # Errors
/// What the system says.
pub fn part_processes() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWPID)?)
}

/// From now on the calling thread has mounts of its own.
///
/// # Errors
/// What the system says.
pub fn part_mounts() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWNS)?)
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Runs `work` on a thread of its own and hands back what it returned.
pub(crate) fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("namespace".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|error| NamespaceError::system("start a thread", error))?;
        // A panic inside goes on outside.
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// What this process may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// It makes network namespaces as it is, and may change the one that it is in.
    Root,
    /// It may change network namespaces that it makes, if need be after it has moved into a user namespace ([`acquire`]).
    UserNamespace,
    /// Neither, for this reason.
    None(String),
}

/// What this process may do, without changing it. For [`Privilege::UserNamespace`] the kernel's settings are asked;
/// only [`acquire`] knows for certain.
pub fn privilege() -> Privilege {
    match Namespace::create() {
        Ok(_) => over_this_namespace(),
        Err(error) => match user_namespaces() {
            Ok(()) => Privilege::UserNamespace,
            Err(reason) if geteuid().is_root() => Privilege::None(format!("{error}, and {reason}")),
            Err(reason) => Privilege::None(reason.to_string()),
        },
    }
}

/// The privilege of a process that can make namespaces.
fn over_this_namespace() -> Privilege {
    // A user namespace may have been entered without a network namespace.
    let may = Interfaces::open().is_ok_and(|interfaces| interfaces.may_change());
    if may { Privilege::Root } else { Privilege::UserNamespace }
}

/// Why the kernel's settings allow an ordinary user no user namespace.
#[derive(Debug, thiserror::Error)]
enum NoUserNamespaces {
    #[error("the kernel has no user namespaces (CONFIG_USER_NS)")]
    NotBuilt,
    #[error("user namespaces are off (user.max_user_namespaces = 0)")]
    Off,
    #[error("user namespaces are off for ordinary users (kernel.unprivileged_userns_clone = 0)")]
    OffForUsers,
    #[error("AppArmor keeps user namespaces from ordinary users (kernel.apparmor_restrict_unprivileged_userns = 1)")]
    AppArmor,
}

/// Whether the kernel's settings allow an ordinary user a user namespace.
fn user_namespaces() -> Result<(), NoUserNamespaces> {
    let is = |setting: &str, value: &str| {
        fs::read_to_string(Path::new("/proc/sys").join(setting)).is_ok_and(|text| text.trim() == value)
    };
    if !Path::new("/proc/self/ns/user").exists() {
        Err(NoUserNamespaces::NotBuilt)
    } else if is("user/max_user_namespaces", "0") {
        Err(NoUserNamespaces::Off)
    } else if is("kernel/unprivileged_userns_clone", "0") {
        Err(NoUserNamespaces::OffForUsers)
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        Err(NoUserNamespaces::AppArmor)
    } else {
        Ok(())
    }
}

/// Sees to it that this process can make network namespaces: as it is, or else by moving it into a user namespace in
/// which it is root. Answers what it may do now.
///
/// The kernel moves a process only while it has a single thread: call this first.
///
/// # Errors
/// When neither is possible, with the reason.
pub fn acquire() -> Result<Privilege, NamespaceError> {
    let refused = |reason: String| NamespaceError::Refused {
        reason,
        fix: "run it as root (in a container with CAP_SYS_ADMIN), or allow user namespaces",
    };
    match Namespace::create() {
        Ok(_) => return Ok(over_this_namespace()),
        Err(error @ NamespaceError::Refused { .. }) => return Err(error),
        Err(_) => {}
    }
    let (user, group) = (geteuid(), getegid());
    let said = user_namespaces().err().map(|why| why.to_string());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| {
        refused(said.clone().unwrap_or_else(|| format!("the kernel refuses a user namespace ({})", error.desc())))
    })?;
    let maps = [
        // Without it the kernel takes no group map from an ordinary user.
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {user} 1")),
        ("gid_map", format!("0 {group} 1")),
    ];
    for (file, text) in maps {
        fs::write(Path::new("/proc/self").join(file), text)
            .map_err(|error| refused(format!("the kernel takes no {file} of the user namespace ({error})")))?;
    }
    match Namespace::create() {
        Ok(_) => Ok(Privilege::UserNamespace),
        Err(error) => Err(refused(said.unwrap_or_else(|| error.to_string()))),
    }
}

/// Whether a test must be skipped because this process may not change its namespace; says so.
pub fn needs_root(test: &str) -> bool {
    let missing = privilege() != Privilege::Root;
    if missing {
        // Not by a macro, whose output is not shown for tests that pass.
        let _ = writeln!(io::stderr(), "skipped: {test}: it needs root");
    }
    missing
}
