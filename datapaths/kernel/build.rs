//! Compiles the eBPF programs, with clang.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    use std::path::PathBuf;

    use anyhow::Context;

    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("cargo gives no OUT_DIR")?);
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    libbpf_cargo::SkeletonBuilder::new()
        .source("src/bpf/open_window.bpf.c")
        .obj(out.join("open_window.bpf.o"))
        .clang(std::env::var_os("CLANG").unwrap_or_else(|| "clang".into()))
        .clang_args(["-Wall", "-Werror", "-mcpu=v3"])
        .build()
        .context(
            "eBPF programs need clang 14 or newer (Debian: apt-get install clang libelf-dev zlib1g-dev pkg-config)",
        )
}

#[cfg(not(target_os = "linux"))]
fn main() {}
