//! Gives the shared library its name for the dynamic linker: programs ask for the interface's number.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpaceline_cc.so.0");
    }
}
