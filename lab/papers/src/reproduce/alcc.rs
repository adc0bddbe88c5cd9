//! Zaki et al., "ALCC: Migrating Congestion Control to the Application Layer in Cellular Networks".
//!
//! The paper's figures: a controller above TCP beside the same one native. What differs from the paper: other links (its traces can
//! be given with `--trace`), and controllers of our own making in both places, so that a difference is that of the datapath. Figures
//! 4, 16, 17 and 19 are of real cellular networks there, and over traces here; figure 15 is a drawing of that setup. The tunnel of
//! figures 21 to 24 is a TCP connection in real time; in the simulator there is what flows see of it, a rate and a queue at its entry.

mod cellular;
mod cost;
mod fairness;
mod fidelity;
mod loss;
mod run;
mod tunnel;
mod uploads;
mod window;

use super::bench::{File, file};
use super::{Paper, Runs, experiment};

/// Everything of this paper.
pub(super) const PAPER: Paper = Paper {
    name: "alcc",
    title: "Zaki et al., \"ALCC: Migrating Congestion Control to the Application Layer in Cellular Networks\"",
    about: &[
        "A controller above TCP (@alcc) beside the same controller over datagrams (@udp), which the paper calls native. Where the \
         machine permits it, both are real sockets in real time behind an emulated link, TCP is the kernel's, and nothing \
         but the sender's program differs from an ordinary one; else, and with --sim, both are simulated. Each claim says which.",
        "Delays are one way and contain the path's 10 ms. Links are synthetic ones of the same kinds as the paper's, or the \
         traces that --trace names. The paper allows 3 to 10 % between the two, 15 % on the rapidly changing channel.",
    ],
    rivals: &[],
    runs: Runs::RealFirst,
    experiments: &[
        experiment("fig1", "Fig 1, 2", "A window of the application's above TCP", window::conduct),
        experiment("fig4", "Fig 4", "Uploads by the Java library", uploads::conduct),
        experiment("fig5", "Fig 5-7", "Verus above TCP and native", fidelity::verus),
        experiment("fig8", "Fig 8", "Sprout above TCP and native", fidelity::sprout),
        experiment("fig9", "Fig 9-11", "Copa above TCP and native", fidelity::copa),
        experiment("fig12", "Fig 12", "Verus above several TCPs", |bench| {
            fidelity::above_several(bench, "verus", "Fig 12")
        }),
        experiment("fig13", "Fig 13", "Copa above several TCPs", |bench| {
            fidelity::above_several(bench, "copa", "Fig 13")
        }),
        experiment("fig14", "Fig 14", "What it costs the processor", cost::conduct),
        experiment("fig16", "Fig 16, 17", "Verus's window and TCP's over 3G and 4G", cellular::windows),
        experiment("fig18", "Fig 18", "TCP's window and its send buffer", window::buffers),
        experiment("fig19", "Fig 19", "Verus above TCP and native over 3G", cellular::repeated),
        experiment("fig20", "Fig 20", "Verus with 1 % loss", loss::conduct),
        experiment("fig22", "Fig 22", "Beside TCP in a tunnel", tunnel::beside_tcp),
        experiment("fig23", "Fig 23", "Copa beside UDP in a tunnel", |bench| tunnel::beside_udp(bench, "copa@alcc")),
        experiment("fig24", "Fig 24", "Verus beside UDP in a tunnel", |bench| tunnel::beside_udp(bench, "verus@alcc")),
        experiment("fairness", "Sharing", "Ten flows above TCP, and one beside CUBIC", fairness::conduct),
        experiment(
            "fidelity",
            "Fidelity",
            "Copa, Verus and Sprout above TCP and native, over every link",
            fidelity::all,
        ),
    ],
    page: None,
};

static CELLULAR: File = file!("alcc/cellular.toml");
static RAPID: File = file!("alcc/rapid.toml");
static CONSTANT: File = file!("alcc/constant.toml");
static TUNNEL_TCP: File = file!("alcc/tunnel-tcp.toml");
static TUNNEL_UDP: File = file!("alcc/tunnel-udp.toml");
static TEN: File = file!("alcc/ten.toml");
static BESIDE_CUBIC: File = file!("alcc/beside-cubic.toml");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use paceline_lab::scenario::{Options, Source};

    #[test]
    fn the_scenarios_run_as_they_are() {
        for file in [&CELLULAR, &RAPID, &CONSTANT, &TUNNEL_TCP, &TUNNEL_UDP, &TEN, &BESIDE_CUBIC] {
            let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file.path);
            assert_eq!(std::fs::read_to_string(&there).unwrap(), file.text, "{}", file.path);
            let plans = Source::read(&there, Options::default()).unwrap().plans();
            assert!(plans.is_ok(), "{}", plans.unwrap_err());
        }
    }
}
