//! The arithmetic that the kernel runs, compiled natively: neither root nor eBPF.
#![cfg(target_os = "linux")]

mod native;
mod vectors;

#[test]
fn the_open_windows_arithmetic_holds() {
    native::holds("the_open_windows_arithmetic_holds", "open_window");
}

#[test]
fn cubics_arithmetic_holds() {
    native::holds("cubics_arithmetic_holds", "cubic");
}

#[test]
fn dctcps_arithmetic_holds() {
    native::holds("dctcps_arithmetic_holds", "dctcp");
}

#[test]
fn the_agents_arithmetic_holds() {
    native::holds("the_agents_arithmetic_holds", "agent");
}

#[test]
fn the_arithmetic_of_records_holds() {
    native::holds("the_arithmetic_of_records_holds", "cubic_telemetry");
}
