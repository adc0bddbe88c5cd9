//! Time series of a race: a curve for each contestant and flow.

use paceline_cc::Nanos;
use paceline_conform::read::FileError;
use paceline_lab::series::{Row, RowError};
use paceline_report::logs::{Curve, LogChart, PlottedLog};
use paceline_report::palette;

use crate::bins::{Bins, Grid};

/// Most curves in a chart (our choice: as many as there are colours, twice).
const MOST: usize = 16;

/// A curve in every chart.
struct Shown {
    contestant: String,
    flow: u64,
    run: u32,
    values: [Bins; 4],
}

/// What is drawn of a row, and the title of its chart.
const TITLES: [&str; 4] = ["throughput, Mbit/s", "queueing delay, ms", "round trip, ms", "window, packets"];

#[cfg(feature = "parquet")]
pub(crate) fn read_parquet(file: &str, from: std::fs::File, step: Option<Nanos>) -> Result<PlottedLog, FileError> {
    let rows = paceline_lab::series::read_parquet(from);
    read(file, rows.map_err(|error| wrong(file, &error))?, step)
}

#[cfg(not(feature = "parquet"))]
pub(crate) fn read_parquet(file: &str, _: std::fs::File, _: Option<Nanos>) -> Result<PlottedLog, FileError> {
    let problem = "this paceline was built without Parquet; build it with 'cargo build --release -p paceline-cli --features \
                   parquet', or write the series as CSV";
    Err(FileError::new(file, 0, problem))
}

fn wrong(file: &str, error: &RowError) -> FileError {
    FileError::new(file, error.line, format!("not a row of a series ({error}); give a file that race --series wrote"))
}

pub(crate) fn read(
    file: &str,
    rows: impl Iterator<Item = Result<Row, RowError>>,
    step: Option<Nanos>,
) -> Result<PlottedLog, FileError> {
    let (mut shown, mut notes): (Vec<Shown>, Vec<String>) = Default::default();
    let (mut end, mut others, mut more) = (0, false, false);
    let mut rows = rows.peekable();
    while let Some(row) = rows.next() {
        let row = match row {
            // A write that was cut off: the rows before it are whole.
            Err(_) if rows.peek().is_none() && !shown.is_empty() => {
                notes.push("Its last line is cut off, and left out.".to_owned());
                break;
            }
            row => row.map_err(|error| wrong(file, &error))?,
        };
        if !row.time_s.is_finite() || !(0.0..1e10).contains(&row.time_s) {
            return Err(FileError::new(
                file,
                0,
                format!("time_s {} is not a time; give a file that race --series wrote", row.time_s),
            ));
        }
        let run = shown.iter().find(|one| one.contestant == row.contestant).map_or(row.run, |one| one.run);
        if run != row.run {
            others = true;
            continue;
        }
        let known = shown.iter().position(|one| one.contestant == row.contestant && one.flow == row.flow);
        let index = match known {
            Some(index) => index,
            None if shown.len() >= MOST => {
                more = true;
                continue;
            }
            None => {
                let values = [(); 4].map(|()| Bins::default());
                shown.push(Shown { contestant: row.contestant, flow: row.flow, run, values });
                shown.len() - 1
            }
        };
        let until = (row.time_s * 1e9) as u64;
        end = end.max(until);
        let values = [row.throughput_mbps, row.queue_ms, row.srtt_ms, row.window_packets];
        for (bins, value) in shown[index].values.iter_mut().zip(values) {
            // A step's end belongs to it.
            if let Some(value) = value.filter(|value| value.is_finite()) {
                bins.add(until.saturating_sub(1), value);
            }
        }
    }
    if shown.is_empty() {
        return Err(FileError::new(file, 0, "it has no rows; give a file that race --series wrote"));
    }
    if others {
        notes.push("The first run of each contestant is drawn.".to_owned());
    }
    if more {
        notes.push(format!("The first {MOST} flows are drawn."));
    }
    let grid = Grid::new(end.max(1), step);
    let classes = palette::classes(shown.iter().map(|one| one.contestant.as_str()));
    let several = |name: &str| shown.iter().filter(|one| one.contestant == name).count() > 1;
    let chart = |(index, title): (usize, &'static str)| {
        let curve = |(place, one): (usize, &Shown)| {
            let name = &one.contestant;
            let name = if several(name) { format!("{name} flow {}", one.flow) } else { name.clone() };
            let mut points = one.values[index].means(grid);
            // Steps of the file may be longer than those of the picture.
            points.retain(|(_, value)| value.is_some());
            Curve::new(name, classes[place].clone(), points)
        };
        let curves = shown.iter().enumerate().filter(|(_, one)| !one.values[index].is_empty());
        LogChart { title, curves: curves.map(curve).collect() }
    };
    let charts: Vec<LogChart> =
        TITLES.into_iter().enumerate().map(chart).filter(|chart| !chart.curves.is_empty()).collect();
    let (file, seconds, step_s) = (file.to_owned(), grid.seconds(), grid.step_s());
    Ok(PlottedLog { file, kind: "time series of a race", notes, seconds, step_s, figures: Vec::new(), charts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_for_each_flow_of_the_first_run() {
        let text = "contestant,run,time_s,flow,throughput_mbps,queue_ms\n\
                    a@udp,1,0.1,1,5,\na@udp,1,0.2,1,7,3\na@udp,1,0.1,2,1,\na@udp,2,0.1,1,99,9\nb@tcp,1,0.1,1,2,\n";
        let log = read("s.csv", paceline_lab::series::read_csv(text.as_bytes()), None).unwrap();
        let names: Vec<&str> = log.charts[0].curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["a@udp flow 1", "a@udp flow 2", "b@tcp"]);
        assert_eq!((log.charts.len(), log.charts[1].curves.len(), log.notes.len()), (2, 1, 1));
        let classes: Vec<&str> = log.charts[0].curves.iter().map(|curve| &*curve.class).collect();
        assert!(classes[0] != classes[1] && classes[2].ends_with(" d0"), "{classes:?}");
        assert!(log.charts[0].curves[0].points.iter().all(|(_, value)| value.unwrap() < 10.0));

        let cut = read("s.csv", paceline_lab::series::read_csv(&text.as_bytes()[..text.len() - 6]), None).unwrap();
        assert_eq!(
            cut.notes,
            ["Its last line is cut off, and left out.", "The first run of each contestant is drawn."]
        );
        let wrong = text.replace("0.2,1", "x,1");
        assert!(read("s.csv", paceline_lab::series::read_csv(wrong.as_bytes()), None).is_err());
    }
}
