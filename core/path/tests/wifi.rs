//! The Wi-Fi element against the figures of its model, and what holds for any of its configurations.

mod behaviour;
mod figures;
mod rig;
