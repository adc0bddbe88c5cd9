//! What modules need of a kernel, and what a kernel has: its BTF says so, whatever its version's number is.

use std::fmt;
use std::path::Path;

use libbpf_rs::btf::types::{Composite, Enum, Func, Struct};
use libbpf_rs::btf::{Btf, BtfType};

use crate::LoadError;
use crate::modules::Module;

/// Where the kernel says what its types are.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Something of the kernel that a module cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// A structure of this name.
    Type(&'static str),
    /// A structure and a member of it.
    Member(&'static str, &'static str),
    /// A function of the kernel that programs may call (kfunc).
    Function(&'static str),
    /// A helper, without its `bpf_`.
    Helper(&'static str),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(name) => write!(f, "struct {name}"),
            Self::Member(of, name) => write!(f, "{of}.{name}"),
            Self::Function(name) => write!(f, "the function {name}"),
            Self::Helper(name) => write!(f, "the helper bpf_{name}"),
        }
    }
}

/// TCP controllers by eBPF that end with a link: Linux before 6.4 has none that do, and what is registered without one stays
/// after its owner.
const EVERY_MODULE: [Need; 2] = [Need::Type("bpf_struct_ops_tcp_congestion_ops"), Need::Type("bpf_struct_ops_link")];

/// A kernel, as its BTF describes it.
#[derive(Debug)]
pub struct Kernel {
    types: Option<Btf<'static>>,
}

impl Kernel {
    /// The one that runs.
    pub fn running() -> Self {
        Self::described_by(Path::new(BTF))
    }

    fn described_by(file: &Path) -> Self {
        // libbpf says of a file that is not there what `allows` says in a line.
        Self { types: file.exists().then(|| Btf::from_path(file).ok()).flatten() }
    }

    /// Whether this kernel can run the module; the process's rights are another matter.
    ///
    /// # Errors
    /// What it lacks: [`LoadError::NoBtf`], [`LoadError::NoStructOps`] or [`LoadError::Lacks`].
    pub fn allows(&self, module: &'static Module) -> Result<(), LoadError> {
        let types = self.types.as_ref().ok_or(LoadError::NoBtf)?;
        if !EVERY_MODULE.iter().all(|need| has(types, *need)) {
            return Err(LoadError::NoStructOps);
        }
        match module.needs.iter().find(|need| !has(types, **need)) {
            Some(need) => Err(LoadError::Lacks { module, need: *need }),
            None => Ok(()),
        }
    }
}

fn has(types: &Btf<'_>, need: Need) -> bool {
    match need {
        Need::Type(name) => structure(types, name).is_some(),
        Need::Member(of, name) => {
            structure(types, of).is_some_and(|of| Composite::try_from(*of).is_ok_and(|of| has_member(types, of, name)))
        }
        Need::Function(name) => types.type_by_name::<Func<'_>>(name).is_some(),
        Need::Helper(name) => types.type_by_name::<Enum<'_>>("bpf_func_id").is_some_and(|helpers| {
            let helper = format!("BPF_FUNC_{name}");
            helpers.iter().any(|value| value.name.is_some_and(|name| *name == *helper))
        }),
    }
}

fn structure<'types>(types: &'types Btf<'_>, name: &str) -> Option<Struct<'types>> {
    // A name may be a function's and a structure's.
    types.type_by_name(name).or_else(|| {
        types.type_by_kind::<Struct<'_>>().find(|other| BtfType::name(other).is_some_and(|other| *other == *name))
    })
}

/// Members of groups without a name count as the structure's own, as they do in C.
fn has_member(types: &Btf<'_>, of: Composite<'_>, name: &str) -> bool {
    of.iter().any(|member| match member.name {
        Some(other) => *other == *name,
        None => types
            .type_by_id::<BtfType<'_>>(member.ty)
            .and_then(|group| Composite::try_from(group).ok())
            .is_some_and(|group| has_member(types, group, name)),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use libbpf_rs::btf::types::Linkage;

    use super::*;
    use crate::{MODULES, OPEN_WINDOW};

    #[test]
    fn a_kernel_without_btf_or_struct_ops_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Kernel::described_by(&folder.path().join("missing"));
        assert!(matches!(missing.allows(OPEN_WINDOW), Err(LoadError::NoBtf)));
        // An object has BTF too, and is not a kernel.
        let object = folder.path().join("object");
        fs::write(&object, OPEN_WINDOW.object).unwrap();
        let without = Kernel::described_by(&object);
        assert!(matches!(without.allows(OPEN_WINDOW), Err(LoadError::NoStructOps)));
    }

    #[test]
    fn needs_are_looked_up_one_by_one() {
        let types = Btf::from_raw("object", OPEN_WINDOW.object).unwrap().unwrap();
        for need in [
            Need::Type("tcp_sock"),
            Need::Member("tcp_sock", "snd_cwnd"),
            Need::Member("netns_ipv4", "tcp_congestion_control"),
            Need::Function("open_init"),
        ] {
            assert!(has(&types, need), "{need}");
        }
        for need in [
            Need::Type("tcp_sick"),
            Need::Member("tcp_sock", "snd_cwnd_of_another_kernel"),
            Need::Member("tcp_sick", "snd_cwnd"),
            Need::Function("tcp_sock"),
            Need::Helper("setsockopt"),
        ] {
            assert!(!has(&types, need), "{need}");
        }
    }

    /// What a module calls of the kernel must be in its row, or an older kernel refuses it in libbpf's words.
    #[test]
    fn rows_name_every_function_of_the_kernel() {
        for module in MODULES {
            let types = Btf::from_raw("object", module.object).unwrap().unwrap();
            let calls: BTreeSet<String> = types
                .type_by_kind::<Func<'_>>()
                .filter(|function| function.linkage() == Linkage::Extern)
                .filter_map(|function| Some(function.name()?.to_string_lossy().into_owned()))
                .collect();
            let named = module.needs.iter().filter_map(|need| match need {
                Need::Function(name) => Some((*name).to_owned()),
                _ => None,
            });
            assert_eq!(named.collect::<BTreeSet<_>>(), calls, "{}", module.name);
        }
    }
}
