//! How the library is linked.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    // Calls among this library's own functions stay in it, though it exports them and the program may define the same names
    // (Erlang's runtime has a `sigaction` of its own, which calls the next one: ours).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // The standard library asks for libgcc_s.so.1 by name, for its unwinder. A program's children may run where there is none: a folder
    // of theirs (chroot), a small container. So the name leads to the archive of the same, which stays in this library.
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(folder.join("libgcc_s.so"), "INPUT(-lgcc_eh)\n").expect("cargo made the folder");
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,libgcc_eh.a");
    println!("cargo:rerun-if-changed=build.rs");
}
