//! Paths that change while they are carried.

use std::os::fd::BorrowedFd;

use paceline_cc::Time;
use paceline_path::PathChange;

/// Who changes paths, in the emulator's thread.
pub trait PathChanger: Send {
    /// When it next has something to do; [`Time::NEVER`] where it knows of nothing.
    fn next(&self) -> Time;

    /// Is readable when [`PathChanger::next`] may have become earlier; the call after that reads it.
    fn bell(&self) -> BorrowedFd<'_>;

    /// Does what is due at `now`. `make` makes a change of the path with this number (2 n down, 2 n + 1 up on the link with index n) and
    /// answers what was in force; `None` where the path has nothing of that.
    fn change(&mut self, now: Time, make: &mut dyn FnMut(u32, PathChange) -> Option<PathChange>);
}
