//! Every argument that is a path, and what the command does with it. The unit test `paths` of the command fails where one is missing here,
//! and [`super`] runs each that is a file to be written.

/// An argument that is a path.
#[derive(Clone, Copy)]
pub(crate) struct Argument {
    /// The command, without `paceline`.
    pub(crate) command: &'static str,
    /// The option's long name, or a positional argument's.
    pub(crate) name: &'static str,
    /// What becomes of it.
    pub(crate) takes: Takes,
}

/// What a command does with a path.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    /// It reads it, makes it as a secret that replaces nothing, or replaces what it has read as a file of its own.
    Input,
    /// It is a folder, in which the command's own names are written.
    Folder,
    /// A journal: lines are added to it.
    Journal,
    /// It is written in one piece: a device or a FIFO in order.
    Written(Run),
    /// It is written in any order: a regular file alone.
    Placed(Run),
}

/// How a command is run so that it writes the file `OUT`, or `OUT.csv` where its name has to end so.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// What has to be there first.
    pub(crate) needs: Needs,
    /// Its arguments.
    pub(crate) line: &'static str,
}

/// What a command needs before it can write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The files of the folder alone.
    Files,
    /// The feature `parquet`.
    Parquet,
    /// A server of `icn`, at ADDR, with the object NAME.
    Icn,
    /// A server of `alcc`, at ADDR.
    Alcc,
    /// A server over UDP, at ADDR.
    Udp,
    /// The other end of `trace record`, at ADDR.
    Recorder,
    /// Namespaces.
    Emulator,
    /// Something that this test cannot have everywhere; another test runs it.
    Elsewhere(&'static str),
}

const fn argument(command: &'static str, name: &'static str, takes: Takes) -> Argument {
    Argument { command, name, takes }
}

const fn written(needs: Needs, line: &'static str) -> Takes {
    Takes::Written(Run { needs, line })
}

const fn placed(needs: Needs, line: &'static str) -> Takes {
    Takes::Placed(Run { needs, line })
}

use Needs::{Alcc, Elsewhere, Emulator, Files, Icn, Parquet, Recorder, Udp};
use Takes::{Folder, Input, Journal};

