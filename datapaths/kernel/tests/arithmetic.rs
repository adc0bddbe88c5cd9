//! The arithmetic that the kernel runs, compiled natively: neither root nor eBPF.
#![cfg(target_os = "linux")]

mod native;

#[test]
fn the_arithmetic_holds() {
    native::holds("the_arithmetic_holds", "arithmetic");
}
