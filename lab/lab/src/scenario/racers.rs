//! Who races: the texts of a file or of an option, each contestant once.

use std::collections::BTreeMap;

use paceline_cc::foreign::printable;
use paceline_experiment::Program;

use crate::contestant::{Contestant, ContestantError};

/// Why someone cannot race.
#[derive(Debug, thiserror::Error)]
pub(super) enum RacerError {
    #[error(transparent)]
    Contestant(Box<ContestantError>),
    #[error("'{0}' holds a range, but contestants are the same in every run; name each value as a contestant")]
    Range(String),
    #[error("{0} races twice; take one out")]
    Twice(Box<Contestant>),
}

/// Those who race, in their order. Two texts may mean the same, as one with a value that is the default does: the second is told of
/// in a note and does not run, so that a file outlives a default.
pub(super) struct Racers<'a> {
    /// Those that are not ours.
    programs: &'a BTreeMap<String, Program>,
    texts: Vec<String>,
    pub(super) contestants: Vec<Contestant>,
    pub(super) notes: Vec<String>,
}

impl<'a> Racers<'a> {
    /// None yet; those to come may be one of these programs.
    pub(super) fn of(programs: &'a BTreeMap<String, Program>) -> Self {
        Self { programs, texts: Vec::new(), contestants: Vec::new(), notes: Vec::new() }
    }

    /// None again.
    pub(super) fn clear(&mut self) {
        *self = Self::of(self.programs);
    }

    /// Adds the contestant of a text.
    pub(super) fn add(&mut self, text: &str) -> Result<(), RacerError> {
        let text = text.trim();
        let parsed = text.parse::<Contestant>().map_err(Box::new);
        let contestant = parsed.and_then(|contestant| contestant.bound(self.programs)).map_err(|error| {
            if text.contains("..") { RacerError::Range(printable(text, 60)) } else { RacerError::Contestant(error) }
        })?;
        if self.texts.iter().any(|other| other == text) {
            return Err(RacerError::Twice(Box::new(contestant)));
        }
        self.texts.push(text.to_owned());
        if self.contestants.contains(&contestant) {
            let other = printable(text, 60);
            self.notes.push(format!("{other} means {contestant}, which races already: it runs once"));
        } else {
            self.contestants.push(contestant);
        }
        Ok(())
    }
}