/// All of them, by command.
pub(crate) const ARGUMENTS: &[Argument] = &[
    argument("alcc fetch", "output", written(Alcc, "alcc fetch film ADDR --output OUT")),
    argument("alcc fetch", "tls-ca", Input),
    argument("alcc send", "tls-ca", Input),
    argument("alcc send", "what", Input),
    argument("alcc serve", "dir", Folder),
    argument("alcc serve", "key", Input),
    argument("alcc serve", "tls-cert", Input),
    argument("alcc serve", "tls-key", Input),
    argument("alcc token", "key", Input),
    argument("conform", "events", Input),
    argument("conform", "json", written(Files, "conform --list --json OUT")),
    argument("conform", "keep", Folder),
    argument("conform", "pcap", Input),
    argument("conform", "programs", Input),
    argument("conform", "qlog", Input),
    argument("conform", "report", Folder),
    argument("conform", "script", Input),
    argument("controllers", "pages", Folder),
    argument("emulate", "json", written(Emulator, "emulate --delay 1ms --json OUT -- true")),
    argument("emulate", "log", written(Emulator, "emulate --delay 1ms --log OUT -- true")),
    argument("emulate", "mahimahi-log", Input),
    argument("emulate", "scenario", Input),
    argument("emulate", "trace", Input),
    argument("emulate", "up", Input),
    argument("evaluate", "json", written(Files, "evaluate reno --quick --only cellular --json OUT")),
    argument("evaluate", "report", Folder),
    argument("fetch", "key", Input),
    argument("fetch", "output", placed(Udp, "fetch film ADDR --output OUT")),
    argument("icn fetch", "out", written(Icn, "icn fetch NAME --from ADDR --out OUT")),
    argument("icn fetch", "qlog", Folder),
    argument("icn publish", "key", Input),
    argument("icn publish", "source", Input),
    argument("icn publish", "store", Folder),
    argument("icn resolver", "key", Input),
    argument("icn resolver", "state", Journal),
    argument("icn route", "cache", Folder),
    argument("icn serve", "announce-key", Input),
    argument("icn serve", "store", Folder),
    argument("icn stat", "store", Folder),
    argument("int agent", "keys", Input),
    argument("int key", "keys", Folder),
    argument("int path", "cgroup", Input),
    argument("int path", "keys", Input),
    argument("int sink", "keys", Input),
    argument("int source", "cgroup", Input),
    argument("int transit", "keys", Input),
    argument("int watch", "keys", Input),
    argument("kernel load", "keys", Input),
    argument("kernel run", "keys", Input),
    argument(
        "kernel run",
        "json",
        written(Elsewhere("the kernel's controllers"), "kernel run reno --json OUT -- true"),
    ),
    argument("manual", "folder", Folder),
    argument("mdi check", "files", Input),
    argument("mdi show", "html", written(Files, "mdi show copa --html OUT")),
    argument("mdi show", "model", Input),
    argument("mdi train", "add", Input),
    argument(
        "mdi train",
        "counts",
        written(Files, "mdi train --cc reno lte.down --seconds 2 --unseen 0 --out model --counts OUT"),
    ),
    argument("mdi train", "out", written(Files, "mdi train --cc reno lte.down --seconds 2 --unseen 0 --out OUT")),
    argument("mdi train", "traces", Input),
    argument("mdi train", "unseen-trace", Input),
    argument("plot", "files", Input),
    argument("plot", "json", written(Files, "plot series.csv --json OUT")),
    argument("plot", "out", written(Files, "plot series.csv --out OUT")),
    argument("plot", "svg", written(Files, "plot series.csv --svg OUT")),
    argument("race", "csv", written(Files, "race small.toml --runs 1 --seconds 1 --csv OUT")),
    argument("race", "events", Folder),
    argument("race", "json", written(Files, "race small.toml --runs 1 --seconds 1 --json OUT")),
    argument("race", "digests", written(Files, "race small.toml --runs 1 --seconds 1 --digests OUT")),
    argument("race", "parquet", written(Parquet, "race small.toml --runs 1 --seconds 1 --parquet OUT")),
    argument("race", "keep", Folder),
    argument("race", "key", Input),
    argument("race", "pcap", Folder),
    argument("race", "qlog", Folder),
    argument("race", "report", Folder),
    argument("race", "scenario", Input),
    argument("race", "series", written(Files, "race small.toml --runs 1 --seconds 1 --series OUT.csv")),
    argument("race", "trace", Input),
    argument("race", "up", Input),
    argument("replay", "file", Input),
    argument("report", "files", Input),
    argument("report", "out", Folder),
    argument("reproduce", "journal", Journal),
    argument("reproduce", "json", written(Files, "reproduce int --figure fig4 --runs 1 --seconds 1 --json OUT")),
    argument("reproduce", "report", Folder),
    argument("reproduce", "trace", Input),
    argument("send", "key", Input),
    argument("send", "remembered", Input),
    argument("send", "what", Input),
    argument("serve", "dir", Folder),
    argument("serve", "file", Input),
    argument("serve", "key", Input),
    argument("serve", "remembered", Input),
    argument("shim", "log", Journal),
    argument("shim", "qlog", Folder),
    argument("sweep", "file", Input),
    argument("sweep", "out", Folder),
    argument("sweep", "report", Folder),
    argument("trace convert", "input", Input),
    argument("trace convert", "output", written(Files, "trace convert lte.down OUT")),
    argument("trace import", "input", Input),
    argument("trace import", "output", written(Files, "trace import lte.down OUT")),
    argument("trace info", "files", Input),
    argument(
        "trace record",
        "down",
        written(Recorder, "trace record ADDR --seconds 1 --lead 0 --most 10mbit --down OUT"),
    ),
    argument("trace record", "key", Input),
    argument("trace record", "up", written(Recorder, "trace record ADDR --seconds 1 --lead 0 --most 10mbit --up OUT")),
    argument("trace synth", "output", written(Files, "trace synth --seconds 2 --output OUT")),
    argument("trace validate", "files", Input),
    argument("validate", "journal", Journal),
    argument("validate", "json", written(Files, "validate --only M/M/1 --json OUT")),
    argument("validate", "out", written(Files, "validate --only M/M/1 --out OUT")),
    argument("validate", "traces", Input),
];
