//! A controller's own variables in a log of version 2.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::field::{FieldError, Reading, Writing, unfit};
use crate::controller::Controller;
use crate::foreign::clipped;

/// Variables that one log may have. 256: some times as many as any controller describes (our choice, because a reader keeps them all).
pub const MOST_VARIABLES: usize = 256;

/// What [`Controller::describe`] reports, by name. What is not finite is not reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables(BTreeMap<Cow<'static, str>, f64>);

impl Variables {
    /// Of a controller.
    pub fn of(controller: &dyn Controller) -> Self {
        let mut all = BTreeMap::new();
        controller.describe(&mut |name, value| {
            if value.is_finite() {
                all.insert(Cow::Borrowed(name), value);
            }
        });
        Self(all)
    }

    /// The value of this name, where it is reported.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Every name with its value, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// Those that are others than before, and as `null` those that are not reported any more.
    pub(super) fn write_changed(&self, before: &Self, to: &mut Writing<'_>) {
        if self == before {
            return;
        }
        to.object("variables", |to| {
            for (name, value) in self.iter().filter(|(name, value)| before.get(name) != Some(*value)) {
                to.number(name, Some(value));
            }
            for (name, _) in before.iter().filter(|(name, _)| self.get(name).is_none()) {
                to.number(name, None);
            }
        });
    }

    /// All of them, for a header.
    pub(super) fn write(&self, to: &mut Writing<'_>) {
        to.object("variables", |to| self.iter().for_each(|(name, value)| to.number(name, Some(value))));
    }

    /// Takes in what a line has; says whether it has any.
    pub(super) fn update(&mut self, from: &mut Reading) -> Result<bool, FieldError> {
        let Some(changes) = from.map("variables")? else { return Ok(false) };
        for (name, value) in changes {
            let wrong = |problem: FieldError| problem.inside(&clipped(&name)).inside("variables");
            match &value {
                Value::Null => _ = self.0.remove(name.as_str()),
                value => {
                    let number = value.as_f64().filter(|number| number.is_finite());
                    let number = number.ok_or_else(|| wrong(unfit(value, "a number, or null")))?;
                    self.0.insert(Cow::Owned(name), number);
                }
            }
        }
        if self.0.len() > MOST_VARIABLES {
            let problem = format!("more than {MOST_VARIABLES} variables; a controller describes fewer, take some out");
            return Err(FieldError::new("variables", problem));
        }
        Ok(true)
    }

    /// The first name with another value in `other`, and both values.
    pub(super) fn first_difference<'a>(&'a self, other: &'a Self) -> Option<(&'a str, Option<f64>, Option<f64>)> {
        let names = self.0.keys().chain(other.0.keys()).map(Cow::as_ref);
        names.map(|name| (name, self.get(name), other.get(name))).find(|(_, own, others)| own != others)
    }
}
