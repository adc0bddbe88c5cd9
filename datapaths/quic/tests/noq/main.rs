//! Controllers inside noq: its calls, its state machine in virtual time, its transfers.

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod example;
mod hostile;
#[cfg(target_os = "linux")]
mod transfer;
mod virtual_time;
