//! A folder as an object: which name each of its files has.

use std::collections::BTreeMap;
use std::fmt;

use paceline_icn::Name;
use serde::Deserializer as _;
use serde::de::{Error as _, MapAccess, Visitor};

use super::error::StoreError;

/// The media type of collections.
pub const COLLECTION: &str = "application/vnd.paceline.collection+json";

/// The files of a published folder: their paths within it, with `/` between their parts, and their names. As an object it is JSON:
/// `{"index.m3u8":"NAME","low/0.ts":"NAME"}`.
///
/// In memory it is two pieces, however many files there are, so that what a gateway forgets goes back to the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collection {
    /// All paths, one behind the other.
    paths: String,
    /// Where each path is in there, and the file's name; in the order of the paths.
    files: Vec<(usize, usize, Name)>,
}

impl From<BTreeMap<String, Name>> for Collection {
    fn from(files: BTreeMap<String, Name>) -> Self {
        let mut collection = Self::default();
        files.iter().for_each(|(path, name)| collection.push(path, *name));
        collection
    }
}

impl Collection {
    fn push(&mut self, path: &str, name: Name) {
        let start = self.paths.len();
        self.paths.push_str(path);
        self.files.push((start, self.paths.len(), name));
    }

    fn path(&self, (start, end, _): &(usize, usize, Name)) -> &str {
        self.paths.get(*start..*end).unwrap_or_default()
    }

    /// The name of the file with this path.
    pub fn find(&self, path: &str) -> Option<&Name> {
        let found = self.files.binary_search_by(|file| self.path(file).cmp(path)).ok()?;
        self.files.get(found).map(|(.., name)| name)
    }

    /// Whether files lie in the folder with this path, which is without a slash at its end.
    pub fn has_folder(&self, path: &str) -> bool {
        let within = format!("{path}/");
        let first = self.files.partition_point(|file| self.path(file) < within.as_str());
        self.files.get(first).is_some_and(|file| self.path(file).starts_with(&within))
    }

    /// The files by their paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Name)> {
        self.files.iter().map(|file| (self.path(file), &file.2))
    }

    /// How many files it has.
    pub const fn len(&self) -> usize {
        self.files.len()
    }

    /// Bytes of memory that it takes.
    pub const fn memory(&self) -> usize {
        self.paths.capacity() + self.files.capacity() * size_of::<(usize, usize, Name)>()
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// As an object's bytes: the same for the same files.
    pub fn to_json(&self) -> Vec<u8> {
        let files: serde_json::Map<_, _> =
            self.files().map(|(path, name)| (path.to_owned(), name.to_string().into())).collect();
        serde_json::Value::Object(files).to_string().into_bytes()
    }

    /// From an object's bytes. Of a path that stands there twice the last one counts.
    ///
    /// # Errors
    /// When they are not a collection.
    pub fn from_json(bytes: &[u8]) -> Result<Self, StoreError> {
        let bad = |error: serde_json::Error| StoreError::Collection(error.to_string());
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let mut collection = json.deserialize_map(Files).map_err(bad)?;
        json.end().map_err(bad)?;
        collection.put_in_order();
        Ok(collection)
    }

    fn put_in_order(&mut self) {
        let Self { paths, files } = self;
        let path = |(start, end, _): &(usize, usize, Name)| paths.get(*start..*end).unwrap_or_default();
        if !files.is_sorted_by(|one, other| path(one) < path(other)) {
            // The last one of a path first: that one stays.
            files.reverse();
            files.sort_by(|one, other| path(one).cmp(path(other)));
            files.dedup_by(|one, other| path(one) == path(other));
        }
        files.shrink_to_fit();
        paths.shrink_to_fit();
    }
}

/// Reads the object of JSON.
struct Files;

impl<'de> Visitor<'de> for Files {
    type Value = Collection;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of paths and names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Collection, A::Error> {
        let mut collection = Collection::default();
        while let Some((path, name)) = map.next_entry::<String, String>()? {
            let name = name.parse().map_err(|error| A::Error::custom(format!("{path:?}: {error}")))?;
            collection.push(&path, name);
        }
        Ok(collection)
    }
}

#[cfg(test)]
mod tests {
    use paceline_icn::name::NameKind;

    use super::*;

    #[test]
    fn json_holds_the_same_files() {
        let name = Name::new(NameKind::Object, [1; 32]);
        let files =
            [("low/0.ts", name), ("index.m3u8", Name::new(NameKind::Object, [2; 32])), ("a.b", name), ("a/b", name)];
        let collection = Collection::from(BTreeMap::from(files.map(|(path, name)| (path.to_owned(), name))));
        let json = collection.to_json();
        let again = Collection::from_json(&json).expect("it was written so");
        assert!(again.files().eq(collection.files()) && again.len() == 4);
        for (path, name) in files {
            assert_eq!(again.find(path), Some(&name));
        }
        assert!(again.has_folder("low") && again.has_folder("a"));
        assert!(!["", "lo", "low/", "low/0.ts", "x"].iter().any(|path| again.has_folder(path)));
        assert_eq!((again.find(""), again.find("b"), again.find("z")), (None, None, None));
        for bad in ["", "[]", "{\"a\":1}", "{\"a\":\"b\"}", "{} x"] {
            let error = Collection::from_json(bad.as_bytes()).expect_err("it is malformed").to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn paths_may_stand_in_any_order_and_twice() {
        let names: Vec<Name> = (1..=4).map(|byte| Name::new(NameKind::Object, [byte; 32])).collect();
        let json =
            format!("{{\"c\":\"{}\",\"a\":\"{}\",\"b\":\"{}\",\"a\":\"{}\"}}", names[0], names[1], names[2], names[3]);
        let collection = Collection::from_json(json.as_bytes()).expect("a collection");
        let expected = [("a", &names[3]), ("b", &names[2]), ("c", &names[0])];
        assert!(collection.files().eq(expected), "{collection:?}");
        assert!(collection.memory() < 400, "{}", collection.memory());
    }
}
