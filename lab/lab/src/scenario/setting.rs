//! Keys set from outside the file: `down.delay=25ms`.

use std::borrow::Cow;
use std::ops::Range;

use paceline_cc::foreign::printable;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value for a key, in place of what the file says.
///
/// It has a place behind the text of the file, as if all settings were written there one after the other, so that
/// errors in it can be distinguished from those in the file.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// As given: `KEY=VALUE`.
    given: String,
    start: usize,
    keys: Vec<Key>,
    /// `v=VALUE` in TOML, with so many spaces before it that the value stands at its place; `None` takes the key out.
    value: Option<String>,
}

/// A step of a key: the name in a table, or the index in an array.
#[derive(Clone, Debug)]
struct Key {
    name: String,
    place: Range<usize>,
}

/// Why a key cannot be set from outside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SettingError {
    #[error("there is no '=' in it; write KEY=VALUE, such as down.delay=25ms")]
    NoValue,
    #[error("a name in the key is empty; write KEY=VALUE, such as down.delay=25ms")]
    EmptyName,
    #[error("the value is not TOML ({problem}); write texts in it in quotes, such as [\"0s\", \"1s\"]")]
    NoToml { problem: String },
    #[error("{key} is not given, so that it cannot be taken out; give it a value")]
    NotGiven { key: String },
    #[error("{parent}.{index}: {parent} is not given and has no elements; set all of it, such as {parent}=[{{ ... }}]")]
    NoElements { parent: String, index: String },
    #[error("{parent}.{name}: '{name}' is not an index of {parent}; {}", indices(parent, *last))]
    NoIndex { parent: String, name: String, last: usize },
    #[error("{parent}.{name}: {parent} is empty; set all of it, as an array")]
    Empty { parent: String, name: String },
    #[error("{key} is one of an array, and cannot be taken out; set all of it")]
    OfArray { key: String },
    #[error("{key}: {parent} is a {kind}, which holds no keys; set {parent} itself")]
    NoKeys { key: String, parent: String, kind: &'static str },
}

fn indices(parent: &str, last: usize) -> String {
    if last == 0 { format!("only {parent}.0 is there") } else { format!("give one from 0 to {last}") }
}

impl Setting {
    /// Reads `KEY=VALUE`; `start` is its place.
    ///
    /// # Errors
    /// What is wrong with it, and how to fix it.
    pub(super) fn parse(given: &str, start: usize) -> Result<Self, SettingError> {
        let Some((key, value)) = given.split_once('=') else {
            return Err(SettingError::NoValue);
        };
        let mut keys = Vec::new();
        let mut at = start;
        // flows.0.count, or flows[0].count as in errors.
        for step in key.split(['.', '[']) {
            let name = step.trim().trim_end_matches(']').to_owned();
            if name.is_empty() {
                return Err(SettingError::EmptyName);
            }
            keys.push(Key { name, place: at..at + step.len() });
            at += step.len() + 1;
        }
        let value = match value.trim() {
            "" => None,
            value => Some(toml(value, start + key.len() + 1)?),
        };
        Ok(Self { given: given.to_owned(), start, keys, value })
    }

    /// Its bytes in the text of the file with all settings behind it.
    pub(super) fn place(&self) -> Range<usize> {
        self.start..self.start + self.given.len() + 1
    }

    /// As an option.
    pub(super) fn option(&self) -> String {
        option(&self.given)
    }

    /// Puts the value into the scenario.
    ///
    /// # Errors
    /// When there is no such place: what is in the way, and how to fix it.
    pub(super) fn apply<'a>(&'a self, root: &mut DeValue<'a>) -> Result<(), SettingError> {
        let value = self.value.as_deref().and_then(value);
        put(root, "", &self.keys, self.place().end, value)
    }
}

/// A setting as an option.
pub(super) fn option(given: &str) -> String {
    format!("--set {}", printable(given, 100))
}

/// The value in TOML, at its place: as written where it is a number, a boolean, an array or a table, else as a text.
fn toml(text: &str, at: usize) -> Result<String, SettingError> {
    let before = " ".repeat(at.saturating_sub(2));
    let written = format!("{before}v={text}");
    match DeTable::parse(&written) {
        Ok(table) if table.get_ref().len() == 1 && !matches!(value(&written), Some(v) if v.get_ref().is_datetime()) => {
            Ok(written)
        }
        Err(error) if text.starts_with(['[', '{']) => {
            Err(SettingError::NoToml { problem: printable(error.message(), 200) })
        }
        _ => Ok(format!("{before}v={}", toml::Value::from(text))),
    }
}

/// What stands behind `v=`.
fn value(written: &str) -> Option<Spanned<DeValue<'_>>> {
    DeTable::parse(written).ok()?.into_inner().remove("v")
}

/// `parent` is the key of `node`; tables that are missing on the way are made, and end at `end`.
fn put<'a>(
    node: &mut DeValue<'a>,
    parent: &str,
    keys: &'a [Key],
    end: usize,
    value: Option<Spanned<DeValue<'a>>>,
) -> Result<(), SettingError> {
    let Some((Key { name, place }, rest)) = keys.split_first() else { return Ok(()) };
    let shown = printable(name, 60);
    let path = if parent.is_empty() { shown.clone() } else { format!("{parent}.{shown}") };
    match node {
        DeValue::Table(table) => {
            let key = Spanned::new(place.clone(), Cow::Borrowed(name.as_str()));
            let Some(next) = rest.first() else {
                // Taken out first, because a key that is there would keep its place.
                let old = table.remove(name.as_str());
                return match value {
                    Some(value) => {
                        table.insert(key, value);
                        Ok(())
                    }
                    None if old.is_some() => Ok(()),
                    None => Err(SettingError::NotGiven { key: path }),
                };
            };
            if !table.contains_key(name.as_str()) {
                if next.name.parse::<usize>().is_ok() {
                    return Err(SettingError::NoElements { parent: path, index: printable(&next.name, 60) });
                }
                let table_place = next.place.start..end;
                table.insert(key, Spanned::new(table_place, DeValue::Table(DeTable::new())));
            }
            match table.get_mut(name.as_str()) {
                Some(node) => put(node.get_mut(), &path, rest, end, value),
                None => Ok(()),
            }
        }
        DeValue::Array(array) => {
            let last = array.len().checked_sub(1);
            let Some(element) = name.parse().ok().and_then(|index: usize| array.get_mut(index)) else {
                let (parent, name) = (parent.to_owned(), shown);
                return Err(match last {
                    Some(last) => SettingError::NoIndex { parent, name, last },
                    None => SettingError::Empty { parent, name },
                });
            };
            match (rest, value) {
                ([], Some(value)) => *element = value,
                ([], None) => return Err(SettingError::OfArray { key: path }),
                (_, value) => return put(element.get_mut(), &path, rest, end, value),
            }
            Ok(())
        }
        other => Err(SettingError::NoKeys { key: path, parent: parent.to_owned(), kind: other.type_str() }),
    }
}
