//! Properties of every controller, and what the registry and the start-ups promise.

mod add_a_controller;
mod chirp;
mod model;
mod registry;
mod unused;
mod vectors;
