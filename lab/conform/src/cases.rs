//! The paths of the BBR draft's test cases (draft-ietf-ccwg-bbr-06, appendix "BBR Example Test Cases"), one flow each.

use std::sync::Arc;

use paceline_path::Trace;

/// A path, with what happens on it. Times are those of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Its name in tables: the case in the draft's appendix.
    pub name: &'static str,
    /// What happens, in words behind those of the path.
    pub about: &'static str,
    /// Rate of the link in kbit/s.
    pub kbps: u32,
    /// Round trip without a queue in microseconds, half of it each way.
    pub rtt_us: u32,
    /// The queue in front of the link.
    pub queue: &'static str,
    /// How long.
    pub seconds: u32,
    /// More keys of `[down]`.
    pub down: &'static str,
    /// Keys of `[up]`, in place of its delay.
    pub up: &'static str,
    /// More keys of the flow.
    pub flow: &'static str,
    /// The `[[when]]` of the case.
    pub when: &'static str,
}

/// The trace of [`A12`]: 21 opportunities every 5 ms, 50.4 Mbit/s.
const SLOTS: &str = "slots.mahi";

/// 50 Mbit/s, 20 ms each way: 167 packets.
const P: Case = Case {
    name: "P",
    about: "",
    kbps: 50_000,
    rtt_us: 40_000,
    queue: "droptail:bdp=4",
    seconds: 8,
    down: "",
    up: "",
    flow: "",
    when: "",
};
/// 10 Mbit/s, 20 ms each way: 33 packets.
const Q: Case = Case { name: "Q", kbps: 10_000, ..P };
/// 100 Mbit/s, 50 ms each way: 833 packets.
const F: Case = Case { name: "F", kbps: 100_000, rtt_us: 100_000, ..P };
/// 100 Mbit/s, 20 ms each way: 333 packets.
const G: Case = Case { name: "G", kbps: 100_000, ..P };

/// A minute on `P` with a shorter queue, for policers.
const POLICED: Case = Case { queue: "droptail:bdp=1", seconds: 60, ..P };

macro_rules! cases {
    ($($name:ident = $case:expr;)*) => {
        $(pub(crate) static $name: Case = $case;)*

        /// Every one.
        pub static ALL: &[&Case] = &[$(&$name),*];
    };
}

