//! Behaviour of controllers and worlds in simulated runs: fixed seeds, tolerances stated.

mod above;
mod bbr;
mod bbr3;
mod chirp;
mod chirp_adaptive;
mod common;
mod content;
mod copa;
mod figures;
mod hosts;
mod hpcc;
mod icn;
mod ledbat;
mod mdi;
mod nodes;
mod pieces;
mod rates;
mod saturator;
mod shares;
mod sprout;
mod steering;
mod telemetry;
mod topology;
mod vegas;
mod verus;
mod window;
