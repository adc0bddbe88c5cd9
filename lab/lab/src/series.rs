//! Time series of a race as data: a row for each step of each flow of each run, with the names that `Records.series` of the Python
//! package has.

use std::io::{self, BufRead, Write};
use std::path::Path;

use paceline_cc::foreign::printable;
use serde::{Deserialize, Serialize};

use crate::record::{Run, rounded};

/// How a file of rows is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a line of names.
    Csv,
    /// A JSON object a line.
    JsonLines,
    /// Columns with types; in builds with the feature `parquet`.
    Parquet,
}

impl Format {
    /// By the extension of a file's name; `-`, which is standard output, takes CSV.
    pub fn of(path: &Path) -> Option<Self> {
        if path == Path::new("-") {
            return Some(Self::Csv);
        }
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "jsonl" => Some(Self::JsonLines),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

/// A step of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The contestant of the run.
    pub contestant: String,
    /// Number of the run, from 1.
    pub run: u32,
    /// End of the step in seconds.
    pub time_s: f64,
    /// Number of the flow, from 1.
    pub flow: u64,
    /// The flow's own contestant: another than the run's where flows run beside it.
    #[serde(default)]
    pub of: String,
    /// Whether it is the contestant's own flow.
    #[serde(default = "yes")]
    pub own: bool,
    /// Delivered in the step, headers included, Mbit/s.
    pub throughput_mbps: Option<f64>,
    /// Mean queueing delay of packets that arrived in the step, ms; nothing where none did.
    pub queue_ms: Option<f64>,
    /// Largest one, ms.
    pub queue_max_ms: Option<f64>,
    /// Smoothed round trip, ms.
    pub srtt_ms: Option<f64>,
    /// Window at the end of the step, packets.
    pub window_packets: Option<f64>,
    /// In flight at the end of the step, packets.
    pub in_flight_packets: Option<f64>,
    /// What the link could carry in the step, Mbit/s.
    pub capacity_mbps: Option<f64>,
    /// Bytes that wait at the link at the end of the step.
    pub link_queue_bytes: Option<u64>,
}

fn yes() -> bool {
    true
}

/// The rows of a run; none of a run without a series.
pub fn rows(run: &Run) -> impl Iterator<Item = Row> {
    let contestant = run.record.contestant();
    let series = run.series.iter();
    let flows = series.flat_map(|series| series.flows.iter().map(move |flow| (series, flow)));
    flows.flat_map(move |(series, flow)| {
        let contestant = contestant.clone();
        let of = run.record.flows.get(flow.index).map(|flow| format!("{}@{}", flow.controller, flow.via));
        let at = |values: &[f64], point: usize| values.get(point).copied().filter(|v| v.is_finite()).map(rounded);
        let some = |values: &[Option<f64>], point: usize| values.get(point).copied().flatten().map(rounded);
        (0..flow.throughput_mbps.len()).map(move |point| Row {
            contestant: contestant.clone(),
            run: run.record.run,
            time_s: rounded((point as f64 + 1.0) * series.step.as_secs_f64()),
            flow: flow.index as u64 + 1,
            of: of.clone().unwrap_or_default(),
            own: run.own.get(flow.index) != Some(&false),
            throughput_mbps: at(&flow.throughput_mbps, point),
            queue_ms: some(&flow.queue_ms, point),
            queue_max_ms: some(&flow.queue_max_ms, point),
            srtt_ms: some(&flow.srtt_ms, point),
            window_packets: at(&flow.window_packets, point),
            in_flight_packets: at(&flow.in_flight_packets, point),
            capacity_mbps: at(&series.capacity_mbps, point),
            link_queue_bytes: series.queue_bytes.get(point).copied(),
        })
    })
}

/// Writes the rows of runs; Parquet, which needs more of a writer, by [`write_parquet`].
///
/// # Errors
/// When the writer fails.
pub fn write<'a>(runs: impl IntoIterator<Item = &'a Run>, format: Format, out: &mut dyn Write) -> io::Result<()> {
    let rows = runs.into_iter().flat_map(rows);
    if format == Format::JsonLines {
        for row in rows {
            serde_json::to_writer(&mut *out, &row)?;
            out.write_all(b"\n")?;
        }
        return Ok(());
    }
    let mut writer = csv::Writer::from_writer(out);
    for row in rows {
        writer.serialize(row).map_err(io::Error::other)?;
    }
    writer.flush()
}

