//! What loading modules into the kernel needs.

use std::fs;

use super::{Feature, Fitness};

/// One feature for each thing that can be missing.
pub fn loading() -> [Feature; 4] {
    [
        Feature { name: "kernel: rights", verdict: rights() },
        Feature { name: "kernel: BTF", verdict: btf() },
        Feature { name: "kernel: struct_ops", verdict: struct_ops() },
        Feature { name: "kernel: JIT", verdict: jit() },
    ]
}

/// What loading takes: Linux include/uapi/linux/capability.h.
const CAPABILITIES: [(u32, &str); 3] = [(12, "CAP_NET_ADMIN"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];
/// In its place on any kernel.
const SYS_ADMIN: u32 = 21;

fn rights() -> Fitness {
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = own.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    let has = |number: u32| mask.unwrap_or(0) & (1 << number) != 0;
    let net_admin_alone = |number| number != 12 && has(SYS_ADMIN);
    let lacks: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(number, _)| !has(*number) && !net_admin_alone(*number))
        .map(|(_, name)| *name)
        .collect();
    if !lacks.is_empty() {
        return Fitness::No(format!("root alone loads modules; this process lacks {}", lacks.join(", ")));
    }
    // All ids, one to one: the first user namespace.
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        Fitness::Works("root".to_owned())
    } else {
        Fitness::No("root of a user namespace only; run it as root outside of it".to_owned())
    }
}

/// Where the kernel says what its types are.
const BTF: &str = "/sys/kernel/btf/vmlinux";

fn btf() -> Fitness {
    match fs::metadata(BTF) {
        Ok(_) => Fitness::Works(BTF.to_owned()),
        Err(_) => Fitness::No(format!("{BTF} is missing; take a kernel built with CONFIG_DEBUG_INFO_BTF=y")),
    }
}

/// Among the names of the kernel's types: TCP controllers by eBPF, and links that end them with their owner (from Linux 6.4 on).
const TYPES: [&[u8]; 2] = [b"\0bpf_struct_ops_tcp_congestion_ops\0", b"\0bpf_struct_ops_link\0"];

fn struct_ops() -> Fitness {
    let types = fs::read(BTF).unwrap_or_default();
    let has = TYPES.map(|name| types.windows(name.len()).any(|window| window == name));
    match has {
        [true, true] => Fitness::Works("TCP congestion controls that end with their owner".to_owned()),
        [true, false] => {
            Fitness::No("this kernel would keep a controller after its owner's end; take Linux 6.4 or newer".to_owned())
        }
        _ => Fitness::No("not in this kernel; take Linux 6.4 or newer with CONFIG_BPF_JIT=y and BTF".to_owned()),
    }
}

fn jit() -> Fitness {
    // Visible in the first network namespace alone.
    match fs::read_to_string("/proc/sys/net/core/bpf_jit_enable").as_deref().map(str::trim) {
        Ok("0") => {
            Fitness::FallsBack("programs are interpreted; switch it on: sysctl -w net.core.bpf_jit_enable=1".to_owned())
        }
        Ok(_) => Fitness::Works("programs are compiled".to_owned()),
        Err(_) => Fitness::Works("not visible from this network namespace".to_owned()),
    }
}
