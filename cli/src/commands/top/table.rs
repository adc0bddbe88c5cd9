//! The table, as wide as the terminal.

use std::cmp::Reverse;

use paceline_alcc::export::{Line, Process};
use paceline_alcc::figures::{Figure, Kind, Unit};
use serde_json::Value;

use super::Sort;
use super::live::{self, Space, amount, clipped, counted};

/// What a column shows.
enum Shown {
    Pid,
    Program,
    /// The figure of this name, under its title.
    Figure(&'static str),
}

/// A column, and how soon it is left out when there is too little space: the highest goes first.
struct Column {
    shown: Shown,
    dispensable: u8,
}

const fn figure(name: &'static str, dispensable: u8) -> Column {
    Column { shown: Shown::Figure(name), dispensable }
}

const COLUMNS: [Column; 13] = [
    Column { shown: Shown::Pid, dispensable: 8 },
    Column { shown: Shown::Program, dispensable: 7 },
    figure("peer", 0),
    figure("controller", 6),
    figure("mode", 11),
    figure("acks", 12),
    figure("rate_mbps", 1),
    figure("rtt_ms", 2),
    figure("min_rtt_ms", 5),
    figure("window_bytes", 9),
    figure("in_flight_bytes", 10),
    figure("queue_bytes", 4),
    figure("limited_by", 3),
];

impl Column {
    fn figure(&self) -> Option<&'static Figure> {
        match self.shown {
            Shown::Figure(name) => Figure::named(name),
            Shown::Pid | Shown::Program => None,
        }
    }

    fn title(&self) -> &'static str {
        match self.shown {
            Shown::Pid => "PID",
            Shown::Program => "PROGRAM",
            Shown::Figure(name) => self.figure().and_then(|figure| figure.title).unwrap_or(name),
        }
    }

    fn text(&self, process: &Process, line: &Line) -> String {
        match self.shown {
            Shown::Pid => process.pid.to_string(),
            Shown::Program => process.program.clone(),
            Shown::Figure(_) => self.figure().map_or_else(String::new, |figure| cell(figure, line)),
        }
    }

    /// Numbers stand at the right.
    fn is_number(&self) -> bool {
        match self.shown {
            Shown::Pid => true,
            Shown::Program => false,
            Shown::Figure(_) => self.figure().is_some_and(|figure| figure.kind != Kind::Label),
        }
    }
}
/// Most lines on what is missing (our choice: the rest is for sockets).
const NOTES: usize = 3;

/// A line of sums, then one a socket, sorted, and what is missing, within this many columns and rows of a screen.
pub(super) fn draw(processes: &[Process], notes: &[String], sort: Sort, space: Space) -> String {
    let notes = shortened(notes);
    let mut text = sockets(processes, sort, Space { height: space.height.saturating_sub(notes.len()), ..space });
    for note in notes {
        text += &(clipped(&note, space.width) + "\n");
    }
    text
}

fn shortened(notes: &[String]) -> Vec<String> {
    let (first, others) = notes.split_at(notes.len().min(NOTES));
    let more = (!others.is_empty()).then(|| format!("and {} more lines as these (--json has them)", others.len()));
    first.iter().cloned().chain(more).collect()
}

fn sockets(processes: &[Process], sort: Sort, space: Space) -> String {
    let mut sockets: Vec<(&Process, &Line)> =
        processes.iter().flat_map(|process| process.sockets.iter().map(move |line| (process, line))).collect();
    sockets.sort_by_key(|(process, line)| {
        // What has no round trip or no peer comes last.
        let most = match sort {
            Sort::Rate => (line.rate_mbps * 1e3) as u64,
            Sort::Rtt => line.rtt_ms.map_or(0, |rtt| (rtt * 1e3) as u64 + 1),
            Sort::Queue => line.queue_bytes,
            Sort::Window => line.window_bytes,
            Sort::Peer | Sort::Pid => 0,
        };
        let peer = (sort == Sort::Peer).then_some((line.peer.is_none(), line.peer));
        (Reverse(most), peer, process.pid, line.id)
    });
    let rate: f64 = sockets.iter().map(|(_, line)| line.rate_mbps).sum();
    let heading = match processes.len() {
        0 => "no program runs under paceline shim (or none has sent anything yet)".to_owned(),
        count => {
            let (programs, connections) = (counted(count, "program"), counted(sockets.len(), "connection"));
            format!("{programs}, {connections}, {} Mbit/s", amount(rate))
        }
    };
    let cells = |(process, line): &(&Process, &Line)| COLUMNS.iter().map(|column| column.text(process, line)).collect();
    let columns = COLUMNS.each_ref().map(|column| live::Column {
        title: column.title(),
        dispensable: column.dispensable,
        number: column.is_number(),
    });
    live::table(&heading, &columns, sockets.iter().map(cells).collect(), space)
}

