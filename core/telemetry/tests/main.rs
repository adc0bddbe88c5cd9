//! What holds for the crate as a whole.

mod capture;
mod classifier;
mod model;
