//! Which kernel runs.

use nix::sys::utsname::uname;

/// The kernel's release, such as `6.18.44-generic`; empty where it does not say.
pub fn release() -> String {
    uname().map_or_else(|_| String::new(), |name| name.release().to_string_lossy().into_owned())
}

/// The first two numbers of a release; zero for one that is not there.
pub fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_versions() {
        assert_eq!(version("6.18.44-fc-v669\n"), (6, 18));
        assert_eq!(version("5.15.0-91-generic"), (5, 15));
        assert_eq!((version("6"), version("")), ((6, 0), (0, 0)));
        assert!(version(&release()) >= (4, 10), "{}", release());
    }
}