/// A figure of a socket, in as few digits as say enough.
fn cell(figure: &Figure, line: &Line) -> String {
    match figure.of(line) {
        // The kernel no longer says who the other end was.
        Value::Null if figure.kind == Kind::Label => "gone".to_owned(),
        Value::Null => "-".to_owned(),
        Value::String(text) => text,
        Value::Number(bytes) if figure.unit == Unit::Bytes => kilobytes(bytes.as_u64().unwrap_or_default()),
        Value::Number(value) if value.is_f64() => amount(value.as_f64().unwrap_or_default()),
        value => value.to_string(),
    }
}

/// The window of a controller without a limit is not a readable number.
fn kilobytes(bytes: u64) -> String {
    if bytes > 1 << 40 { "open".to_owned() } else { amount(bytes as f64 / 1e3) }
}

#[cfg(test)]
mod tests {
    use paceline_alcc::figures::FIGURES;

    use super::*;

    fn one(rate_mbps: f64, peer: &str) -> Line {
        Line {
            peer: Some(peer.parse().unwrap()),
            controller: "copa:delta=0.1".to_owned(),
            mode: "queue".to_owned(),
            acks: "stamps".to_owned(),
            rate_mbps,
            rtt_ms: Some(45.67),
            min_rtt_ms: Some(40.0),
            window_bytes: 60_000,
            queue_bytes: 9_999_999,
            limited_by: "window".to_owned(),
            ..Line::default()
        }
    }

    fn processes() -> Vec<Process> {
        let sockets = vec![one(1.0, "192.0.2.1:5000"), one(12.0, "[2001:db8::1]:80")];
        vec![Process { pid: 77, program: "nginx".to_owned(), sockets, ..Process::default() }]
    }

    #[test]
    fn the_fastest_comes_first_and_every_column_is_there() {
        let text = draw(&processes(), &[], Sort::Rate, Space::ANY);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0], "1 program, 2 connections, 13.0 Mbit/s");
        for column in &COLUMNS {
            assert!(rows[1].contains(column.title()), "{text}");
        }
        let titles = FIGURES.iter().filter_map(|figure| figure.title);
        assert!(titles.clone().all(|title| rows[1].contains(title)) && titles.count() == COLUMNS.len() - 2, "{text}");
        assert!(rows[2].contains("[2001:db8::1]:80") && rows[2].contains("12.0") && rows[2].contains("45.7"), "{text}");
        assert!(
            rows[3].contains("192.0.2.1:5000") && rows[3].contains("10000") && rows[3].ends_with("window"),
            "{text}"
        );
    }

    #[test]
    fn a_table_is_sorted_by_what_is_asked_for() {
        let first = |sort| {
            let text = draw(&processes(), &[], sort, Space::ANY);
            text.lines().nth(2).unwrap().contains("192.0.2.1:5000")
        };
        assert_eq!([Sort::Rate, Sort::Peer, Sort::Pid].map(first), [false, true, true]);
    }

    #[test]
    fn no_row_is_wider_than_the_screen() {
        for width in [1, 10, 20, 40, 60, 80, 100, 120] {
            let text = draw(&processes(), &[], Sort::Rate, Space { width, height: 24 });
            assert!(text.lines().all(|row| row.chars().count() <= width), "{width}: {text}");
        }
        let narrow = draw(&processes(), &[], Sort::Rate, Space { width: 45, height: 24 });
        assert!(narrow.contains("PEER") && narrow.contains("Mbit/s") && !narrow.contains("PID"), "{narrow}");
    }

    #[test]
    fn what_has_no_room_below_is_counted() {
        let text = draw(&processes(), &[], Sort::Rate, Space { width: 80, height: 4 });
        assert_eq!(text.lines().count(), 4);
        assert!(text.ends_with("and 1 more\n"), "{text}");
    }

    #[test]
    fn what_is_missing_has_lines_of_its_own() {
        let notes: Vec<String> = (1..=5).map(|user| format!("{user} programs of uid {user} did not answer")).collect();
        let text = draw(&processes(), &notes[..1], Sort::Rate, Space { width: 21, height: 5 });
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.ends_with("\nand 1 more\n1 programs of uid 1 d\n"), "{text}");
        let text = draw(&[], &notes, Sort::Rate, Space { width: 80, height: 24 });
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.starts_with("no program runs") && text.contains("\n3 programs of uid 3"), "{text}");
        assert!(text.ends_with("\nand 2 more lines as these (--json has them)\n"), "{text}");
    }
}