/// Writes the rows of runs as Parquet, a row group a run.
///
/// # Errors
/// When the writer fails.
#[cfg(feature = "parquet")]
pub fn write_parquet<'a>(runs: impl IntoIterator<Item = &'a Run>, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let groups = runs.into_iter().map(|run| rows(run).map(Row::columns).collect::<Vec<_>>());
    crate::record::parquet::write_groups(groups.filter(|group| !group.is_empty()), out).map_err(io::Error::other)
}

#[cfg(feature = "parquet")]
impl Row {
    fn columns(self) -> Vec<(String, crate::record::fields::Value)> {
        use crate::record::fields::Value;
        let (text, count) = (|text| Value::Text(Some(text)), |count| Value::Count(Some(count)));
        let columns = [
            ("contestant", text(self.contestant)),
            ("run", count(u64::from(self.run))),
            ("time_s", Value::Number(Some(self.time_s))),
            ("flow", count(self.flow)),
            ("of", text(self.of)),
            ("own", Value::Flag(Some(self.own))),
            ("throughput_mbps", Value::Number(self.throughput_mbps)),
            ("queue_ms", Value::Number(self.queue_ms)),
            ("queue_max_ms", Value::Number(self.queue_max_ms)),
            ("srtt_ms", Value::Number(self.srtt_ms)),
            ("window_packets", Value::Number(self.window_packets)),
            ("in_flight_packets", Value::Number(self.in_flight_packets)),
            ("capacity_mbps", Value::Number(self.capacity_mbps)),
            ("link_queue_bytes", Value::Count(self.link_queue_bytes)),
        ];
        columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Why rows could not be read: the line, from 1, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct RowError {
    /// The line; 0 where it is the whole file.
    pub line: u64,
    /// What is wrong.
    pub problem: String,
}

fn wrong(line: u64, problem: &dyn std::fmt::Display) -> RowError {
    let problem = printable(&problem.to_string(), 200);
    RowError { line, problem }
}

/// Reads rows of CSV; columns with other names are passed over.
///
/// # Errors
/// At the first line that is not a row, and when reading fails.
pub fn read_csv(input: impl BufRead) -> impl Iterator<Item = Result<Row, RowError>> {
    let reader = csv::Reader::from_reader(input);
    reader
        .into_deserialize()
        .map(|row| row.map_err(|error: csv::Error| wrong(error.position().map_or(0, csv::Position::line), &error)))
}

/// Reads rows of JSON Lines; keys with other names are passed over.
///
/// # Errors
/// As [`read_csv`].
pub fn read_json(input: impl BufRead) -> impl Iterator<Item = Result<Row, RowError>> {
    let lines = input.lines().enumerate().map(|(index, line)| (index as u64 + 1, line));
    let lines = lines.filter(|(_, line)| line.as_ref().map_or(true, |line| !line.trim().is_empty()));
    lines.map(|(number, line)| {
        let line = line.map_err(|error| wrong(number, &error))?;
        serde_json::from_str(&line).map_err(|error| wrong(number, &error))
    })
}

/// Reads rows of a Parquet file.
///
/// # Errors
/// When it is not a series, or lacks a column.
#[cfg(feature = "parquet")]
pub fn read_parquet(file: std::fs::File) -> Result<impl Iterator<Item = Result<Row, RowError>>, RowError> {
    use parquet::file::reader::SerializedFileReader;
    use parquet::record::Field;
    let reader = SerializedFileReader::new(file).map_err(|error| wrong(0, &error))?;
    Ok(reader.into_iter().enumerate().map(|(index, row)| {
        let number = index as u64 + 1;
        let row = row.map_err(|error| wrong(number, &error))?;
        let fields = row.get_column_iter().map(|(name, field)| {
            let value: serde_json::Value = match field {
                // A text in files that older builds wrote.
                Field::Str(text) if name == "own" => (text != "false").into(),
                Field::Str(text) => text.as_str().into(),
                Field::Long(count) => (*count).into(),
                Field::Int(count) => (*count).into(),
                Field::Double(number) => (*number).into(),
                Field::Bool(flag) => (*flag).into(),
                _ => serde_json::Value::Null,
            };
            (name.clone(), value)
        });
        let json = serde_json::Value::Object(fields.collect());
        serde_json::from_value(json).map_err(|error| wrong(number, &error))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::{Race, Settings, race};
    use crate::scenario::{Options, Source};

    fn raced(series_of_all: bool) -> Race {
        let text = "name = 'two'\nseconds = 1\nruns = 2\ncontestants = ['reno@tcp', 'copa@udp']\n\
                    [down]\nrate = '5 Mbit/s'\ndelay = '10ms'\n\
                    [[flows]]\n[[flows]]\ncontestant = 'cubic@tcp'\n";
        let settings = Settings { series: true, series_of_all, ..Settings::default() };
        race(&Source::from_text("s.toml", text, Options::default()), &settings).unwrap()
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let race = raced(false);
        let wanted: Vec<Row> = race.runs.iter().flat_map(rows).collect();
        // Two contestants, two flows, 500 steps of 2 ms.
        assert_eq!(wanted.len(), 2 * 2 * 500);
        assert!(wanted.iter().all(|row| row.run == 1));
        let rival = wanted.iter().find(|row| !row.own).unwrap();
        assert_eq!((rival.contestant.as_str(), rival.flow, rival.of.as_str()), ("reno@tcp", 2, "cubic@tcp"));
        let mut text = Vec::new();
        write(&race.runs, Format::Csv, &mut text).unwrap();
        let head = "contestant,run,time_s,flow,of,own,throughput_mbps,queue_ms,queue_max_ms,srtt_ms,window_packets,\
                    in_flight_packets,capacity_mbps,link_queue_bytes\n";
        assert!(text.starts_with(head.as_bytes()), "{}", String::from_utf8_lossy(&text[..300]));
        assert_eq!(read_csv(&text[..]).map(Result::unwrap).collect::<Vec<_>>(), wanted);
        let mut text = Vec::new();
        write(&race.runs, Format::JsonLines, &mut text).unwrap();
        assert_eq!(read_json(&text[..]).map(Result::unwrap).collect::<Vec<_>>(), wanted);
        #[cfg(feature = "parquet")]
        {
            let mut file = tempfile::tempfile().unwrap();
            write_parquet(&race.runs, &mut file).unwrap();
            assert_eq!(read_parquet(file).unwrap().map(Result::unwrap).collect::<Vec<_>>(), wanted);
        }
    }

    #[test]
    fn all_runs_have_rows_where_that_is_asked_for() {
        let race = raced(true);
        let last = race.runs.iter().flat_map(rows).last().unwrap();
        assert_eq!((last.contestant.as_str(), last.run), ("copa@udp", 2));
    }

    #[test]
    fn a_wrong_line_has_its_number() {
        let text = b"contestant,run,time_s,flow\nreno@tcp,1,0.1,1\nreno@tcp,1,soon,1\n";
        let error = read_csv(&text[..]).nth(1).unwrap().unwrap_err();
        assert_eq!(error.line, 3, "{error}");
        assert_eq!(read_json(&b"\n{}\n"[..]).next().unwrap().unwrap_err().line, 2);
        let named = ["a.csv", "b.JSONL", "c.parquet", "-", "d.txt"].map(|name| Format::of(Path::new(name)));
        assert_eq!(named, [Some(Format::Csv), Some(Format::JsonLines), Some(Format::Parquet), Some(Format::Csv), None]);
    }
}
