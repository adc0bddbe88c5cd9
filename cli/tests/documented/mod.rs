//! Every command that a page shows exists: `paceline` with its options, targets of make, targets of cargo, scripts.

mod code;
mod pages;
mod paths;
mod project;

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::Cli;
use pages::{Shown, shown, words_of};
use project::Project;

/// What is wrong with a command of a page, in a few words; `None` when nothing is.
fn problem(project: &Project, words: &[String], complete: bool) -> Option<String> {
    if let Some(at) = words.iter().position(|word| is_choice(word)) {
        let chosen = |one: &str| [&words[..at], &[one.to_owned()], &words[at + 1..]].concat();
        return words[at].split('|').find_map(|one| problem(project, &chosen(one), false));
    }
    let (program, arguments) = words.split_first()?;
    // Before it stand assignments and sudo; systemd's units have ExecStart=PROGRAM.
    let program = program.strip_prefix("ExecStart=").unwrap_or(program);
    if program == "sudo" || program.contains('=') {
        return problem(project, arguments, complete);
    }
    match program.rsplit('/').next()? {
        "paceline" => paceline(arguments, complete).or_else(|| {
            let after = arguments.iter().position(|word| word == "--")?;
            problem(project, &arguments[after + 1..], complete)
        }),
        "make" => project.make(arguments),
        "cargo" => project.cargo(arguments),
        _ if program.starts_with("scripts/") || program.starts_with(".ci/") => project.script(program),
        _ => None,
    }
}

/// `trace synth|info` is each of them.
fn is_choice(word: &str) -> bool {
    word.contains('|') && word.chars().all(|c| c.is_ascii_lowercase() || "|-".contains(c))
}

/// A command that only names what it is about, in running text, may leave arguments out.
fn paceline(arguments: &[String], complete: bool) -> Option<String> {
    let unbracketed = arguments.iter().map(|word| match word.strip_prefix('[') {
        Some(word) => word.trim_end_matches(']'),
        None if !word.contains('[') => word.trim_end_matches(']'),
        None => word,
    });
    let error = Cli::try_parse_from(std::iter::once("paceline").chain(unbracketed)).err()?;
    let missing = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !complete,
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => match error.get(ContextKind::InvalidValue) {
            Some(ContextValue::String(value)) => is_placeholder(value) || value.is_empty() && !complete,
            _ => false,
        },
        _ => false,
    };
    (!missing).then(|| crate::complaint::of_arguments(&error, &Cli::command(), std::iter::empty()))
}

/// As in `--runs N`.
fn is_placeholder(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_uppercase())
}

/// Whether `paceline` has this option, under whatever command, or a script or cargo has.
fn is_option(project: &Project, option: &str) -> bool {
    fn has(command: &clap::Command, name: &str) -> bool {
        command.get_arguments().any(|argument| argument.get_long() == Some(name))
            || command.get_subcommands().any(|command| has(command, name))
    }
    let name = option.trim_start_matches("--");
    ["help", "version", "features"].contains(&name) || has(&Cli::command(), name) || project.has_option(option)
}

/// One line for each command of a page that does not exist, with the place.
fn problems(project: &Project, page: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for Shown { line, command, complete } in shown(text) {
        for words in words_of(&command) {
            let problem = if !complete && words[0].starts_with("--") {
                let options = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
                let unknown =
                    options.filter_map(|word| word.split('=').next()).find(|option| !is_option(project, option));
                unknown.map(|option| format!("no command has an option {option}"))
            } else if words.len() > 1 || words[0].contains('/') {
                problem(project, &words, complete)
            } else {
                None
            };
            problems.extend(problem.map(|problem| format!("{page}:{line}: {}: {problem}", words.join(" "))));
        }
    }
    problems
}

/// How high the crates of a folder stand.
fn floor(folder: &Path) -> usize {
    const FLOORS: [&str; 5] = ["core", "datapaths/linux", "datapaths", "lab", ""];
    FLOORS.iter().position(|floor| folder.starts_with(floor)).expect("the last one has all")
}

#[test]
fn no_crate_depends_on_one_above_it() {
    let project = Project::read();
    let all: Vec<(&Path, &Path)> = project.dependencies().collect();
    // One of each kind, so that none is overlooked.
    for [crate_, on] in
        [["core/sim", "core/cc"], ["datapaths/kernel", "core/sim"], ["datapaths/int", "datapaths/kernel"]]
    {
        assert!(all.contains(&(Path::new(crate_), Path::new(on))), "{crate_} depends on {on}");
    }
    let upward: Vec<_> = all.iter().filter(|(crate_, on)| floor(on) > floor(crate_)).collect();
    assert!(upward.is_empty(), "these crates depend on one above them: {upward:?}");
}

