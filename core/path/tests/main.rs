//! Properties of paths, and figures of queues held against theory.

mod dualpi2;
mod properties;
mod shipped;
mod theory;
mod wifi;
