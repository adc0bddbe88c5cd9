//! Whether what describes a program can be run.

use std::path::{Component, Path};

use paceline_cc::Nanos;
use paceline_cc::foreign::clipped;
use paceline_cc::names::{is_plain, nearest};

use super::{Figure, Program, Ready};

/// Variables that every command finds, which none of a program's own may hide.
const TAKEN: [&str; 5] = ["PATH", "HOME", "LANG", "QLOGDIR", "ROLE"];
const OURS: &str = "PACELINE_";
/// Longest that anything waits for a program (our choice: a minute).
const LONGEST: Nanos = Nanos::from_millis(60_000);

/// What is wrong with a program, or with what a contestant wants of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A key of its table.
    #[error("{key}: {problem}")]
    Key {
        /// The key, below its table.
        key: String,
        /// What is wrong, and how to fix it.
        problem: String,
    },
    /// It has no such option.
    #[error("{program} has no option{}", no_option(program, name, known))]
    Option {
        /// Its name.
        program: String,
        /// The option as given.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// A value could mean more to a shell than itself.
    #[error("{name}={}: it is not a plain name; write letters, digits, '-', '_', '.' and '+'", clipped(value))]
    Value {
        /// The option.
        name: String,
        /// The value as given.
        value: String,
    },
    /// It does not say where a number stands.
    #[error(
        "'{}' is not FILE#/JSON/pointer with a file of the flow's outputs; write one such as sender.out#/end/bytes",
        clipped(.0)
    )]
    Figure(String),
}

fn no_option(program: &str, name: &str, known: &[String]) -> String {
    if known.is_empty() {
        return format!("s; write {program}@program");
    }
    format!(" '{}'; {}", clipped(name), nearest(name, known.iter().map(String::as_str)))
}

fn wrong(key: impl Into<String>, problem: impl Into<String>) -> Result<(), ProgramError> {
    Err(ProgramError::Key { key: key.into(), problem: problem.into() })
}

pub(super) fn figure(text: &str) -> Result<Figure, ProgramError> {
    let inside =
        |file: &str| !file.is_empty() && Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    match text.split_once('#') {
        Some((file, pointer)) if inside(file) && (pointer.is_empty() || pointer.starts_with('/')) => {
            Ok(Figure { file: file.to_owned(), pointer: pointer.to_owned() })
        }
        _ => Err(ProgramError::Figure(text.to_owned())),
    }
}

/// Whether a shell takes it as the name of a variable.
fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

impl Program {
    /// Whether all of it can be run.
    ///
    /// # Errors
    /// The first key that is wrong, and how to fix it.
    pub fn check(&self) -> Result<(), ProgramError> {
        for (key, command) in self.commands() {
            if command.trim().is_empty() {
                return wrong(key, "it is empty; write a command for /bin/sh, or leave the key out where it may be");
            }
            if command.contains('\0') {
                return wrong(key, "it has a zero byte, which no command can have; take it out");
            }
        }
        if self.port == 0 {
            return wrong("port", "0 is not a port; write one such as 20000");
        }
        let waits = [("ready_within", self.ready_within), ("linger", self.linger), ("grace", self.grace)];
        let after = match self.ready {
            Ready::After(time) => time,
            Ready::Listens | Ready::Line(_) => Nanos::ZERO,
        };
        if let Some((key, _)) = waits.into_iter().chain([("ready", after)]).find(|(_, time)| *time > LONGEST) {
            return wrong(key, "it is above a minute; write a shorter time, such as \"5s\"");
        }
        if matches!(&self.ready, Ready::Line(text) if text.is_empty()) {
            return wrong(
                "ready.line",
                "every line has an empty text in it; write what the server says when it is ready",
            );
        }
        let own = self.options.keys().map(|name| ("options", name, name.to_ascii_uppercase()));
        let set = self.env.keys().map(|name| ("env", name, name.clone()));
        for (table, name, variable) in own.chain(set) {
            if !is_variable(&variable) {
                return wrong(
                    format!("{table}.{name}"),
                    "it is not the name of a variable; write letters, digits and '_', with a letter first",
                );
            }
            let hides = variable.starts_with(OURS) || TAKEN.contains(&variable.as_str()) && table == "options";
            if hides {
                let problem = format!("{variable} is what every command finds; give it another name");
                return wrong(format!("{table}.{name}"), problem);
            }
        }
        if let Some(name) = self.inherit.iter().find(|name| !is_variable(name) || name.starts_with(OURS)) {
            return wrong("inherit", format!("'{}' is not a variable to take over; take it out", clipped(name)));
        }
        if let Some((name, value)) = self.options.iter().find(|(_, value)| !is_plain(value)) {
            let problem =
                format!("'{}' is not a plain name; write letters, digits, '-', '_', '.' and '+'", clipped(value));
            return wrong(format!("options.{name}"), problem);
        }
        let below_net = |name: &str| {
            name.strip_prefix("net.").is_some_and(|rest| rest.split('.').all(|part| is_plain(part) && part != ".."))
        };
        if let Some(name) = self.sysctl.keys().find(|name| !below_net(name)) {
            return wrong(
                format!("sysctl.{name}"),
                "it is not a setting below net., which alone a namespace has; write one such as \"net.ipv4.tcp_wmem\"",
            );
        }
        for (key, name) in [("congestion", &self.congestion), ("user", &self.user)] {
            if name.as_deref().is_some_and(|name| !is_plain(name)) {
                return wrong(key, "it is not a plain name; write one such as \"cubic\" or \"www-data\"");
            }
        }
        if self.exit.iter().any(|status| !(0..=255).contains(status)) {
            return wrong("exit", "an exit status is 0 to 255; write such numbers");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_run_is_named_by_its_key() {
        let read = |more: &str| {
            let text = format!(r#"{{ "sender": "exec s", "receiver": "exec r"{more} }}"#);
            serde_json::from_str::<Program>(&text).unwrap()
        };
        assert_eq!(read("").check(), Ok(()));
        for (more, key) in [
            (r#", "prepare": " ""#, "prepare: "),
            (r#", "version": "a\u0000b""#, "version: "),
            (r#", "port": 0"#, "port: "),
            (r#", "ready": { "line": "" }"#, "ready.line: "),
            (r#", "ready": { "after": "2min" }"#, "ready: "),
            (r#", "grace": "61s""#, "grace: "),
            (r#", "options": { "c-c": "cubic" }"#, "options.c-c: "),
            (r#", "options": { "path": "x" }"#, "options.path: PATH is"),
            (r#", "options": { "cc": "a b" }"#, "options.cc: 'a b' is not a plain name"),
            (r#", "env": { "PACELINE_PEER": "x" }"#, "env.PACELINE_PEER: "),
            (r#", "inherit": ["A=B"]"#, "inherit: "),
            (r#", "sysctl": { "kernel.core_pattern": "x" }"#, "sysctl.kernel.core_pattern: "),
            (r#", "sysctl": { "net.ipv4/../../kernel.core_pattern": "x" }"#, "sysctl.net.ipv4/"),
            (r#", "sysctl": { "net...x": "x" }"#, "sysctl.net...x: "),
            (r#", "congestion": "cubic reno""#, "congestion: "),
            (r#", "exit": [256]"#, "exit: "),
        ] {
            let error = read(more).check().unwrap_err().to_string();
            assert!(error.starts_with(key), "{more}: {error}");
        }
        assert_eq!(
            read(r#", "env": { "PATH": "/opt/bin" }, "sysctl": { "net.ipv4.tcp_wmem": "4096" }"#).check(),
            Ok(())
        );
    }
}
