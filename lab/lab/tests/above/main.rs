//! A controller above TCP beside the same one native and beside TCP alone, in real time through the emulator: what Zaki et al.
//! claim of it, as bounds on runs of a few seconds. A controller and its native twin run at the same time, so that a busy machine
//! does to one what it does to the other. What this machine does not allow is skipped and says so, and so is a test during which
//! it could twice not keep time.
#![cfg(target_os = "linux")]

mod bench;
mod one;
mod sharing;
