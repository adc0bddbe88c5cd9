//! What the code promises in its types.

use std::collections::{BTreeMap, BTreeSet};

use super::project::Project;

/// Most results whose error is a bare text: words that a server says to its client, mostly. The number may only fall.
const MOST_TEXTS: usize = 10;

/// Most public types and traits whose name stands in more than one crate. The number may only fall.
const MOST_SHARED: usize = 40;

/// The arguments of a type, whose `<` has been read.
fn arguments(text: &str) -> Vec<String> {
    let (mut depth, mut before, mut found) = (1, ' ', vec![String::new()]);
    for c in text.chars() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if c == ',' && depth == 1 {
            found.push(String::new());
        } else if let Some(last) = found.last_mut() {
            last.push(c);
        }
        before = c;
    }
    found.iter().map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
}

/// The lines, from 1, of each `Result<_, String>`: in signatures over any number of lines, in other types, in aliases.
fn texts_as_errors(code: &str) -> Vec<usize> {
    const RESULT: &str = "Result<";
    let code = code.find("#[cfg(test)]\nmod ").map_or(code, |end| &code[..end]);
    let uncommented: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let uncommented = uncommented.join("\n");
    let places = uncommented.match_indices(RESULT).map(|(at, _)| at);
    let of_text =
        |at: &usize| arguments(&uncommented[at + RESULT.len()..]).get(1).is_some_and(|error| error == "String");
    places.filter(of_text).map(|at| uncommented[..at].matches('\n').count() + 1).collect()
}

#[test]
fn errors_are_types() {
    let found: Vec<String> = Project::read()
        .code()
        .flat_map(|(file, code)| texts_as_errors(&code).into_iter().map(move |line| format!("{file}:{line}")))
        .collect();
    assert!(
        found.len() <= MOST_TEXTS,
        "{} results have a text as error, and {MOST_TEXTS} may: give a thiserror enum instead\n{}",
        found.len(),
        found.join("\n")
    );
}

/// The name of the public type or trait that a line begins.
fn public_type(line: &str) -> Option<&str> {
    let (kind, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(&rest[..end])
}

/// The folder of the crate that a file is of: `cli`, `core/cc`.
fn crate_of(file: &str) -> &str {
    file.split_once("/src/").map_or(file, |(folder, _)| folder)
}

#[test]
fn a_public_name_stands_in_one_crate() {
    let project = Project::read();
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, code) in project.code() {
        let code = code.find("#[cfg(test)]\nmod ").map_or(code.as_str(), |end| &code[..end]);
        for name in code.lines().filter_map(public_type) {
            names.entry(name.to_owned()).or_default().insert(crate_of(&file).to_owned());
        }
    }
    names.retain(|_, crates| crates.len() > 1);
    assert!(
        names.len() <= MOST_SHARED,
        "{} public names stand in more than one crate, and {MOST_SHARED} may: give the new one another\n{names:#?}",
        names.len()
    );
}

#[test]
fn public_types_are_seen() {
    let lines = [
        "pub struct Trace {",
        "    pub enum Kind<T>",
        "pub(crate) struct Row;",
        "pub fn trait() {}",
        "pub type Id = u8;",
    ];
    let seen: Vec<_> = lines.into_iter().filter_map(public_type).collect();
    assert_eq!(seen, ["Trace", "Kind", "Id"]);
    assert_eq!(crate_of("core/cc/src/units/text.rs"), "core/cc");
}

#[test]
fn a_text_as_error_is_found_wherever_it_stands() {
    // Text stands for String, so that this file has none.
    let code = "fn a(\n    one: u8,\n) -> Result<\n    Vec<(u8, Option<u8>)>,\n    Text,\n> {\n\
                type Known = io::Result<Result<u8, Text>>;\n\
                // -> Result<u8, Text>\n\
                fn b(of: impl Fn(u8) -> Result<(), Text>) -> Result<Text, Error>;\n\
                #[cfg(test)]\nmod tests {\n    fn c() -> Result<(), Text>;\n";
    assert_eq!(texts_as_errors(&code.replace("Text", "String")), [3, 7, 9]);
}
