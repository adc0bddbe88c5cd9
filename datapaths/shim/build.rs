//! Calls among this library's own functions stay in it, though it exports them and the program may define the same names
//! (Erlang's runtime has a `sigaction` of its own, which calls the next one: ours).

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rerun-if-changed=build.rs");
}
