//! What there is in this project to run: targets of make and of cargo, scripts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

pub(super) struct Project {
    root: PathBuf,
    makefile: String,
    /// Folder and manifest of each crate, by name.
    crates: BTreeMap<String, (PathBuf, Table)>,
    scripts: String,
    files: Vec<PathBuf>,
}

impl Project {
    pub(super) fn read() -> Self {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).to_owned();
        let mut files = Vec::new();
        list(&root, Path::new(""), &mut files);
        let text = |path: &Path| fs::read_to_string(root.join(path)).unwrap_or_default();
        let manifests = files.iter().filter(|path| path.ends_with("Cargo.toml"));
        let crates = manifests.filter_map(|path| {
            let manifest: Table = text(path).parse().expect("a manifest");
            let name = manifest.get("package")?["name"].as_str()?.to_owned();
            Some((name, (root.join(path.parent()?), manifest)))
        });
        Self {
            makefile: text(Path::new("Makefile")),
            crates: crates.collect(),
            scripts: files.iter().filter(|path| path.starts_with("scripts")).map(|path| text(path)).collect(),
            files,
            root,
        }
    }

    /// Each page with its name, but not the changelog, which also says what was.
    pub(super) fn pages(&self) -> impl Iterator<Item = (String, String)> {
        let is_page =
            |path: &&PathBuf| path.extension().is_some_and(|end| end == "md") && !path.ends_with("CHANGELOG.md");
        self.files.iter().filter(is_page).map(|path| {
            (path.display().to_string(), fs::read_to_string(self.root.join(path)).expect("a page of the project"))
        })
    }

    /// Each file of Rust with its text, but those of tests, benches, examples and fuzz targets.
    pub(super) fn code(&self) -> impl Iterator<Item = (String, String)> {
        let apart = ["tests", "tests.rs", "benches", "examples", "fuzz"];
        let is_code = move |path: &&PathBuf| {
            path.extension().is_some_and(|end| end == "rs")
                && !path.iter().any(|part| apart.iter().any(|one| part.to_str() == Some(one)))
        };
        self.files.iter().filter(is_code).map(|path| {
            (path.display().to_string(), fs::read_to_string(self.root.join(path)).expect("a file of the project"))
        })
    }

    pub(super) fn make(&self, arguments: &[String]) -> Option<String> {
        arguments.iter().find_map(|word| match word.split_once('=') {
            Some((variable, _)) => {
                let known = [format!("$({variable})"), format!("\n{variable} ?=")];
                (!known.iter().any(|use_| self.makefile.contains(use_))).then(|| format!("no variable {variable}"))
            }
            None => (!self.makefile.contains(&format!("\n{word}: "))).then(|| format!("no target {word}")),
        })
    }

    pub(super) fn cargo(&self, arguments: &[String]) -> Option<String> {
        let mut options = Vec::new();
        let mut words = arguments.iter().take_while(|word| *word != "--").map(String::as_str);
        while let Some(word) = words.next() {
            if ["-p", "--test", "--bench", "--example", "--features"].contains(&word) {
                options.push((word, words.next()?));
            }
        }
        let named = |option| options.iter().filter(move |(of, _)| *of == option).map(|(_, value)| *value);
        if let Some(unknown) = named("-p").find(|name| !self.crates.contains_key(*name)) {
            return Some(format!("no crate {unknown}"));
        }
        let crates = || named("-p").map(|name| &self.crates[name]);
        for (option, folder) in [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")] {
            let has = |target: &str| {
                crates().any(|(at, _)| {
                    let file = at.join(folder).join(target);
                    file.with_extension("rs").is_file() || file.join("main.rs").is_file()
                })
            };
            if let Some(unknown) = named(option).find(|target| !has(target)) {
                return Some(format!("no {} {unknown}", &option[2..]));
            }
        }
        let has = |feature: &str| {
            crates().any(|(_, manifest)| manifest.get("features").and_then(|features| features.get(feature)).is_some())
        };
        let unknown = named("--features").flat_map(|list| list.split(',')).find(|feature| !has(feature))?;
        (named("-p").count() > 0).then(|| format!("no feature {unknown}"))
    }

    pub(super) fn script(&self, path: &str) -> Option<String> {
        (!self.root.join(path).exists()).then(|| "no such script".to_owned())
    }

    /// Each dependency of one crate of the project on another one, tests' and builds' among them, by their folders.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let folder = |of: &str| self.crates.get(of).and_then(|(folder, _)| folder.strip_prefix(&self.root).ok());
        self.crates.iter().flat_map(move |(name, (_, manifest))| {
            let systems = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
            let tables = systems.filter_map(|(_, table)| table.as_table()).chain([manifest]);
            let lists = tables.flat_map(|table| {
                ["dependencies", "dev-dependencies", "build-dependencies"].map(|kind| table.get(kind)?.as_table())
            });
            lists.flatten().flatten().filter_map(move |(on, _)| Some((folder(name)?, folder(on)?)))
        })
    }

    /// Whether a script has this option.
    pub(super) fn has_option(&self, option: &str) -> bool {
        self.scripts.contains(&format!("\"{option}\""))
    }
}

/// Files of the project, from its root; not what is built or produced here, and nothing hidden.
fn list(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder of the project") {
        let entry = entry.expect("a folder of the project");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = folder.join(&name);
        let kind = entry.file_type().expect("it is there");
        if kind.is_file() {
            found.push(path);
        } else if kind.is_dir()
            && !name.starts_with('.')
            && !["target", "out", "corpus", "artifacts", "node_modules"].contains(&&*name)
        {
            list(root, &path, found);
        }
    }
}
