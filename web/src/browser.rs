//! What stands around a request: the page, or a test.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::Value;

/// The page that asks.
pub trait Browser {
    /// Takes a message.
    fn tell(&self, message: &str);

    /// Passes an event to a controller of the page, which answers.
    ///
    /// # Errors
    /// What it threw.
    fn event(&self, event: &str) -> Result<String, Threw>;
}

/// What a controller of the page threw.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Threw(pub String);

thread_local! {
    /// The page of the request that this thread answers.
    static PAGE: RefCell<Option<Rc<dyn Browser>>> = const { RefCell::new(None) };
}

/// The page of the request that this thread answers.
fn page() -> Option<Rc<dyn Browser>> {
    PAGE.with_borrow(Clone::clone)
}

/// From now on this one.
pub(crate) fn stand(page: Rc<dyn Browser>) {
    PAGE.set(Some(page));
}

/// Tells it something.
pub(crate) fn tell(message: &Value) {
    if let Some(page) = page() {
        page.tell(&message.to_string());
    }
}

/// Passes an event to a controller of the page.
pub(crate) fn event(event: &str) -> Result<String, Threw> {
    page().map_or_else(|| Err(Threw("the page is gone".to_owned())), |page| page.event(event))
}
