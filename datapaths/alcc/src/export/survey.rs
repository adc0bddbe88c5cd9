//! Asking all processes at the same time, for no longer than a second.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use paceline_linux::clock;
use rustix::event::{PollFd, PollFlags};
use rustix::process::getuid;

use super::client::{Ask, Failure};
use super::place::Place;
use super::{Line, Process, search};

/// For everything together (our choice: an answer takes well under a millisecond, on a busy machine some tens).
const PATIENCE: Duration = Duration::from_secs(1);
/// Of this, for finding whom to ask (our choice: some milliseconds where 1000 processes run).
const SEARCH: Duration = Duration::from_millis(400);
/// Processes that are asked at a time (our choice: few descriptors beside those of a server).
const AT_ONCE: usize = 64;
/// How long one may keep others waiting (our choice: a tenth of the whole).
const TURN: Duration = Duration::from_millis(100);
/// Most memory for the answers of one user's processes (our choice: 20 000 sockets).
const OF_A_USER: usize = 16 << 20;
/// And of all users' (our choice).
const OF_ALL: usize = 128 << 20;

/// What processes answered, and what may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// Processes with sockets above TCP, by number.
    pub processes: Vec<Process>,
    /// How many programs did not answer, for each user that was asked.
    pub silent: BTreeMap<u32, u64>,
    /// What else may be missing, one line each.
    pub missing: Vec<String>,
}

impl Answers {
    /// What the processes do not show: one line each, without a full stop.
    pub fn notes(&self) -> Vec<String> {
        let silent = self.silent.iter().filter(|(_, count)| **count > 0).map(|(user, count)| match count {
            1 => format!("1 program of uid {user} did not answer"),
            count => format!("{count} programs of uid {user} did not answer"),
        });
        silent.chain(self.missing.iter().cloned()).collect()
    }
}

/// Asks every process of this user that has sockets above TCP; for root those of all users, in containers too. What a
/// killed process of this user left behind in a folder of its own is removed. Takes a second at most.
pub fn survey() -> Answers {
    let mut survey = Survey::start(None);
    while !survey.is_done() {
        let left = survey.due().saturating_duration_since(Instant::now());
        let mut polled: Vec<PollFd<'_>> = survey.polled().collect();
        // What interrupts it costs a round.
        let _ = clock::wait(&mut polled, Some(left));
        drop(polled);
        survey.proceed();
    }
    survey.answers
}

/// The processes of a [`survey`].
pub fn processes() -> Vec<Process> {
    survey().processes
}

/// A survey under way; nothing in it waits.
#[derive(Debug)]
pub(super) struct Survey {
    waiting: VecDeque<Place>,
    asked: Vec<Ask>,
    answers: Answers,
    /// Memory that the answers of each user take.
    taken: BTreeMap<u32, usize>,
    end: Instant,
}

impl Survey {
    /// Finds the processes to ask, without this one, and begins.
    pub(super) fn start(own: Option<&Place>) -> Self {
        let now = Instant::now();
        let found = search::search(now + SEARCH);
        let places = found.places.into_iter().filter(|place| own.is_none_or(|own| !own.is(place)));
        let mut survey = Self::of(places.collect(), now + PATIENCE);
        survey.answers.missing = found.missing;
        survey
    }

    fn of(places: VecDeque<Place>, end: Instant) -> Self {
        let users = places.iter().map(|place| place.folder.user).chain([getuid().as_raw()]);
        let answers = Answers { silent: users.map(|user| (user, 0)).collect(), ..Answers::default() };
        let mut survey = Self { waiting: places, asked: Vec::new(), answers, taken: BTreeMap::new(), end };
        survey.proceed();
        survey
    }

    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }

    /// What was answered, once it is done.
    pub(super) fn into_answers(self) -> Answers {
        self.answers
    }

    /// What to wait for.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.asked.iter().map(|ask| PollFd::from_borrowed_fd(ask.stream(), PollFlags::IN))
    }

    /// Until when to wait at most.
    pub(super) fn due(&self) -> Instant {
        let first = self.asked.iter().map(|ask| ask.since + TURN).min().filter(|_| !self.waiting.is_empty());
        first.map_or(self.end, |first| first.min(self.end))
    }

    /// Goes on as far as it can.
    pub(super) fn proceed(&mut self) {
        let now = Instant::now();
        self.take_answers();
        if now >= self.end {
            let late = self.asked.drain(..).map(|ask| ask.place).chain(self.waiting.drain(..));
            for place in late {
                count(&mut self.answers, place.folder.user);
            }
        }
        if !self.waiting.is_empty() {
            let late = self.asked.extract_if(.., |ask| ask.since + TURN <= now);
            for ask in late {
                count(&mut self.answers, ask.place.folder.user);
            }
        }
        while self.asked.len() < AT_ONCE
            && let Some(place) = self.waiting.pop_front()
        {
            let user = place.folder.user;
            match Ask::begin(place, now) {
                Ok(ask) => self.asked.push(ask),
                Err(Failure::Ended) => {}
                Err(Failure::Silent) => count(&mut self.answers, user),
            }
        }
        if self.is_done() {
            self.answers.processes.sort_by_key(|process| process.pid);
        }
    }

    fn take_answers(&mut self) {
        let Self { asked, answers, taken, .. } = self;
        asked.retain_mut(|ask| {
            let (user, before) = (ask.place.folder.user, ask.len());
            let answer = ask.proceed();
            let all: usize = taken.values().sum();
            let of_user = taken.entry(user).or_default();
            let sockets = answer.as_ref().and_then(|answer| Some(answer.as_ref().ok()?.sockets.len())).unwrap_or(0);
            let more = ask.len() - before + sockets * size_of::<Line>();
            *of_user += more;
            if *of_user > OF_A_USER || all + more > OF_ALL {
                count(answers, user);
                return false;
            }
            match answer {
                None => return true,
                Some(Ok(process)) => answers.processes.push(process),
                Some(Err(Failure::Ended)) => {}
                Some(Err(Failure::Silent)) => count(answers, user),
            }
            false
        });
    }
}

