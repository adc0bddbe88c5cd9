//! The first process of a tree's namespace.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{self, Stdio};

use paceline_linux::clock;
use paceline_linux::signals::{Signals, kill_others, release_all};
use paceline_linux::thread::cpu_time_of_children;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, setsid, wait};

use super::tree::{OURS, TreeEnd, UserId, report};
use super::{not_started, own_proc, tied_to};

/// Starts the program, passes signals on, and when the program has ended ends the rest, and reports. With an error the owner is gone, or
/// is about to be told by this process's end: with it everything goes.
pub(super) fn tend(parent: &OsStr, user: &OsStr, words: &[OsString]) -> io::Result<()> {
    if !tied_to(parent) {
        return Err(io::ErrorKind::NotFound.into());
    }
    own_proc();
    release_all();
    // Without a terminal. It is refused to the leader of a group alone.
    let _ = setsid();
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut end = match start(user, words) {
        Ok(program) => serve(program, &control)?,
        Err(error) => TreeEnd { status: Some(not_started(words, &error).into()), ..TreeEnd::default() },
    };
    end.at = clock::monotonic();
    kill_others()?;
    // What ran in the namespace belongs to this process now: it ends when there are no children.
    while wait(WaitOptions::empty()).is_ok() {}
    end.cpu = cpu_time_of_children();
    (&control).write_all(report(&end).as_bytes())
}

fn start(user: &OsStr, words: &[OsString]) -> io::Result<Pid> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).process_group(0);
    if let Some(UserId { user, group }) = user_of(user)? {
        command.uid(user).gid(group);
    }
    Ok(Pid::from_child(&command.spawn()?))
}

fn user_of(text: &OsStr) -> io::Result<Option<UserId>> {
    if text == OURS {
        return Ok(None);
    }
    let numbers = text.to_str().and_then(|text| text.split_once(':'));
    let id = numbers.and_then(|(user, group)| Some(UserId { user: user.parse().ok()?, group: group.parse().ok()? }));
    id.map(Some).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Passes signals on until the program has ended.
fn serve(program: Pid, mut control: &UnixStream) -> io::Result<TreeEnd> {
    // Blocked first: what ends from here on is seen, and what ended before is collected now.
    let signals = Signals::take(&[Signal::CHILD])?;
    loop {
        signals.clear()?;
        if let Some(end) = collect(program)? {
            return Ok(end);
        }
        let mut fds = [PollFd::new(&control, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        clock::wait(&mut fds, None)?;
        if fds[0].revents().is_empty() {
            continue;
        }
        let mut wanted = [0; 16];
        let length = control.read(&mut wanted)?;
        if length == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        for signal in wanted[..length].iter().filter_map(|number| Signal::from_named_raw(i32::from(*number))) {
            match signal {
                Signal::KILL => kill_others()?,
                _ => {
                    // The group may have lost its last member.
                    let _ = kill_process_group(program, signal);
                }
            }
        }
    }
}

/// Collects the children that died; how the program ended when it is among them.
fn collect(program: Pid) -> io::Result<Option<TreeEnd>> {
    while let Some((pid, status)) = wait(WaitOptions::NOHANG)? {
        if pid == program {
            let (status, signal) = (status.exit_status(), status.terminating_signal());
            return Ok(Some(TreeEnd { status, signal, ..TreeEnd::default() }));
        }
    }
    Ok(None)
}
