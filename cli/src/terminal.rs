//! What the terminal is: how large, and whether it obeys.

use std::io::IsTerminal;

/// Columns and rows where a terminal does not say how many it has: a serial line, a container's (as VT100; our choice).
#[cfg(target_os = "linux")]
const SIZE: (usize, usize) = (80, 24);

/// Whether it takes anything but text: escapes that move the cursor, colours. A terminal named `dumb` does not (terminfo(5)).
pub(crate) fn obeys() -> bool {
    std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Whether colours are wanted, on what is a terminal (<https://no-color.org>).
pub(crate) fn colors(on: &impl IsTerminal) -> bool {
    on.is_terminal() && obeys() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether a bar may be drawn on standard error.
pub(crate) fn draws() -> bool {
    std::io::stderr().is_terminal() && obeys()
}

/// Columns and rows of a terminal; of one that knows neither, the usual ones.
#[cfg(target_os = "linux")]
pub(crate) fn size(of: impl std::os::fd::AsFd) -> (usize, usize) {
    let told = rustix::termios::tcgetwinsize(of).map_or((0, 0), |size| (size.ws_col.into(), size.ws_row.into()));
    let or = |told: usize, usual: usize| if told == 0 { usual } else { told };
    (or(told.0, SIZE.0), or(told.1, SIZE.1))
}
