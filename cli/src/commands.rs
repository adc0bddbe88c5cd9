//! One file a command.

pub(crate) mod controllers;
pub(crate) mod race;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod trace;
pub(crate) mod validate;

/// A whole number of an option.
pub(crate) fn count<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "it is not a whole number from 0 on, or too large; give one such as 10".to_owned())
}

/// A number of an option.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "it is not a number; give one such as 60".to_owned())
}
