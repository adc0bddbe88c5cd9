//! Where in a scenario file a key stands, so that every error names its line.

use std::collections::BTreeMap;
use std::ops::Range;

use paceline_cc::foreign::printable;
use paceline_cc::names::nearest;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::ScenarioError;
use super::setting::{Setting, SettingError};

/// A parsed scenario text, settings applied, and the place of every key in it.
#[derive(Clone)]
pub(crate) struct Places<'a> {
    file: &'a str,
    text: &'a str,
    settings: &'a [Setting],
    root: Spanned<DeValue<'a>>,
    /// Keys in the order of the file, a table before what it holds.
    places: Vec<Place>,
}

/// A key or an element of an array.
#[derive(Clone)]
pub(crate) struct Place {
    /// Such as `down.queue` or `flows[0].start`.
    pub(crate) path: String,
    /// Bytes of the key; of the element for arrays.
    key: Range<usize>,
    /// Bytes of the value.
    pub(super) value: Range<usize>,
    /// The value, when it is a text.
    pub(super) string: Option<String>,
}

impl<'a> Places<'a> {
    /// Parses the text and applies the settings to it.
    ///
    /// # Errors
    /// When it is not TOML, or has no place for a setting.
    pub(super) fn parse(file: &'a str, text: &'a str, settings: &'a [Setting]) -> Result<Self, ScenarioError> {
        let empty = Spanned::new(0..0, DeValue::Table(DeTable::new()));
        let mut places = Self { file, text, settings, root: empty, places: Vec::new() };
        let table = DeTable::parse(text).map_err(|error| places.error(&error))?;
        places.root = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
        for setting in settings {
            let wrong =
                |error: SettingError| ScenarioError::Option { option: setting.option(), problem: error.to_string() };
            setting.apply(places.root.get_mut()).map_err(wrong)?;
        }
        Ok(places.walked())
    }

    /// Parses a text without settings.
    ///
    /// # Errors
    /// When it is not TOML.
    #[cfg(feature = "parquet")]
    pub(crate) fn of(file: &'a str, text: &'a str) -> Result<Self, ScenarioError> {
        Self::parse(file, text, &[])
    }

    /// The same with other values, in TOML, for those that begin at these bytes.
    pub(super) fn with(&self, values: &'a BTreeMap<usize, String>) -> Result<Self, ScenarioError> {
        let mut places = self.clone();
        let mut root = places.root;
        replace(&mut root, values).map_err(|error| self.error(&error))?;
        places.root = root;
        Ok(places.walked())
    }

    /// What the text says.
    ///
    /// # Errors
    /// When it says anything else.
    pub(crate) fn read<T: Deserialize<'a>>(&self) -> Result<T, ScenarioError> {
        T::deserialize(ValueDeserializer::from(self.root.clone())).map_err(|error| self.error(&error))
    }

    /// Every key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.places.iter()
    }

    /// Whether nothing stands there but this table.
    pub(crate) fn has_only(&self, table: &str) -> bool {
        let within = |place: &Place| place.path.split('.').next() == Some(table);
        !self.places.is_empty() && self.places.iter().all(within)
    }

    /// An error about a key, at its line, or at the line of the table that lacks it.
    pub(crate) fn at(&self, path: &str, problem: impl Into<String>) -> ScenarioError {
        let mut search = path;
        let place = loop {
            if let Some(place) = self.places.iter().find(|place| place.path == search) {
                break Some(place);
            }
            match search.rfind(['.', '[']) {
                Some(end) => search = &search[..end],
                None => break None,
            }
        };
        self.wrong(place.map_or(0, |place| place.key.start), path.to_owned(), problem.into())
    }

    /// An error at a byte of the text or of a setting.
    fn wrong(&self, at: usize, field: String, problem: String) -> ScenarioError {
        if let Some(setting) = self.settings.iter().find(|setting| setting.place().contains(&at)) {
            let problem = if field.is_empty() { problem } else { format!("{field}: {problem}") };
            return ScenarioError::Option { option: setting.option(), problem };
        }
        ScenarioError::Field { file: self.file.to_owned(), line: self.line(at), field, problem }
    }

    /// What `toml` said, in one line and in a person's words.
    pub(super) fn error(&self, error: &toml::de::Error) -> ScenarioError {
        let span = error.span().unwrap_or(0..0);
        let (problem, missing) = in_words(error.message());
        let holds = |place: &&Place| match missing {
            // The span is the table that lacks the key.
            Some(_) => place.value == span,
            None => place.key.contains(&span.start) || place.value.contains(&span.start),
        };
        let field = self.places.iter().filter(holds).map(|place| place.path.as_str()).next_back().unwrap_or_default();
        let field = match (field, missing) {
            (table, Some(key)) if !table.is_empty() => format!("{table}.{key}"),
            (_, Some(key)) => key,
            (field, None) => field.to_owned(),
        };
        self.wrong(span.start, field, problem)
    }

    fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn walked(mut self) -> Self {
        self.places.clear();
        let root = self.root.clone();
        if let DeValue::Table(table) = root.get_ref() {
            self.walk_table("", table);
        }
        self
    }

    fn walk_table(&mut self, parent: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let separator = if parent.is_empty() { "" } else { "." };
            let path = format!("{parent}{separator}{}", printable(key.get_ref(), 60));
            self.walk(&path, key.span(), value.span(), value.get_ref());
        }
    }

    fn walk(&mut self, path: &str, key: Range<usize>, value: Range<usize>, node: &DeValue<'_>) {
        let string = node.as_str().map(str::to_owned);
        self.places.push(Place { path: path.to_owned(), key, value, string });
        match node {
            DeValue::Table(table) => self.walk_table(path, table),
            DeValue::Array(array) => {
                for (index, element) in array.iter().enumerate() {
                    self.walk(&format!("{path}[{index}]"), element.span(), element.span(), element.get_ref());
                }
            }
            _ => {}
        }
    }
}

