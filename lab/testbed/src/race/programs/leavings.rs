//! What a flow of a program leaves in its folder: numbers of its own, qlogs, what it said.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use paceline_emulator::command::tree::{KEPT, last_lines as lines_of};
use paceline_experiment::program::{Figure, Side};
use serde_json::Value;

use super::LastLines;

/// Names of logs end like this: draft-ietf-quic-qlog-main-schema, and the streams of records that many write.
const QLOGS: [&str; 2] = ["qlog", "sqlog"];
/// Most logs that are named, and folders deep that they are looked for (our choice).
const MOST_QLOGS: usize = 64;
const DEEP: usize = 3;

/// The program's own numbers, those that are there.
pub(super) fn figures(wanted: &BTreeMap<String, Figure>, folder: &Path) -> BTreeMap<String, f64> {
    let number = |figure: &Figure| {
        let mut text = Vec::new();
        File::open(folder.join(&figure.file)).ok()?.take(KEPT).read_to_end(&mut text).ok()?;
        let value: Value = serde_json::from_slice(&text).ok()?;
        value.pointer(&figure.pointer)?.as_f64()
    };
    wanted.iter().filter_map(|(name, figure)| Some((name.clone(), number(figure)?))).collect()
}

/// The logs below the folder, by their names.
pub(super) fn qlogs(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    look(folder, DEEP, &mut found);
    found.sort();
    found
}

fn look(folder: &Path, deep: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (Ok(kind), path) = (entry.file_type(), entry.path()) else { continue };
        if kind.is_dir() && deep > 0 {
            look(&path, deep - 1, found);
        } else if kind.is_file() && path.extension().is_some_and(|end| QLOGS.iter().any(|known| end == *known)) {
            if found.len() == MOST_QLOGS {
                return;
            }
            found.push(path);
        }
    }
}

/// The last lines of a side's standard error.
pub(super) fn last_lines(folder: &Path, side: Side) -> LastLines {
    let text = fs::read(folder.join(format!("{}.err", side.name()))).unwrap_or_default();
    LastLines(lines_of(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_logs_are_found_and_what_is_odd_is_not() {
        let folder = std::env::temp_dir().join(format!("paceline-leavings-{}", std::process::id()));
        fs::create_dir_all(folder.join("sender/deeper")).unwrap();
        fs::write(folder.join("sender.out"), r#"{"end": {"sum": 12, "a/b": 0.5, "text": "1"}}"#).unwrap();
        fs::write(folder.join("sender/odd"), "{").unwrap();
        for log in ["sender/x.sqlog", "sender/deeper/y.qlog", "sender/z.log"] {
            fs::write(folder.join(log), "").unwrap();
        }
        let wanted = [
            ("sum", "sender.out#/end/sum"),
            ("half", "sender.out#/end/a~1b"),
            ("text", "sender.out#/end/text"),
            ("none", "sender.out#/nothing"),
            ("odd", "sender/odd#/end"),
            ("missing", "receiver/x#/end"),
        ];
        let figure = |text: &str| Figure::try_from(text.to_owned()).unwrap();
        let wanted = wanted.map(|(name, text)| (name.to_owned(), figure(text))).into();
        let found = figures(&wanted, &folder);
        assert_eq!(found, [("half".to_owned(), 0.5), ("sum".to_owned(), 12.0)].into());
        let logs = qlogs(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(logs, ["sender/deeper/y.qlog", "sender/x.sqlog"].map(|log| folder.join(log)));
    }
}
