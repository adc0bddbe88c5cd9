//! How many flows are served, and how many of one user.

use std::collections::HashMap;

/// Flows that are served. Our choice: as many as the agent that steers flows has slots.
pub(super) const FLOWS_MAX: usize = 16_384;
/// One user, root aside, leaves this part of them to others (our choice, as the agent that steers flows).
const LEFT: usize = 4;

/// The owner of a flow: a user's number; `None` are sockets of other network namespaces, who are one user together.
pub(super) type User = Option<u32>;

/// Places that are taken.
#[derive(Debug, Default)]
pub(super) struct Shares {
    all: usize,
    users: HashMap<User, usize>,
}

impl Shares {
    /// Takes a place; false where there is none for this user.
    pub(super) fn take(&mut self, user: User) -> bool {
        let taken = self.users.entry(user).or_default();
        let most = if user == Some(0) { FLOWS_MAX } else { FLOWS_MAX - FLOWS_MAX / LEFT };
        if self.all >= FLOWS_MAX || *taken >= most {
            return false;
        }
        *taken += 1;
        self.all += 1;
        true
    }

    /// Gives back what [`Shares::take`] took.
    pub(super) fn give_back(&mut self, user: User) {
        let Some(taken) = self.users.get_mut(&user) else { return };
        *taken -= 1;
        self.all -= 1;
        if *taken == 0 {
            self.users.remove(&user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of this many it gets.
    fn get(shares: &mut Shares, user: User, wanted: usize) -> usize {
        (0..wanted).filter(|_| shares.take(user)).count()
    }

    #[test]
    fn one_user_leaves_a_quarter_and_root_may_have_all() {
        let mut shares = Shares::default();
        assert_eq!(get(&mut shares, Some(1000), 20_000), 12_288);
        assert_eq!(get(&mut shares, None, 20_000), 4096);
        assert_eq!(get(&mut shares, Some(1001), 1), 0);
        for _ in 0..10 {
            shares.give_back(Some(1000));
        }
        assert_eq!((get(&mut shares, Some(1001), 7), get(&mut shares, Some(1000), 7)), (7, 3));
        assert_eq!(get(&mut Shares::default(), Some(0), 20_000), FLOWS_MAX);
    }

    #[test]
    fn what_was_given_back_leaves_nothing_behind() {
        let mut shares = Shares::default();
        assert!(shares.take(Some(7)));
        shares.give_back(Some(7));
        shares.give_back(Some(8));
        assert_eq!((shares.all, shares.users.len()), (0, 0));
    }
}
