//! Gives the shared library its name for the dynamic linker: programs ask for the interface's number.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpacelineicn.so.0");
}
