//! What holds for the crate as a whole.
