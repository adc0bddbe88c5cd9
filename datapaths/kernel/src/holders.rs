//! Which processes hold what is loaded: a controller lasts as long as a process has its link open.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::Path;

use libbpf_rs::query::{LinkInfo, LinkTypeInfo, MapInfoIter};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::modules::Module;

/// A process that holds the link of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub process: u32,
    /// The file name of its executable.
    pub program: String,
    /// Its command line, word by word.
    pub words: Vec<String>,
    /// The link, among its files.
    file: RawFd,
    /// The operations, among the kernel's maps.
    operations: u32,
}

/// The processes that hold TCP controllers by eBPF, by the controller's name. For root all of this process namespace, for others
/// none.
pub fn holders() -> BTreeMap<String, Vec<Holder>> {
    let names: HashMap<u32, String> =
        MapInfoIter::default().map(|map| (map.id, map.name.to_string_lossy().into_owned())).collect();
    let mut holders: BTreeMap<String, Vec<Holder>> = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        for (file, operations) in links(&process.path()) {
            let Some(name) = names.get(&operations) else { continue };
            let holder = Holder {
                process: id,
                program: program(&process.path()),
                words: words(&process.path()),
                file,
                operations,
            };
            holders.entry(name.clone()).or_default().push(holder);
        }
    }
    holders
}

/// The links to operations that a process has open, with the operations' map.
fn links(process: &Path) -> Vec<(RawFd, u32)> {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let links = files.filter(|file| fs::read_link(file.path()).is_ok_and(|to| to == *"anon_inode:bpf_link"));
    let found = links.filter_map(|file| {
        let text = fs::read_to_string(process.join("fdinfo").join(file.file_name())).ok()?;
        let field = |name| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
        let map = field("map_id:").filter(|_| field("link_type:") == Some("struct_ops"))?;
        Some((file.file_name().to_str()?.parse().ok()?, map.parse().ok()?))
    });
    found.collect()
}

fn program(process: &Path) -> String {
    let executable = fs::read_link(process.join("exe")).unwrap_or_default();
    let name = executable.file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
    // The file was replaced since.
    name.strip_suffix(" (deleted)").map(str::to_owned).unwrap_or(name)
}

fn words(process: &Path) -> Vec<String> {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

impl Module {
    /// The processes that hold it; see [`holders`].
    pub fn holders(&self) -> Vec<Holder> {
        holders().remove(self.name).unwrap_or_default()
    }
}

impl Holder {
    /// The link once more, for this process: it stays until both have closed it.
    pub(crate) fn share(&self) -> rustix::io::Result<OwnedFd> {
        let gone = rustix::io::Errno::SRCH;
        let process = Pid::from_raw(self.process.cast_signed()).ok_or(gone)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        let link = pidfd_getfd(&process, self.file, PidfdGetfdFlags::empty())?;
        // The process may have become another since it was seen.
        let same = LinkInfo::from_fd(link.as_fd()).is_ok_and(
            |link| matches!(link.info, LinkTypeInfo::StructOps(operations) if operations.map_id == self.operations),
        );
        if same { Ok(link) } else { Err(gone) }
    }
}
