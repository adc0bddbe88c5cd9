//! The thread of an endpoint.

/// Gives the calling thread, an endpoint's, precedence over the machine's other programs where that is permitted. Nice -10: below
/// the emulator, without which an endpoint has nothing to do (our choice).
pub fn prefer() {
    paceline_linux::thread::set_nice(-10);
}
