//! Names: what a wrong one was meant to be, lists of them in a sentence, and names that are made at run time.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use crate::foreign::clipped;

/// Names made at run time that one process may have. 4096: some hundred controllers with ten variables each (our choice).
pub const MOST_NAMES: usize = 4096;
/// Bytes of a name made at run time. 64: a column of a table (our choice).
pub const LONGEST_NAME: usize = 64;

/// Why a name could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// It is longer than [`LONGEST_NAME`].
    #[error("the name '{0}...' has more than {LONGEST_NAME} bytes; shorten it")]
    TooLong(String),
    /// The process has [`MOST_NAMES`] already.
    #[error("{MOST_NAMES} names have been made in this process; use the same names again")]
    TooMany,
}

/// A name made at run time as one that lasts as long as the process, which is what [`crate::Controller::describe`], records
/// and plots want: a report of a variable pays nothing for its name. Ask for it when the controller is made or
/// registered, not at each report. The same text gives the same name again, so that controllers made a million times cost
/// its memory once.
///
/// ```
/// let name: &'static str = paceline_cc::names::intern(&format!("queue_{}", 3))?;
/// assert_eq!(name, "queue_3");
/// # Ok::<(), paceline_cc::names::NameError>(())
/// ```
///
/// # Errors
/// A name that is too long, or too many of them: the memory is never given back, so it is bounded.
pub fn intern(name: &str) -> Result<&'static str, NameError> {
    /// Every name made so far.
    static MADE: RwLock<BTreeSet<&'static str>> = RwLock::new(BTreeSet::new());
    if name.len() > LONGEST_NAME {
        return Err(NameError::TooLong(clipped(name)));
    }
    if let Some(made) = MADE.read().unwrap_or_else(PoisonError::into_inner).get(name) {
        return Ok(made);
    }
    let mut made = MADE.write().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have come between.
    if let Some(made) = made.get(name) {
        return Ok(made);
    }
    if made.len() >= MOST_NAMES {
        return Err(NameError::TooMany);
    }
    let name: &'static str = String::leak(name.to_owned());
    made.insert(name);
    Ok(name)
}

/// Whether `name` can stand in a contestant's text beside its separators, in a list, a file's name and a shell: letters,
/// digits, `-`, `_`, `.` and `+`, at most [`LONGEST_NAME`] bytes.
pub fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(plain)
}

/// "did you mean ..." for a name that is not one of `names`: those within an edit distance of 3 that are at most one further away than
/// the nearest, or the whole list.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = names.collect();
    let mut near: Vec<(usize, &str)> = all
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&clipped(name), known), *known))
        .filter(|(distance, known)| *distance <= 3 && *distance < known.len())
        .collect();
    near.sort_unstable();
    if let Some((least, _)) = near.first().copied() {
        near.retain(|(distance, _)| *distance <= least + 1);
    }
    if near.is_empty() {
        if all.is_empty() {
            return "it takes none".to_owned();
        }
        return format!("known are {}", all.join(", "));
    }
    let near: Vec<&str> = near.into_iter().take(3).map(|(_, known)| known).collect();
    format!("did you mean {}?", near.join(" or "))
}

/// `a`, `a or b`, `a, b or c`.
pub fn either(names: &[impl AsRef<str>]) -> String {
    joined(names, "or")
}

/// `a`, `a and b`, `a, b and c`.
pub fn all_of(names: &[impl AsRef<str>]) -> String {
    joined(names, "and")
}

fn joined(names: &[impl AsRef<str>], word: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [all @ .., last] => format!("{} {word} {last}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_the_same_name() {
        let (one, other) = (intern("own_17").unwrap(), intern(&format!("own_{}", 17)).unwrap());
        assert!(std::ptr::eq(one, other));
        assert!(matches!(intern(&"x".repeat(LONGEST_NAME + 1)), Err(NameError::TooLong(_))));
    }

    #[test]
    fn separators_make_no_plain_name() {
        for name in ["cubic", "hystart++", "chirp-p", "mine_2.1", "µ"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", "a:b", "a,b", "a=b", "a@b", "a/b", "a b", "a\n", "\"a\"", "$a", &"x".repeat(65)] {
            assert!(!is_plain(name), "{name}");
        }
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!([all_of(&["a"]), all_of(&["a", "b", "c"])], ["a", "a, b and c"]);
        assert_eq!([either(&["a"]), either(&["a", "b"]), either(&["a", "b", "c"])], ["a", "a or b", "a, b or c"]);
    }
}
