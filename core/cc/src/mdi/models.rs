//! Models by name: those that come with paceline, and files that the maker of controllers has given.
//!
//! Nothing here reads a file. Code that takes a controller's text from its user, and may read files, gives
//! [`Spec::read`](crate::Spec::read) the means; a text from a peer is parsed without, so that no peer can make a host read
//! files.

use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::model::Model;
use super::table::Table;

/// Models that one process may be given. Each is kept as long as the process lasts (our choice: a sweep over seeds and
/// grids).
pub const MOST_GIVEN: usize = 256;

/// A model with its name.
pub struct Named {
    name: String,
    model: Model,
    table: Arc<Table>,
}

impl Named {
    fn new(name: &str, model: Model) -> Self {
        let table = Arc::new(Table::from(&model));
        Self { name: name.to_owned(), model, table }
    }

    /// What stands behind `model=`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Ready to draw from.
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table)
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Named({})", self.name)
    }
}

/// The models that come with paceline, made with the commands in their first lines: name and text. None without the feature `models`.
#[cfg(feature = "models")]
pub const SHIPPED: &[(&str, &str)] = &[
    ("verus", include_str!("../../models/verus.csv")),
    ("copa", include_str!("../../models/copa.csv")),
    ("sprout", include_str!("../../models/sprout.csv")),
];

/// The models that come with paceline: none without the feature `models`.
#[cfg(not(feature = "models"))]
pub const SHIPPED: &[(&str, &str)] = &[];

static READY: [OnceLock<Named>; SHIPPED.len()] = [const { OnceLock::new() }; SHIPPED.len()];

fn shipped(index: usize) -> &'static Named {
    let (name, text) = SHIPPED[index];
    READY[index].get_or_init(|| Named::new(name, Model::read(text).expect("what is shipped is a model: tested")))
}

static GIVEN: RwLock<Vec<&'static Named>> = RwLock::new(Vec::new());

/// The model of this name: one that comes with paceline, or else the last one given.
pub fn find(name: &str) -> Option<&'static Named> {
    let position = SHIPPED.iter().position(|(known, _)| *known == name);
    if let Some(index) = position {
        return Some(shipped(index));
    }
    let given = GIVEN.read().unwrap_or_else(PoisonError::into_inner);
    given.iter().rev().find(|named| named.name == name).copied()
}

/// Why a model could not be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MOST_GIVEN} models have been given in this process, and none can be taken back; start another one")]
pub struct TooMany;

/// Gives the process a model, so that `mdi:model=NAME` stands for it from now on. The same model by the same name costs
/// nothing again; another one by a name that is taken is what later controllers get.
///
/// # Errors
/// [`TooMany`]: the memory is never given back, so it is bounded.
pub fn give(name: &str, model: Model) -> Result<&'static Named, TooMany> {
    let mut given = GIVEN.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = given.iter().rev().find(|named| named.name == name).filter(|named| named.model == model) {
        return Ok(known);
    }
    if given.len() >= MOST_GIVEN {
        return Err(TooMany);
    }
    let named: &'static Named = Box::leak(Box::new(Named::new(name, model)));
    given.push(named);
    Ok(named)
}
