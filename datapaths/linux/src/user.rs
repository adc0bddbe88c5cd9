//! Users by their names (getpwnam(3)).

use nix::unistd::User;

/// The numbers of the user of this name and of its group.
pub fn find(name: &str) -> Option<(u32, u32)> {
    let user = User::from_name(name).ok()??;
    Some((user.uid.as_raw(), user.gid.as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_and_others_are_not_made_up() {
        assert_eq!(find("root"), Some((0, 0)));
        assert_eq!(find("no such user"), None);
    }
}
