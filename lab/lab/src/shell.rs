//! Commands as people paste them.

/// An argument for a POSIX shell: as it is where nothing in it means anything to a shell, in double quotes where only spaces and
/// brackets do, else in single quotes, within which nothing does.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+".contains(c);
    let literal = |c: char| c == ' ' || c.is_ascii_graphic() && !"$`\\\"!".contains(c);
    match text {
        "" => "''".to_owned(),
        _ if text.chars().all(plain) => text.to_owned(),
        _ if text.chars().all(literal) => format!("\"{text}\""),
        _ => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_expand_stands_in_single_quotes() {
        for (text, expected) in [
            ("", "''"),
            ("down.rate=10@udp", "down.rate=10@udp"),
            ("10 Mbit/s", "\"10 Mbit/s\""),
            ("it's [\"a\"]", r#"'it'\''s ["a"]'"#),
            ("it's", "\"it's\""),
            ("$HOME", "'$HOME'"),
            ("`id`", "'`id`'"),
            ("$(id) \"x\"", "'$(id) \"x\"'"),
            ("a\\b", "'a\\b'"),
            ("hi!", "'hi!'"),
            ("two\nlines", "'two\nlines'"),
            ("~/ü", "'~/ü'"),
        ] {
            assert_eq!(quoted(text), expected, "{text}");
        }
    }

    /// The shell itself says what it understands.
    #[cfg(unix)]
    #[test]
    fn a_shell_gives_the_argument_back() {
        for text in
            ["", "plain", "two words", "it's", "\"x\" '$HOME' `id` $(id) \\ ! ~ * ; & | < > #", "tab\tand\nline"]
        {
            let script = format!("printf %s {}", quoted(text));
            let output = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
