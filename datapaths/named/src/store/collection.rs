//! A folder as an object: which name each of its files has.

use std::collections::BTreeMap;

use paceline_icn::Name;

use super::error::StoreError;

/// The media type of collections.
pub const COLLECTION: &str = "application/vnd.paceline.collection+json";

/// The files of a published folder: their paths within it, with `/` between their parts, and their names. As an object it is JSON:
/// `{"index.m3u8":"NAME","low/0.ts":"NAME"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collection {
    files: BTreeMap<String, Name>,
}

impl Collection {
    /// Adds a file.
    pub fn insert(&mut self, path: String, name: Name) {
        self.files.insert(path, name);
    }

    /// The name of the file with this path.
    pub fn find(&self, path: &str) -> Option<&Name> {
        self.files.get(path)
    }

    /// Whether files lie in the folder with this path, which is without a slash at its end.
    pub fn has_folder(&self, path: &str) -> bool {
        let within = format!("{path}/");
        self.files.range(within.clone()..).next().is_some_and(|(first, _)| first.starts_with(&within))
    }

    /// The files by their paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Name)> {
        self.files.iter().map(|(path, name)| (path.as_str(), name))
    }

    /// How many files it has.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Bytes of memory that it takes, about: each file has a node's place, its path and the head of that.
    pub fn memory(&self) -> usize {
        self.files.keys().map(|path| path.len() + 128).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// As an object's bytes: the same for the same files.
    pub fn to_json(&self) -> Vec<u8> {
        let files: serde_json::Map<_, _> =
            self.files.iter().map(|(path, name)| (path.clone(), name.to_string().into())).collect();
        serde_json::Value::Object(files).to_string().into_bytes()
    }

    /// From an object's bytes.
    ///
    /// # Errors
    /// When they are no collection.
    pub fn from_json(bytes: &[u8]) -> Result<Self, StoreError> {
        let files: BTreeMap<String, String> =
            serde_json::from_slice(bytes).map_err(|error| StoreError::Collection(error.to_string()))?;
        let named = |(path, name): (String, String)| match name.parse() {
            Ok(name) => Ok((path, name)),
            Err(error) => Err(StoreError::Collection(format!("{path:?}: {error}"))),
        };
        Ok(Self { files: files.into_iter().map(named).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use paceline_icn::name::Kind;

    use super::*;

    #[test]
    fn json_holds_the_same_files() {
        let mut collection = Collection::default();
        let name = Name::new(Kind::Object, [1; 32]);
        collection.insert("low/0.ts".into(), name);
        collection.insert("index.m3u8".into(), Name::new(Kind::Object, [2; 32]));
        let json = collection.to_json();
        assert_eq!(Collection::from_json(&json).expect("it was written so"), collection);
        assert_eq!(collection.find("low/0.ts"), Some(&name));
        assert!(
            collection.has_folder("low")
                && !["", "lo", "low/", "low/0.ts", "x"].iter().any(|path| collection.has_folder(path))
        );
        for bad in ["", "[]", "{\"a\":1}", "{\"a\":\"b\"}"] {
            let error = Collection::from_json(bad.as_bytes()).expect_err("it is none").to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
