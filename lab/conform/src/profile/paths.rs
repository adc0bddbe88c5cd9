//! The standard paths.

/// A path on which every controller is shown, with one flow of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StandardPath {
    /// Its name in files: `deep`.
    pub id: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What lies on the way, and why it is asked.
    pub about: &'static str,
    /// Seconds of the run.
    pub seconds: u32,
    /// What the buffer holds at the link's rate; `None` where the rate changes.
    pub buffer_ms: Option<f64>,
    /// What stands under `[down]` besides the delay.
    down: &'static str,
    /// `[[flows]]`, where there are several.
    flows: &'static str,
}

/// Each with 20 ms each way.
pub const PATHS: [StandardPath; 6] = [
    StandardPath {
        id: "deep",
        title: "A deep buffer",
        about: "24 Mbit/s, a buffer of 4 times the bandwidth-delay product (160 ms): is the link used, and how long is the queue?",
        seconds: 30,
        buffer_ms: Some(160.0),
        down: "rate = \"24 Mbit/s\"\nqueue = \"droptail:bdp=4\"\n",
        flows: "",
    },
    StandardPath {
        id: "shallow",
        title: "A shallow buffer",
        about: "24 Mbit/s, a buffer of a quarter of the bandwidth-delay product (10 ms): is the link used where bursts and large \
            windows are dropped?",
        seconds: 30,
        buffer_ms: Some(10.0),
        down: "rate = \"24 Mbit/s\"\nqueue = \"droptail:bdp=0.25\"\n",
        flows: "",
    },
    StandardPath {
        id: "lossy",
        title: "One packet in a hundred lost",
        about: "24 Mbit/s, a buffer of one bandwidth-delay product (40 ms), 1 % of the packets lost at random: are losses taken for \
            congestion?",
        seconds: 30,
        buffer_ms: Some(40.0),
        down: "rate = \"24 Mbit/s\"\nloss = 0.01\nqueue = \"droptail:bdp=1\"\n",
        flows: "",
    },
    StandardPath {
        id: "steps",
        title: "A rate that changes",
        about: "24, 6, 48 and 12 Mbit/s for 8 seconds each, a buffer of 240 kB: how soon is new capacity used, and how long is the queue \
            where capacity goes?",
        seconds: 32,
        buffer_ms: None,
        down: "schedule = [[\"0s\", \"24 Mbit/s\"], [\"8s\", \"6 Mbit/s\"], [\"16s\", \"48 Mbit/s\"], [\"24s\", \"12 Mbit/s\"]]\n\
            queue = \"droptail:bytes=240kB\"\n",
        flows: "",
    },
    StandardPath {
        id: "cellular",
        title: "A cellular link",
        about: "The synthetic LTE downlink that comes with paceline (5 to 19 Mbit/s, 12 on average), a buffer of 2 MB.",
        seconds: 30,
        buffer_ms: None,
        down: "trace = \"traces/lte-like.mahi\"\nqueue = \"droptail:bytes=2MB\"\n",
        flows: "",
    },
    StandardPath {
        id: "beside",
        title: "Beside CUBIC",
        about: "24 Mbit/s, a buffer of 2 times the bandwidth-delay product (80 ms), where a CUBIC flow is already; it comes at 5 s. What \
            does each get from 10 s on?",
        seconds: 60,
        buffer_ms: Some(80.0),
        down: "rate = \"24 Mbit/s\"\nqueue = \"droptail:bdp=2\"\n",
        flows: "\n[[flows]]\ncontestant = \"cubic@tcp\"\n\n[[flows]]\nstart = \"5s\"\n",
    },
];

impl StandardPath {
    /// As a scenario file.
    pub fn scenario(&self, contestant: &str) -> String {
        let Self { id, title, seconds, down, flows, .. } = self;
        format!(
            "name = \"{id}\"\ntitle = \"{title}\"\nseconds = {seconds}\nruns = 1\ncontestants = [\"{contestant}\"]\n\n\
             [down]\n{down}delay = \"20ms\"\n\n[up]\ndelay = \"20ms\"\n{flows}"
        )
    }

    /// Whether another flow is there.
    pub fn has_rival(&self) -> bool {
        !self.flows.is_empty()
    }
}
