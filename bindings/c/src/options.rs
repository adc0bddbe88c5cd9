//! Options as one text: `cc=copa:delta=0.1 mode=queue`. Their meaning is [`Options`]'s own.

use paceline_alcc::options::{OPTIONS, OptionProblem, Options, OptionsError, Variable};

/// Why a text of options cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TextError {
    /// Not NAME=VALUE.
    #[error("options: '{0}' is not NAME=VALUE")]
    NoValue(String),
    /// No such option.
    #[error("options: '{0}' is not one of {list}", list = names().join(", "))]
    Unknown(String),
    /// An option that is given twice.
    #[error("options: '{0}' is given twice")]
    Twice(String),
    /// A value of the text that cannot be used.
    #[error("options: {option}: {problem}")]
    Value {
        /// The option, as the text has it.
        option: &'static str,
        /// What is wrong with the value.
        problem: OptionProblem,
    },
    /// The same of the environment.
    #[error(transparent)]
    Environment(OptionsError),
}

fn names() -> Vec<&'static str> {
    OPTIONS.iter().map(|option| option.variable.option).collect()
}

/// Reads a text of options; what it does not name is asked of `var`.
///
/// # Errors
/// Which option is wrong, and why.
pub(crate) fn read(text: &str, var: impl Fn(&str) -> Option<String>) -> Result<Options, TextError> {
    let mut given: Vec<(Variable, &str)> = Vec::new();
    for word in text.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            return Err(TextError::NoValue(word.to_owned()));
        };
        let mut variables = OPTIONS.iter().map(|option| option.variable);
        let Some(variable) = variables.find(|variable| variable.option == name) else {
            return Err(TextError::Unknown(name.to_owned()));
        };
        if given.iter().any(|(earlier, _)| earlier.name == variable.name) {
            return Err(TextError::Twice(name.to_owned()));
        }
        given.push((variable, value));
    }
    let find = |name: &str| {
        let own = given.iter().find(|(known, _)| known.name == name).map(|(_, value)| (*value).to_owned());
        own.or_else(|| var(name))
    };
    Options::from_vars(find).map_err(|error| match given.iter().find(|(known, _)| known.name == error.variable) {
        Some((known, _)) => TextError::Value { option: known.option, problem: error.problem },
        None => TextError::Environment(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use paceline_alcc::Mode;
    use paceline_alcc::options::{MODE, QUEUE};

    fn from(text: &str) -> Result<Options, TextError> {
        read(text, |name| (name == QUEUE).then(|| "2MB".to_owned()))
    }

    #[test]
    fn a_text_goes_before_the_environment() {
        let options = from(" cc=copa:delta=0.1\tmode=inline ").unwrap();
        assert_eq!((options.controller.to_string().as_str(), options.mode), ("copa:delta=0.1", Mode::Inline));
        assert_eq!(options.queue, 2_000_000);
        assert_eq!(from("queue=3MB").unwrap().queue, 3_000_000);
        assert_eq!(from("").unwrap(), Options { queue: 2_000_000, ..Options::default() });
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let says = |text: &str| from(text).unwrap_err().to_string();
        assert_eq!(says("copa"), "options: 'copa' is not NAME=VALUE");
        assert_eq!(
            says("speed=high"),
            "options: 'speed' is not one of cc, mode, acks, queue, memory, linger, lower, share, aggregate"
        );
        assert_eq!(says("mode=queue mode=inline"), "options: 'mode' is given twice");
        assert_eq!(says("mode=fast"), "options: mode: 'fast' is not one of auto, queue, inline, framed");
        assert!(says("cc=copper").starts_with("options: cc: unknown controller 'copper'"));
        let of_environment = read("", |name| (name == MODE).then(|| "fast".to_owned())).unwrap_err().to_string();
        assert!(of_environment.starts_with("PACELINE_MODE: 'fast'"), "{of_environment}");
    }

    /// The entries of the manual, as roff has them: code is bold.
    fn manual() -> String {
        let bold = |text: &str| {
            let parts = text.split('`').enumerate();
            parts
                .map(|(at, part)| if at % 2 == 0 { part.to_owned() } else { format!("\\fB{part}\\fR") })
                .collect::<String>()
        };
        let entry = |variable: &Variable| {
            let (name, what) = (variable.option, bold(variable.what));
            format!(".TP\n.B {name}\n{what}\nDefault:\n.BR {} .\n", variable.default)
        };
        OPTIONS.iter().map(|option| entry(&option.variable)).collect()
    }

    #[test]
    fn the_manual_has_the_options() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/alcc.3");
        let page = std::fs::read_to_string(&path).unwrap();
        let (begin, end) = (".\\\" options\n", ".\\\" end\n");
        let (before, rest) = page.split_once(begin).unwrap();
        let (shown, after) = rest.split_once(end).unwrap();
        let entries = manual();
        if shown != entries && std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, format!("{before}{begin}{entries}{end}{after}")).unwrap();
        } else {
            assert_eq!(shown, entries, "write it by: UPDATE=1 cargo test -p paceline-alcc-c --lib");
        }
    }
}
