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

use super::bench::File;
use super::{Experiment, Paper, Runs};

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
        Experiment {
            name: "fig1",
            figure: "Fig 1, 2",
            title: "A window of the application's above TCP",
            conduct: window::conduct,
        },
        Experiment { name: "fig4", figure: "Fig 4", title: "Uploads by the Java library", conduct: uploads::conduct },
        Experiment { name: "fig5", figure: "Fig 5-7", title: "Verus above TCP and native", conduct: fidelity::verus },
        Experiment { name: "fig8", figure: "Fig 8", title: "Sprout above TCP and native", conduct: fidelity::sprout },
        Experiment { name: "fig9", figure: "Fig 9-11", title: "Copa above TCP and native", conduct: fidelity::copa },
        Experiment {
            name: "fig12",
            figure: "Fig 12",
            title: "Verus above several TCPs",
            conduct: fidelity::verus_above,
        },
        Experiment { name: "fig13", figure: "Fig 13", title: "Copa above several TCPs", conduct: fidelity::copa_above },
        Experiment { name: "fig14", figure: "Fig 14", title: "What it costs the processor", conduct: cost::conduct },
        Experiment {
            name: "fig16",
            figure: "Fig 16, 17",
            title: "Verus's window and TCP's over 3G and 4G",
            conduct: cellular::windows,
        },
        Experiment {
            name: "fig18",
            figure: "Fig 18",
            title: "TCP's window and its send buffer",
            conduct: window::buffers,
        },
        Experiment {
            name: "fig19",
            figure: "Fig 19",
            title: "Verus above TCP and native over 3G",
            conduct: cellular::repeated,
        },
        Experiment { name: "fig20", figure: "Fig 20", title: "Verus with 1 % loss", conduct: loss::conduct },
        Experiment { name: "fig22", figure: "Fig 22", title: "Beside TCP in a tunnel", conduct: tunnel::beside_tcp },
        Experiment { name: "fig23", figure: "Fig 23", title: "Copa beside UDP in a tunnel", conduct: tunnel::copa },
        Experiment { name: "fig24", figure: "Fig 24", title: "Verus beside UDP in a tunnel", conduct: tunnel::verus },
        Experiment {
            name: "fairness",
            figure: "Sharing",
            title: "Ten flows above TCP, and one beside CUBIC",
            conduct: fairness::conduct,
        },
        Experiment {
            name: "fidelity",
            figure: "Fidelity",
            title: "Copa, Verus and Sprout above TCP and native, over every link",
            conduct: fidelity::all,
        },
    ],
};

macro_rules! file {
    ($name:literal) => {
        File {
            path: concat!("scenarios/alcc/", $name),
            text: include_str!(concat!("../../../../scenarios/alcc/", $name)),
        }
    };
}

static CELLULAR: File = file!("cellular.toml");
static RAPID: File = file!("rapid.toml");
static CONSTANT: File = file!("constant.toml");
static TUNNEL_TCP: File = file!("tunnel-tcp.toml");
static TUNNEL_UDP: File = file!("tunnel-udp.toml");
static TEN: File = file!("ten.toml");
static BESIDE_CUBIC: File = file!("beside-cubic.toml");

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