/// One more did not answer.
fn count(answers: &mut Answers, user: u32) {
    *answers.silent.entry(user).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::sync::Arc;
    use std::{fs, io::Write, thread};

    use crate::export::place::Folder;

    /// This many listeners, and where they are.
    fn listeners(folder: &Path, count: usize) -> (Vec<UnixListener>, VecDeque<Place>) {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        let listener = |number: usize| UnixListener::bind(folder.join(format!("{number}.sock"))).unwrap();
        let listeners = (0..count).map(listener).collect();
        let mut places = Arc::new(Folder::here(folder, getuid().as_raw())).sockets(count).unwrap().0;
        places.sort_by_key(Place::process);
        (listeners, places.into())
    }

    fn finish(mut survey: Survey) -> Answers {
        while !survey.is_done() {
            thread::sleep(Duration::from_millis(1));
            survey.proceed();
        }
        survey.into_answers()
    }

    /// Answers one client.
    fn answer(listener: &UnixListener, text: &str) {
        listener.accept().unwrap().0.write_all(text.as_bytes()).unwrap();
    }

    const HEAD: &str = "{\"pid\":1,\"program\":\"a\",\"version\":\"0\"}\n";

    #[test]
    fn all_are_asked_at_once_and_the_silent_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (listeners, places) = listeners(folder.path(), 40);
        let survey = Survey::of(places, Instant::now() + Duration::from_millis(300));
        assert_eq!((survey.asked.len(), survey.waiting.len()), (40, 0));
        answer(&listeners[39], HEAD);
        answer(&listeners[38], "garbage\n");
        let answers = finish(survey);
        assert_eq!(answers.processes.len(), 1);
        let user = getuid().as_raw();
        assert_eq!(answers.silent, BTreeMap::from([(user, 39)]));
        assert_eq!(answers.notes(), [format!("39 programs of uid {user} did not answer")]);
    }

    #[test]
    fn those_who_wait_get_their_turn() {
        let folder = tempfile::tempdir().unwrap();
        let (listeners, places) = listeners(folder.path(), AT_ONCE + 1);
        // Longer than any machine is busy; who keeps others waiting has a part of it.
        let mut survey = Survey::of(places, Instant::now() + Duration::from_secs(600));
        assert_eq!((survey.asked.len(), survey.waiting.len()), (AT_ONCE, 1));
        assert!(survey.due() <= Instant::now() + TURN);
        while !survey.waiting.is_empty() {
            thread::sleep(TURN);
            survey.proceed();
        }
        answer(&listeners[AT_ONCE], HEAD);
        survey.take_answers();
        assert_eq!(survey.answers.processes.len(), 1);
        assert_eq!(survey.answers.silent[&getuid().as_raw()], AT_ONCE as u64);
    }

    #[test]
    fn one_user_fills_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let (listeners, places) = listeners(folder.path(), 8);
        let survey = Survey::of(places, Instant::now() + Duration::from_secs(600));
        let most = (HEAD.to_owned() + &"{}\n".repeat(15_000)).into_bytes();
        let writers = listeners.into_iter().map(|listener| {
            let most = most.clone();
            // A client may go away before all is written.
            thread::spawn(move || listener.accept().unwrap().0.write_all(&most))
        });
        let writers: Vec<_> = writers.collect();
        let answers = finish(survey);
        writers.into_iter().for_each(|writer| drop(writer.join().unwrap()));
        let room = OF_A_USER / (15_000 * size_of::<Line>());
        assert!(room < 8 && answers.processes.len() <= room, "{} of {room}", answers.processes.len());
        assert_eq!(answers.processes.len() + answers.silent[&getuid().as_raw()] as usize, 8);
    }
}
