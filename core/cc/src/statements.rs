//! What RFC 9743 wants to be said in words of a proposal for congestion control: sections 3.1, 3.2, 4, 5.3.1, 5.3.2 and 8. One sentence each;
//! an evaluation shows them as they are, and no figure of a run stands for one.

/// What is said of a controller. An empty sentence is one that is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    /// Section 3.1: experience with it, and who implements it.
    pub implementations: &'static str,
    /// Section 3.2: its status; whether it is a default, how it is switched off, where it is safe and where not recommended.
    pub status: &'static str,
    /// Section 4: the functions of the network that it relies on, and what it does without them.
    pub environments: &'static str,
    /// Section 5.3.1: what deviates from RFC 2914 (congestion control principles) and RFC 7141 (bytes and packets).
    pub deviations: &'static str,
    /// Section 5.3.2: deployment step by step, equipment that is known to matter, how its scope is kept.
    pub deployment: &'static str,
    /// Section 8: security and privacy.
    pub security: &'static str,
}

impl Statements {
    /// Nothing is said.
    pub const NONE: Self =
        Self { implementations: "", status: "", environments: "", deviations: "", deployment: "", security: "" };

    /// Every sentence.
    pub fn all(&self) -> [&'static str; 6] {
        let Self { implementations, status, environments, deviations, deployment, security } = *self;
        [implementations, status, environments, deviations, deployment, security]
    }
}

const ALONE: &str = "It relies on no function of the network: acknowledgements are enough.";
const ALONE_OR_MARKS: &str = "It relies on no function of the network; with ecn=on a mark counts as a loss, and without marks it goes by losses.";
const SENDER_ONLY: &str = "A sender uses it alone, with any receiver, and through equipment that passes TCP or UDP.";
const BELIEVES: &str = "It believes acknowledgements and tells no third party anything; a receiver that acknowledges early, or splits its \
    acknowledgements, is answered by the datapath's checks and not by the controller.";
const FOLLOWS: &str = "None: it reduces by a share at each loss event; the window counts bytes, and a lost packet counts as one whatever its size.";
const BY_NAME: &str = "Experimental: not a default, chosen by name for a flow and left by choosing another; for research, and not recommended as \
    the general controller of hosts in the Internet.";

/// Of an experimental controller that a sender uses alone.
const EXPERIMENTAL: Statements = Statements {
    status: BY_NAME,
    environments: ALONE,
    deployment: SENDER_ONLY,
    security: BELIEVES,
    ..Statements::NONE
};

/// Of `reno`.
pub(crate) const RENO: Statements = Statements {
    implementations: "In every TCP for decades, and in QUIC as the controller of RFC 9002.",
    status: "Standards track (RFC 5681, RFC 9002), and safe in the Internet; others are held against it.",
    environments: ALONE_OR_MARKS,
    deviations: FOLLOWS,
    ..EXPERIMENTAL
};

/// Of `cubic`.
pub(crate) const CUBIC: Statements = Statements {
    implementations: "The default of Linux, Windows and Apple's systems, and of most QUIC stacks.",
    status: "Standards track (RFC 9438), a default of hosts, and safe in the Internet.",
    environments: ALONE_OR_MARKS,
    deviations: "It takes 30 % off at a loss event where RFC 5681 takes 50 %, and then grows by time (RFC 9438); bytes and packets as in RFC 7141.",
    ..EXPERIMENTAL
};

/// Of `bic`.
pub(crate) const BIC: Statements = Statements {
    implementations: "Linux's default before CUBIC, and still a module of its kernel.",
    environments: ALONE_OR_MARKS,
    deviations: "It takes 20 % off a large window at a loss event, and then grows by up to 16 packets in a round trip, whatever its length.",
    ..EXPERIMENTAL
};

/// Of `cubic-l1`, `cubic-l1g` and `cubic-l2`.
pub(crate) const CUBIC_MEDIUM: Statements = Statements {
    implementations: "The authors' of the paper, in eBPF for Linux, and this one.",
    environments: "It relies on hops that say why a packet is missing; without fresh reports it is CUBIC, and takes every loss for congestion.",
    deviations: "A loss that the medium caused, as hops report, takes nothing or 5 % off the window; guards bound how many in a row.",
    deployment: "Sender, receiver and the hops on the way need the telemetry header, within one domain; outside of it the flow is CUBIC.",
    security: "Reports are authenticated on their bus; who may forge them could keep a flow from reducing, which the guards bound.",
    ..EXPERIMENTAL
};

/// Of `hops`.
pub(crate) const HOPS: Statements = Statements {
    implementations: "This one alone.",
    environments: "It relies on hops that report capacity, queue and flows; without a fresh report it is CUBIC from the window it has.",
    deviations: "While reports come it follows a share of the reported capacity, and a loss of the medium changes nothing; never more than twice of what arrives.",
    ..CUBIC_MEDIUM
};

/// Of `dctcp`.
pub(crate) const DCTCP: Statements = Statements {
    implementations: "Linux, FreeBSD and Windows, in data centres.",
    status: "Informational (RFC 8257): for data centres under one operator, and not safe in the Internet beside loss-based flows; chosen by name.",
    environments: "It relies on shallow marks at every bottleneck; without marks it halves at losses as Reno does, and where others wait for drops it starves them or is starved.",
    deviations: "A mark takes off half the share of marked packets, and not half the window (RFC 8257, under RFC 8311).",
    deployment: "Within one administrative domain, which keeps it in by its code point and its own queues.",
    ..EXPERIMENTAL
};

