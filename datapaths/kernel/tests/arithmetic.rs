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
fn losses_of_the_medium_are_answered_as_they_should() {
    native::holds("losses_of_the_medium_are_answered_as_they_should", "cubic_medium");
}

#[test]
fn equation_ones_arithmetic_holds() {
    native::holds("equation_ones_arithmetic_holds", "eq1");
}

#[test]
fn without_a_record_it_is_cubic() {
    native::holds("without_a_record_it_is_cubic", "without_records");
}
