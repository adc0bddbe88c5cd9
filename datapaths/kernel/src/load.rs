//! Loads a module, and holds it.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{ErrorKind, Link, MapCore, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};
use paceline_linux::tcp::controllers;

use crate::holders::Holder;
use crate::modules::Module;
use crate::needs::{BTF, Kernel, Need};

/// A module in the kernel. Dropping it takes it out, unless another process holds it too: no further socket can select it, and
/// those that have it keep it until they close. The end of the process, however it ends, does the same.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let open_window = paceline_kernel::OPEN_WINDOW.load()?;
/// // From here on: setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "paceline_open").
/// drop(open_window);
/// # Ok(())
/// # }
/// ```
pub struct Loaded {
    module: &'static Module,
    _kept: Kept,
}

/// What keeps a module in the kernel.
enum Kept {
    Own { _link: Link, _object: Object },
    Shared { _link: OwnedFd },
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loaded").field(&self.module.name).finish()
    }
}

impl Loaded {
    /// Which module it is.
    pub const fn module(&self) -> &'static Module {
        self.module
    }
}

/// Why a module could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The process lacks the privilege, or has it in a user namespace only.
    #[error(
        "a TCP controller is loaded by root alone (CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN outside of user namespaces); run it as root"
    )]
    NotRoot,
    /// The kernel does not say what its types are.
    #[error("the kernel has no BTF ({BTF} is missing); take one built with CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf,
    /// The kernel knows no TCP controllers by eBPF, or not those that end with a link.
    #[error(
        "the kernel takes no TCP controller from eBPF that ends with its owner; take Linux 6.4 or newer with CONFIG_BPF_JIT=y"
    )]
    NoStructOps,
    /// The kernel is too old for this module, or was built without what it needs.
    #[error("{} needs {need}, which this kernel does not have; take Linux {} or newer", module.name, module.since)]
    Lacks {
        /// The module.
        module: &'static Module,
        /// What it needs.
        need: Need,
    },
    /// Another process has loaded it, or something of the same name.
    #[error("{module} is loaded already, by {}; use it as it is, or end that process", named(by.as_ref()))]
    Loaded {
        /// Its name.
        module: &'static str,
        /// The process, where it can be seen.
        by: Option<Holder>,
    },
    /// The kernel refused it for another reason.
    #[error("the kernel refuses {name}: {source}{}", said.as_ref().map(|said| format!(" ({said})")).unwrap_or_default())]
    Refused {
        /// What it refuses.
        name: &'static str,
        /// The step, and what the system said.
        source: libbpf_rs::Error,
        /// libbpf's first complaint.
        said: Option<String>,
    },
}

fn named(by: Option<&Holder>) -> String {
    by.map_or_else(|| "another process".to_owned(), |by| format!("process {} ({})", by.process, by.program))
}

impl Module {
    /// Loads it, for every network namespace.
    ///
    /// # Errors
    /// One line: the process is not root, the kernel lacks something, or it is loaded already.
    pub fn load(&'static self) -> Result<Loaded, LoadError> {
        self.load_with(|_| Ok(()), |_| Ok(()))
    }

    /// Loads it after `prepare` has seen the opened object, and lets sockets select it after `begin` has seen the loaded one.
    ///
    /// # Errors
    /// Those of [`Module::load`], and what the two say.
    pub(crate) fn load_with(
        &'static self,
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
        begin: impl FnOnce(&Object) -> libbpf_rs::Result<()>,
    ) -> Result<Loaded, LoadError> {
        if self.is_loaded() {
            return Err(self.taken());
        }
        Kernel::running().allows(self)?;
        listen();
        self.attach(prepare, begin).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => self.taken(),
            _ => explain(self.name, source),
        })
    }

    /// Loads it, or holds what another process has loaded, so that it stays when that one ends.
    ///
    /// # Errors
    /// As [`Module::load`]; [`LoadError::Loaded`] where its holder cannot be seen.
    pub fn load_or_share(&'static self) -> Result<Loaded, LoadError> {
        // It may come and go between the two.
        const ATTEMPTS: usize = 3;
        let mut result = self.load();
        for _ in 1..ATTEMPTS {
            if !matches!(result, Err(LoadError::Loaded { .. })) {
                break;
            }
            if let Some(link) = self.holders().iter().find_map(|holder| holder.share().ok()) {
                return Ok(Loaded { module: self, _kept: Kept::Shared { _link: link } });
            }
            result = self.load();
        }
        result
    }

    /// Whether a socket can select it now, whichever process loaded it.
    pub fn is_loaded(&self) -> bool {
        controllers().iter().any(|name| name == self.name)
    }

    fn attach(
        &'static self,
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
        begin: impl FnOnce(&Object) -> libbpf_rs::Result<()>,
    ) -> libbpf_rs::Result<Loaded> {
        let mut object = ObjectBuilder::default().name(self.name)?.open_memory(self.object)?;
        prepare(&mut object)?;
        let mut object = object.load()?;
        begin(&object)?;
        let mut operations = object.maps_mut().find(|map| map.name() == self.name).ok_or_else(missing)?;
        let link = operations.attach_struct_ops()?;
        Ok(Loaded { module: self, _kept: Kept::Own { _link: link, _object: object } })
    }

    fn taken(&self) -> LoadError {
        LoadError::Loaded { module: self.name, by: self.holders().into_iter().next() }
    }
}

/// The same as an error of the system: libbpf-rs has kinds of its own.
pub(crate) fn into_io(error: libbpf_rs::Error) -> std::io::Error {
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => std::io::ErrorKind::PermissionDenied,
        ErrorKind::NotFound => std::io::ErrorKind::NotFound,
        _ => std::io::ErrorKind::Other,
    };
    std::io::Error::new(kind, error)
}

/// Something is not in an object that was compiled with this crate, or the one that asks.
pub fn missing() -> libbpf_rs::Error {
    std::io::Error::from(std::io::ErrorKind::NotFound).into()
}

/// What libbpf complained of first since loading began: the rest follows from it.
static FIRST_COMPLAINT: Mutex<String> = Mutex::new(String::new());

/// Listens to libbpf, which would print what it complains of.
pub fn listen() {
    FIRST_COMPLAINT.lock().unwrap_or_else(PoisonError::into_inner).clear();
    set_print(Some((PrintLevel::Warn, complain)));
}

/// Why `name` was refused, after [`listen`].
pub(crate) fn explain(name: &'static str, source: libbpf_rs::Error) -> LoadError {
    if source.kind() == ErrorKind::PermissionDenied {
        return LoadError::NotRoot;
    }
    LoadError::Refused { name, source, said: heard() }
}

/// What libbpf complained of first since [`listen`].
pub fn heard() -> Option<String> {
    Some(FIRST_COMPLAINT.lock().unwrap_or_else(PoisonError::into_inner).clone()).filter(|said| !said.is_empty())
}

#[expect(clippy::needless_pass_by_value, reason = "libbpf-rs passes the text by value")]
fn complain(_level: PrintLevel, text: String) {
    let mut first = FIRST_COMPLAINT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(line) = text.lines().find(|line| !line.trim().is_empty()).filter(|_| first.is_empty()) {
        line.trim().clone_into(&mut first);
    }
}
