//! Compiles the eBPF programs, with clang: each `src/bpf/NAME.bpf.c` becomes the object `NAME.bpf.o`, and so do those of `tests/bpf`,
//! which tests and examples alone load.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    use std::path::{Path, PathBuf};

    use anyhow::Context;

    let out = PathBuf::from(std::env::var_os("OUT_DIR").context("cargo gives no OUT_DIR")?);
    // A folder that is not there would count as changed each time.
    let folders = || ["src/bpf", "tests/bpf"].into_iter().filter(|folder| Path::new(folder).is_dir());
    for folder in folders() {
        println!("cargo:rerun-if-changed={folder}");
    }
    // Programs of `datapaths/int` and `datapaths/store` include headers of these.
    println!("cargo:rerun-if-changed=../kernel/src/bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    for entry in folders().flat_map(|folder| Path::new(folder).read_dir()).flatten() {
        let source = entry?.path();
        let Some(name) = source.file_name().and_then(|name| name.to_str()?.strip_suffix(".bpf.c")) else { continue };
        libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(name).with_extension("bpf.o"))
            .clang(&clang)
            .clang_args(["-Wall", "-Werror", "-mcpu=v3"])
            .build()
            .with_context(|| {
                format!(
                    "{name}: eBPF programs need clang 14 or newer (Debian: apt-get install clang libelf-dev zlib1g-dev \
                     pkg-config)"
                )
            })?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