cases! {
    A1 = Case { name: "bbr-a01", seconds: 3, ..P };
    A2 = Case {
        name: "bbr-a02",
        about: ", an application of 20 Mbit/s, 6 % lost from 1 s on",
        seconds: 3,
        flow: "workload = { rate = \"20 Mbit/s\" }\n",
        when: "[[when]]\nis = { state = \"Startup\" }\nafter = \"1s\"\nset = { \"down.loss\" = 0.06 }\n",
        ..F
    };
    A2_FEW = Case {
        name: "bbr-a02-few",
        about: ", an application of 20 Mbit/s, 0.2 % lost from 1 s on",
        seconds: 6,
        flow: "workload = { rate = \"20 Mbit/s\" }\n",
        when: "[[when]]\nis = { state = \"Startup\" }\nafter = \"1s\"\nset = { \"down.loss\" = 0.002 }\n",
        ..F
    };
    A4 = Case {
        name: "bbr-a04",
        about: ", 0.45 of the rate from Drain on",
        seconds: 4,
        when: "[[when]]\nis = { state = \"Drain\" }\nset = { \"down.rate\" = \"0.45x\" }\n",
        ..P
    };
    A4_DRAFT = Case {
        name: "bbr-a04-draft",
        about: ", 0.9 of the rate from Drain on",
        seconds: 4,
        when: "[[when]]\nis = { state = \"Drain\" }\nset = { \"down.rate\" = \"0.9x\" }\n",
        ..P
    };
    A5 = Case { name: "bbr-a05", seconds: 8, ..P };
    A6 = Case {
        name: "bbr-a06",
        about: ", an application of 20 Mbit/s from REFILL on, 6 % lost for 1 s of UP",
        seconds: 10,
        when: "[[when]]\nis = { state = \"REFILL\" }\nset = { \"flows.0.workload\" = { rate = \"20 Mbit/s\" } }\n\n\
               [[when]]\nis = { state = \"UP\" }\nfor = \"1s\"\nset = { \"down.loss\" = 0.06 }\n",
        ..P
    };
    A7_STARTUP = Case {
        name: "bbr-a07-startup",
        about: ", an application of 5 Mbit/s",
        // ProbeRTT comes at 5 s.
        seconds: 4,
        flow: "workload = { rate = \"5 Mbit/s\" }\n",
        ..G
    };
    A7_UP = Case {
        name: "bbr-a07-up",
        about: ", an application of 10 Mbit/s from REFILL on",
        seconds: 9,
        when: "[[when]]\nis = { state = \"REFILL\" }\nset = { \"flows.0.workload\" = { rate = \"10 Mbit/s\" } }\n",
        ..P
    };
    A8_SHALLOW = Case { name: "bbr-a08-shallow", seconds: 8, queue: "droptail:bdp=0.5", ..P };
    A9 = Case {
        name: "bbr-a09",
        about: ", 0.5 ms less from 2.4 s on, 0.9 of the rate from the DOWN after UP on",
        seconds: 8,
        up: "delay_schedule = [[\"0s\", \"20ms\"], [\"2400ms\", \"19500us\"]]\n",
        when: "[[when]]\nis = { state = \"DOWN\" }\nafter = \"1s\"\nset = { \"down.rate\" = \"0.9x\" }\n",
        ..P
    };
    A10 = Case { name: "bbr-a10", seconds: 12, ..P };
    A11 = Case {
        name: "bbr-a11",
        about: ", an application that is silent for 6 s of CRUISE",
        seconds: 12,
        when: "[[when]]\nis = { state = \"CRUISE\" }\nafter = \"1s\"\nfor = \"6s\"\nset = { \"flows.0.workload\" = \"pause\" }\n",
        ..P
    };
    A12 = Case {
        name: "bbr-a12",
        about: ", in slots of 5 ms",
        kbps: 50_400,
        queue: "droptail:packets=670",
        seconds: 3,
        down: "trace = \"slots.mahi\"\ntrace_start = \"0s\"\n",
        ..P
    };
    A13 = Case {
        name: "bbr-a13",
        about: ", an acknowledgement every 40 ms",
        seconds: 15,
        flow: "ack_every = 1000\nack_delay = \"40ms\"\n",
        ..P
    };
    A14 = Case { name: "bbr-a14", kbps: 64, rtt_us: 20_000, queue: "droptail:packets=50", seconds: 60, ..P };
    A15 = Case {
        name: "bbr-a15",
        about: ", 100 Mbit/s from CRUISE after 3 s on",
        queue: "droptail:bytes=2MB",
        seconds: 12,
        when: "[[when]]\nis = { state = \"CRUISE\" }\nafter = \"3s\"\nset = { \"down.rate\" = \"100 Mbit/s\" }\n",
        ..Q
    };
    A15_BOUND = Case {
        name: "bbr-a15-bound",
        about: ", 5 % lost for 0.1 s of the first UP, 100 Mbit/s from CRUISE after 3 s on",
        queue: "droptail:bytes=2MB",
        seconds: 12,
        when: "[[when]]\nis = { state = \"CRUISE\" }\nafter = \"3s\"\nset = { \"down.rate\" = \"100 Mbit/s\" }\n\n\
               [[when]]\nis = { state = \"UP\" }\nfor = \"100ms\"\nset = { \"down.loss\" = 0.05 }\n",
        ..Q
    };
    A16 = Case {
        name: "bbr-a16",
        about: ", 10 Mbit/s from CRUISE after 3 s on",
        queue: "droptail:bytes=150kB",
        seconds: 15,
        when: "[[when]]\nis = { state = \"CRUISE\" }\nafter = \"3s\"\nset = { \"down.rate\" = \"0.1x\" }\n",
        ..G
    };
    A17 = Case {
        name: "bbr-a17",
        about: ", policed at 10 Mbit/s, 125 kB",
        down: "policer = { rate = \"10 Mbit/s\", burst = \"125kB\" }\n",
        ..POLICED
    };
    A17_SMALL = Case {
        name: "bbr-a17-small",
        about: ", policed at 10 Mbit/s, 15 kB",
        down: "policer = { rate = \"10 Mbit/s\", burst = \"15kB\" }\n",
        ..POLICED
    };
    A17_LARGE = Case {
        name: "bbr-a17-large",
        about: ", policed at 10 Mbit/s, 1.25 MB",
        down: "policer = { rate = \"10 Mbit/s\", burst = \"1250kB\" }\n",
        ..POLICED
    };
    A18 = Case {
        name: "bbr-a18",
        about: ", a tenth of the packets 15 ms late for 40 ms of UP",
        seconds: 10,
        when: "[[when]]\nis = { state = \"UP\" }\nfor = \"40ms\"\n\
               set = { \"down.reorder\" = { share = 0.1, delay = \"15ms\" } }\n",
        ..P
    };
    A19 = Case {
        name: "bbr-a19",
        about: ", standing still for 0.4 s of CRUISE",
        seconds: 10,
        when: "[[when]]\nis = { state = \"CRUISE\" }\nafter = \"2s\"\nset = { \"down.outage\" = \"400ms\" }\n",
        ..P
    };
    A19_UP = Case {
        name: "bbr-a19-up",
        about: ", standing still for 0.4 s of UP",
        seconds: 10,
        when: "[[when]]\nis = { state = \"UP\" }\nset = { \"down.outage\" = \"400ms\" }\n",
        ..P
    };
    A20 = Case {
        name: "bbr-a20",
        about: ", an application of 2 Mbit/s until the second Startup",
        seconds: 9,
        flow: "workload = { rate = \"2 Mbit/s\" }\n",
        when: "[[when]]\nis = { state = \"Startup\" }\nskip = 1\nset = { \"flows.0.workload\" = \"bulk\" }\n",
        ..G
    };
    A21 = Case {
        name: "bbr-a21",
        about: ", 5 % lost for 80 ms of the first and third UP",
        seconds: 20,
        when: "[[when]]\nis = { state = \"UP\" }\nfor = \"80ms\"\nset = { \"down.loss\" = 0.05 }\n\n\
               [[when]]\nis = { state = \"UP\" }\nskip = 2\nfor = \"80ms\"\nset = { \"down.loss\" = 0.05 }\n",
        ..P
    };
    A22 = Case {
        name: "bbr-a22",
        about: ", an application that is silent for 60 ms of REFILL",
        seconds: 8,
        when: "[[when]]\nis = { state = \"REFILL\" }\nfor = \"60ms\"\nset = { \"flows.0.workload\" = \"pause\" }\n",
        ..P
    };
}