/// Puts other values, in TOML, in place of those that begin at these bytes.
fn replace<'a>(node: &mut Spanned<DeValue<'a>>, values: &'a BTreeMap<usize, String>) -> Result<(), toml::de::Error> {
    let place = node.span();
    match node.get_mut() {
        DeValue::Table(table) => table.iter_mut().try_for_each(|(_, value)| replace(value, values)),
        DeValue::Array(array) => array.iter_mut().try_for_each(|value| replace(value, values)),
        _ => {
            if let Some(value) = values.get(&place.start) {
                *node = Spanned::new(place, DeValue::parse(value)?.into_inner());
            }
            Ok(())
        }
    }
}

/// The problem in words and, when a key is missing, its name.
fn in_words(message: &str) -> (String, Option<String>) {
    // What the file says comes first and may hold anything, quotes too; what is expected is ours.
    let (found, expected) = message.rsplit_once("`, expected").unwrap_or((message, ""));
    let first = found.split_once('`').map_or("", |(_, first)| first);
    let known = expected.split('`').skip(1).step_by(2);
    if message == "duplicate key" {
        return ("this name is given twice; rename one of the two, or take it out".to_owned(), None);
    }
    if message.starts_with("unknown field") {
        return (format!("unknown key '{}'; {}", printable(first, 40), nearest(first, known)), None);
    }
    if message.starts_with("unknown variant") {
        return (format!("unknown value '{}'; {}", printable(first, 40), nearest(first, known)), None);
    }
    if message.starts_with("missing field") {
        return ("this key is missing; add it".to_owned(), Some(first.trim_end_matches('`').to_owned()));
    }
    if let Some(rest) = message.strip_prefix("invalid value: ")
        && let Some((found, most)) = rest.split_once(", expected ")
        && let Some(most) = largest(most)
    {
        return (format!("{found} is not a whole number from 0 to {most}; write one such as 30"), None);
    }
    if let Some(rest) = message.strip_prefix("invalid type: ")
        && let Some((found, wanted)) = rest.split_once(", expected ")
    {
        let value =
            found.split_once('`').or(found.split_once('"')).map_or("", |(_, value)| value.trim_end_matches(['`', '"']));
        let (wanted, fix) = match wanted {
            "a string" => (
                "a text",
                "write a text in quotes, with its unit: \"24 Mbit/s\", \"20ms\" (--set without the quotes)".to_owned(),
            ),
            "a boolean" => (wanted, "write true or false".to_owned()),
            "a sequence" if found == "map" => ("a list of tables", "write [[name]] instead of [name]".to_owned()),
            "a sequence" => ("a list", format!("write [\"{value}\"]")),
            "f32" | "f64" => ("a number", "write one without quotes and unit, such as 30 or 0.5".to_owned()),
            _ if largest(wanted).is_some() => {
                ("a whole number", "write one without quotes and unit, such as 30".to_owned())
            }
            _ if wanted.starts_with("struct ") || wanted == "a map" => ("a table", "write { key = value }".to_owned()),
            _ => (wanted, format!("write {wanted}")),
        };
        return (printable(&format!("{found} stands where {wanted} is due; {fix}"), 300), None);
    }
    if message.starts_with("invalid boolean") || message.starts_with("string values must be quoted") {
        return ("this is neither a number nor true or false; write a text in quotes".to_owned(), None);
    }
    (printable(message, 300), None)
}

/// The largest number of a type, as far as TOML has it.
fn largest(kind: &str) -> Option<u64> {
    match kind {
        "u8" => Some(u8::MAX.into()),
        "u16" => Some(u16::MAX.into()),
        "u32" => Some(u32::MAX.into()),
        "u64" | "usize" => Some(i64::MAX.unsigned_abs()),
        _ => None,
    }
}
