//! Every argument that is a path is one that the tests of outputs know.

use std::any::TypeId;
use std::path::PathBuf;

use clap::CommandFactory;

use crate::Cli;

#[expect(dead_code, reason = "how a command is run is for the tests of the command")]
#[path = "../command/outputs/table.rs"]
mod table;

fn paths(command: &clap::Command, name: &str, found: &mut Vec<(String, String)>) {
    // By its type, or by what its help calls it.
    let called = |name: &clap::builder::Str| name.split(' ').any(|word| ["FILE", "DIR", "FOLDER"].contains(&word));
    let is_path = |argument: &&clap::Arg| {
        let typed = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        typed || argument.get_value_names().is_some_and(|names| names.iter().any(called))
    };
    found.extend(command.get_arguments().filter(is_path).map(|argument| {
        let id = argument.get_long().unwrap_or_else(|| argument.get_id().as_str());
        (name.to_owned(), id.to_owned())
    }));
    for own in command.get_subcommands() {
        paths(own, format!("{name} {}", own.get_name()).trim(), found);
    }
}

#[test]
fn every_argument_that_is_a_path_has_its_line() {
    let mut found = Vec::new();
    paths(&Cli::command(), "", &mut found);
    let known: Vec<_> =
        table::ARGUMENTS.iter().map(|known| (known.command.to_owned(), known.name.to_owned())).collect();
    let missing: Vec<_> = found.iter().filter(|argument| !known.contains(argument)).collect();
    assert!(missing.is_empty(), "add to cli/tests/command/outputs/table.rs: {missing:?}");
    let gone: Vec<_> = known.iter().filter(|argument| !found.contains(argument)).collect();
    assert!(gone.is_empty(), "in cli/tests/command/outputs/table.rs, but not in the command: {gone:?}");
}