#[test]
fn every_command_of_a_page_exists() {
    let project = Project::read();
    let mut commands = 0;
    let mut wrong = Vec::new();
    for (page, text) in project.pages() {
        let is_ours = |words: &Vec<String>| words.iter().any(|word| word.ends_with("paceline"));
        commands += shown(&text).flat_map(|shown| words_of(&shown.command)).filter(is_ours).count();
        wrong.extend(problems(&project, &page, &text));
    }
    assert!(commands > 100, "commands are found, {commands} of them");
    assert!(wrong.is_empty(), "commands that do not exist:\n{}", wrong.join("\n"));
}

#[test]
fn what_does_not_exist_is_found() {
    let text = "\
`paceline race` is good, `paceline run` is not, nor is `--runs 1 --contestant A`; `--contestants LIST` is, `-p` and `now` are no matter.

    paceline race SCENARIO --runs N     all of them
    sudo PREFIX=DIR paceline emulate --delay 20ms -- paceline emulate --los 0.01 -- sh -c 'paceline no'    # paceline no
    paceline shim --cc copa

```sh
$ paceline emulate --rate fast --delay 1ms -- true
X=1 Y=2 target/release/paceline race a.toml \\
    --sed 1 | head && make test > out; make tests SECONDS=1 MINUTES=1
paceline trace validate|judge FILE... [--bin]
cargo test -p paceline-cc --test model --test none -- --test other
cargo build --release -p paceline-cli --features ebpf,teapot && UPDATE=1 cargo test -p paceline-none
(sudo scripts/none; scripts/setup lint) 2>&1
```

```text
paceline of other times
```
";
    let found = problems(&Project::read(), "page.md", text);
    let places: Vec<_> = found.iter().map(|line| line.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": ")).collect();
    let expected = [
        "page.md:1: paceline run",
        "page.md:1: --runs 1 --contestant A",
        "page.md:3: paceline race SCENARIO --runs N all of them",
        "page.md:4: sudo PREFIX=DIR paceline emulate --delay 20ms -- paceline emulate --los 0.01 -- sh -c paceline no",
        "page.md:5: paceline shim --cc copa",
        "page.md:8: paceline emulate --rate fast --delay 1ms -- true",
        "page.md:9: X=1 Y=2 target/release/paceline race a.toml --sed 1",
        "page.md:9: make tests SECONDS=1 MINUTES=1",
        "page.md:11: paceline trace validate|judge FILE... [--bin]",
        "page.md:12: cargo test -p paceline-cc --test model --test none -- --test other",
        "page.md:13: cargo build --release -p paceline-cli --features ebpf,teapot",
        "page.md:13: UPDATE=1 cargo test -p paceline-none",
        "page.md:14: sudo scripts/none",
    ];
    assert_eq!(places, expected, "{found:#?}");
}

/// What programs have no use for.
const WITHOUT_JSON: [(&str, &str); 3] = [
    ("paceline report", "it writes one page"),
    ("paceline completions", "its output is a shell's"),
    ("paceline manual", "it writes pages"),
];

#[test]
fn every_command_prints_json_for_programs() {
    fn leaves(command: &clap::Command, name: &str, found: &mut Vec<(String, bool)>) {
        if command.get_subcommands().next().is_none() {
            let has = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
            found.push((name.to_owned(), has));
        }
        for below in command.get_subcommands() {
            leaves(below, &format!("{name} {}", below.get_name()), found);
        }
    }
    let mut found = Vec::new();
    leaves(&Cli::command(), "paceline", &mut found);
    assert!(found.len() > 40, "{found:?}");
    let page = Project::read().pages().into_iter().find(|(page, _)| page.ends_with("docs/guide/json.md"));
    let page = page.expect("the page of --json").1;
    for (name, has) in found {
        let excused = WITHOUT_JSON.iter().any(|(other, _)| *other == name);
        assert!(has != excused, "{name}: give it --json as its neighbours have it, or a reason in WITHOUT_JSON");
        assert!(page.contains(&format!("`{name}`")), "{name}: docs/guide/json.md does not name it");
    }
}
