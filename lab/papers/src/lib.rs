//! Claims of theory and of papers, held against runs.
//!
//! A [`claim::Claim`] says what should hold, within what tolerance, and where that is from. [`validate`] has those of theory,
//! [`reproduce`] those of papers; both run on [`paceline_lab::runner`].

pub mod claim;
pub mod reproduce;
pub mod validate;
