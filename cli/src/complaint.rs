//! One line on standard error.

use std::io::Write;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use paceline_cc::foreign::printable;
pub(crate) use paceline_cc::foreign::with_causes;

/// Of a longer word its beginning is shown. No path is longer (Linux `PATH_MAX`).
const LONGEST_WORD: usize = 4096;
/// This much of it (our choice: enough to know it again).
const BEGINNING: usize = 40;

/// Prints `paceline: text`, in one line whatever the text holds.
pub(crate) fn print(text: &str) {
    // When standard error is closed there is nowhere to report to.
    let _ = writeln!(std::io::stderr(), "paceline: {}", shortened(&one_line(text.trim())));
}

fn shortened(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.char_indices().nth(BEGINNING) {
        Some((end, _)) if word.len() > LONGEST_WORD => format!("{}…", &word[..end]),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A text without line ends and without anything else that a terminal obeys.
pub(crate) fn one_line(text: &str) -> String {
    printable(text, usize::MAX)
}

/// An error and its causes, each once: the text of many errors includes their cause.
pub(crate) fn of_error(error: &anyhow::Error) -> String {
    with_causes(error.as_ref())
}

/// What people write for a command, and what does it.
const ELSEWHERE: [(&str, &str); 2] = [
    ("open-window", "open-window is gone; write paceline kernel load paceline_open, and run the program beside it"),
    ("version", "version is an option; write paceline --version"),
];

/// Options that people look for in a command that has others: the command, the option, what to write.
const OTHERWISE: [(&str, &str, &str); 3] = [
    (
        "race",
        "--output",
        "the report goes to --report DIR, records to --json, --csv or --parquet FILE, time series to --series FILE",
    ),
    ("race", "--scenario", "the file stands alone: write paceline race SCENARIO.toml"),
    ("fetch", "--seconds", "the server knows no end of it; give the NAME of a file, or --bytes N"),
];

/// Options that name what a command writes; people take one for another.
const OUTPUTS: [&str; 5] = ["report", "out", "output", "json", "csv"];

/// Commands whose program stands behind `--`.
const RUNNERS: [&str; 3] = ["emulate", "shim", "kernel run"];

/// What clap says of wrong arguments, in one line: the error, its tips, and what to write instead. `arguments`: those of the
/// process, which name the command where clap does not.
pub(crate) fn of_arguments(
    error: &clap::Error,
    root: &clap::Command,
    arguments: impl Iterator<Item = String>,
) -> String {
    let arguments: Vec<String> = arguments.collect();
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand)
        && let Some((_, instead)) = ELSEWHERE.iter().find(|(before, _)| before == given)
    {
        return format!("{instead}; see paceline --help");
    }
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) {
        let (named, own) = named(root, arguments.iter().cloned());
        let command = named.strip_prefix("paceline ").unwrap_or_default();
        if let Some((_, _, instead)) = OTHERWISE.iter().find(|(of, option, _)| (*of, *option) == (command, given)) {
            return format!("{command} has no {given}: {instead}; see paceline {command} --help");
        }
        let outputs = outputs(own);
        let unknown = error.kind() == ErrorKind::UnknownArgument;
        if unknown && given.strip_prefix("--").is_some_and(|given| OUTPUTS.contains(&given)) && !outputs.is_empty() {
            return format!("{command} has no {given}; it has {}; see {named} --help", outputs.join(", "));
        }
        if RUNNERS.contains(&command) && !given.starts_with('-') {
            return format!(
                "a program stands behind --: write paceline {command} [OPTIONS] -- {given}; see paceline {command} --help"
            );
        }
    }
    let text = error.to_string();
    let mut line = String::new();
    for part in text.lines().map(str::trim).take_while(|part| !part.starts_with("Usage:")) {
        // An unknown option would be run as a program of that name, or sent as a file.
        if part.starts_with("tip: to pass '") {
            continue;
        }
        if let Some(tip) = part.strip_prefix("tip: ") {
            line.push_str("; ");
            line.push_str(tip);
        } else if part.starts_with("For more information") {
            break;
        } else if !part.is_empty() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(part.strip_prefix("error: ").unwrap_or(part));
        }
    }
    if line.is_empty() || text.starts_with("Usage:") || !text.starts_with("error:") {
        line = "no command is given".to_owned();
    }
    let usage = text.lines().find_map(|part| part.strip_prefix("Usage: ")).unwrap_or_default();
    // The words of the command come before what it takes.
    let command: Vec<&str> = usage.split(' ').take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
    match command.as_slice() {
        // The usage of an unknown option says nothing of what to write in its place.
        ["paceline", _, ..] if error.kind() != ErrorKind::UnknownArgument => {
            format!("{line}; write {usage}; see {} --help", command.join(" "))
        }
        _ => format!("{line}; see {} --help", named(root, arguments.into_iter()).0),
    }
}

/// What of [`OUTPUTS`] a command has, with what it takes: `--report DIR`.
fn outputs(command: &clap::Command) -> Vec<String> {
    let option = |name: &&'static str| {
        let option = command.get_arguments().find(|argument| argument.get_long() == Some(name))?;
        let takes =
            option.get_value_names().filter(|_| option.get_action().takes_values()).and_then(|names| names.first());
        Some(takes.map_or_else(|| format!("--{name}"), |takes| format!("--{name} {takes}")))
    };
    OUTPUTS.iter().filter_map(option).collect()
}

/// The command that arguments name, as far as they do: `paceline icn fetch`.
fn named(root: &clap::Command, arguments: impl Iterator<Item = String>) -> (String, &clap::Command) {
    let (mut words, mut at) = (vec![root.get_name().to_owned()], root);
    for argument in arguments.skip(1) {
        let Some(next) = at.find_subcommand(&argument) else { break };
        words.push(argument);
        at = next;
    }
    (words.join(" "), at)
}
