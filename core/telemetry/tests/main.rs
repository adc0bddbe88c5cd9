//! What holds for the crate as a whole.

mod classifier;
mod model;