/// Of `prague`.
pub(crate) const PRAGUE: Statements = Statements {
    implementations: "Linux (the L4S team's kernel) and several QUIC and UDP senders.",
    status: "Experimental (RFC 9330, RFC 9331): not a default, chosen by name; for paths with L4S, and for others with its fallback only.",
    environments: "It relies on isolated L4S queues; at a classic queue that marks ECT(1) it would take more than its share, and without marks it is Reno.",
    deviations: "A mark takes off half the share of marked packets, in exchange for a queue of its own (RFC 9331).",
    deployment: "Needs exact ECN feedback of the receiver; each bottleneck may turn to L4S alone; tunnels that remove ECT(1) make it classic.",
    ..EXPERIMENTAL
};

/// Of `bbr`.
pub(crate) const BBR: Statements = Statements {
    implementations: "Linux tcp_bbr.c, and QUIC stacks that have since moved to later versions.",
    status: "Version 1, superseded: not a default, chosen by name; not recommended at shallow buffers or beside loss-based flows.",
    deviations: "A loss reduces nothing beyond the recovery: the rate is that of the path's delivery, and up to two BDP are in flight.",
    ..EXPERIMENTAL
};

/// Of `bbr3`.
pub(crate) const BBR3: Statements = Statements {
    implementations: "google/bbr (branch v3), QUIC stacks such as quiche and noq, and this one after draft-ietf-ccwg-bbr.",
    status: "Experimental by its draft: not a default, chosen by name and left by choosing another.",
    deviations: "It follows the path's delivery rate and bounds what is in flight by 2 % of loss in a round trip, rather than reduce at each loss.",
    ..EXPERIMENTAL
};

/// Of `copa`.
pub(crate) const COPA: Statements = Statements {
    implementations: "The authors', mvfst (which ran it at scale for video), and this one.",
    deviations: "Its default mode does not reduce at a loss unless the loss is large: it goes by queueing delay; in the competitive mode it halves like Reno.",
    ..EXPERIMENTAL
};

/// Of `ledbat`.
pub(crate) const LEDBAT: Statements = Statements {
    implementations: "libutp (BitTorrent) and macOS, and this one.",
    status: "Experimental (RFC 6817): for background transfers, chosen by name; latecomers may starve earlier flows of it.",
    deviations: "None: it halves at a loss, and yields to queueing delay earlier than that.",
    ..EXPERIMENTAL
};

/// Of `ledbat++`.
pub(crate) const LEDBAT_PLUS: Statements = Statements {
    implementations: "Windows, and this one.",
    status: "Experimental by its draft: for background transfers, chosen by name.",
    ..LEDBAT
};

/// Of `rledbat`.
pub(crate) const RLEDBAT: Statements = Statements {
    implementations: "A module of Linux by the RFC's authors, a model of ns-3, and this one.",
    status: "Experimental (RFC 9840): for background transfers, chosen by name at both ends.",
    deployment: "The receiver decides and the sender keeps its own control; here both ends run it, since its window travels as feedback.",
    security: "The receiver can only take from what the sender's own control permits; a window that it advertises too large gains it nothing.",
    ..LEDBAT_PLUS
};

/// Of `vegas`.
pub(crate) const VEGAS: Statements = Statements {
    implementations: "A module of Linux for many years, and others since 1994.",
    deviations: "None: it halves at a loss, and yields to queueing delay earlier than that.",
    ..EXPERIMENTAL
};

/// Of `hpcc`.
pub(crate) const HPCC: Statements = Statements {
    implementations: "The authors', in network cards of data centres, and this one.",
    status: "Experimental: for fabrics whose every hop reports, chosen by name; not for the Internet.",
    environments: "It relies on hops that report their load; without reports it is CUBIC.",
    deviations: "It takes 30 % off at a loss that is not of the medium; otherwise it follows the fullest link's reported load.",
    ..CUBIC_MEDIUM
};

/// Of `verus`.
pub(crate) const VERUS: Statements = Statements {
    implementations: "The authors', over UDP, and this one.",
    deviations: "It halves at a loss; otherwise it follows a target of delay, up to a multiple of the smallest one.",
    ..EXPERIMENTAL
};

/// Of `sprout` and `sprout-ewma`.
pub(crate) const SPROUT: Statements = Statements {
    implementations: "The authors', over UDP, and this one.",
    deviations: "It never reacts to a loss: the receiver's forecast of deliveries is its only bound, and beside flows that fill a queue it gives way.",
    deployment: "Needs a receiver half of its own; for a link whose queue it has for itself.",
    ..EXPERIMENTAL
};

/// Of `mdi`.
pub(crate) const MDI: Statements = Statements {
    implementations: "The authors', over UDP, and this one.",
    deviations: "Its window moves by chance after a trained table; a loss reduces as a move of the table does, and many losses cap it.",
    ..EXPERIMENTAL
};

/// Of `fixed`.
pub(crate) const FIXED: Statements = Statements {
    implementations: "This one alone: a null hypothesis.",
    status: "Not a congestion control: for controlled measurements, and never for the Internet.",
    deviations: "It deviates from all of RFC 2914: it reacts to nothing.",
    ..EXPERIMENTAL
};

#[cfg(test)]
mod tests {
    use crate::registry::CONTROLLERS;

    #[test]
    fn our_own_controllers_have_every_statement_in_one_sentence() {
        for entry in CONTROLLERS {
            for said in entry.statements.all() {
                assert!(said.ends_with('.') && said.len() <= 240, "{}: '{said}'", entry.name);
            }
        }
    }
}