impl Case {
    /// Rate in Mbit/s.
    pub const fn rate_mbps(&self) -> f64 {
        self.kbps as f64 / 1e3
    }

    /// Round trip in ms.
    pub const fn rtt_ms(&self) -> f64 {
        self.rtt_us as f64 / 1e3
    }

    /// How many `[[when]]` it has.
    pub fn whens(&self) -> usize {
        self.when.matches("[[when]]").count()
    }

    /// In one line.
    pub fn about(&self) -> String {
        format!("{} Mbit/s, {} ms, {}{}", self.rate_mbps(), self.rtt_ms(), self.queue, self.about)
    }

    /// The scenario that it is, as a file.
    pub fn scenario(&self, contestant: &str) -> String {
        let Self { name, kbps, rtt_us, queue, seconds, down, up, flow, when, .. } = self;
        let delay = format!("delay = \"{}us\"\n", rtt_us / 2);
        let rate = if down.contains("trace") { String::new() } else { format!("rate = \"{kbps} kbit/s\"\n") };
        let up = if up.is_empty() { &delay } else { *up };
        format!(
            "name = \"conform-{name}\"\ntitle = \"{}\"\nseconds = {seconds}\nruns = 1\ncontestants = [\"{contestant}\"]\n\n\
             [down]\n{rate}{down}{delay}queue = \"{queue}\"\n\n[up]\n{up}\n[[flows]]\nhandshake = true\ntimers = \"exact\"\n{flow}\n{when}",
            self.about(),
        )
    }

    /// The trace that its scenario names, where it does.
    pub fn trace(&self) -> Option<(&'static str, Arc<Trace>)> {
        let slots = || Trace::from_millis(SLOTS, vec![5; 21]).map(Arc::new);
        self.down.contains(SLOTS).then(slots)?.ok().map(|trace| (SLOTS, trace))
    }
}
