//! Options as one text: `cc=copa:delta=0.1 mode=queue`. Their meaning is [`Options`]'s own.

use paceline_alcc::options::{ACKS, AGGREGATE, CONTROLLER, LINGER, LOWER, MEMORY, MODE, Options, QUEUE, SHARE};

/// What each variable's name begins with.
const PREFIX: &str = "PACELINE_";
/// The variables that may be given.
const NAMES: [&str; 9] = [CONTROLLER, MODE, ACKS, QUEUE, MEMORY, LINGER, LOWER, SHARE, AGGREGATE];

/// Reads a text of options; what it does not name is asked of `var`.
///
/// # Errors
/// One line: which option is wrong, and why.
pub(crate) fn read(text: &str, var: impl Fn(&str) -> Option<String>) -> Result<Options, String> {
    let mut given: Vec<(&str, &str)> = Vec::new();
    for word in text.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            return Err(format!("options: '{word}' is not NAME=VALUE"));
        };
        let Some(known) = NAMES.iter().find(|known| short(known) == name) else {
            let names: Vec<String> = NAMES.iter().map(|known| short(known)).collect();
            return Err(format!("options: '{name}' is not one of {}", names.join(", ")));
        };
        if given.iter().any(|(earlier, _)| earlier == known) {
            return Err(format!("options: '{name}' is given twice"));
        }
        given.push((known, value));
    }
    let find = |name: &str| {
        let own = given.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        own.or_else(|| var(name))
    };
    let options = Options::from_vars(find).map_err(|error| error.to_string());
    // The line names the variable: where the text had it, name what the text has.
    options.map_err(|error| {
        let of_text = given.iter().find_map(|(name, _)| error.strip_prefix(name).map(|rest| (short(name), rest)));
        of_text.map_or_else(|| error.clone(), |(name, rest)| format!("options: {name}{rest}"))
    })
}

/// `cc` for `PACELINE_CC`.
fn short(name: &str) -> String {
    name.strip_prefix(PREFIX).unwrap_or(name).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_alcc::Mode;

    fn from(text: &str) -> Result<Options, String> {
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
        let says = |text: &str| from(text).unwrap_err();
        assert_eq!(says("copa"), "options: 'copa' is not NAME=VALUE");
        assert_eq!(
            says("speed=high"),
            "options: 'speed' is not one of cc, mode, acks, queue, memory, linger, lower, share, aggregate"
        );
        assert_eq!(says("mode=queue mode=inline"), "options: 'mode' is given twice");
        assert_eq!(says("mode=fast"), "options: mode: 'fast' is not one of auto, queue, inline, framed");
        assert!(says("cc=copper").starts_with("options: cc: unknown controller 'copper'"));
        let of_environment = read("", |name| (name == MODE).then(|| "fast".to_owned())).unwrap_err();
        assert!(of_environment.starts_with("PACELINE_MODE: 'fast'"), "{of_environment}");
    }
}
