//! What all runs left, as tables.

use std::path::PathBuf;

use paceline_cc::Nanos;
use paceline_experiment::Series;
use paceline_lab::input::{self, Bounds};
use paceline_lab::record::fields::{self, Value};
use paceline_lab::record::{Run, read_json};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::events::Row;
use crate::run::Failed;
use crate::table::{Columns, Table};

/// One run that reached its end.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) run: Run,
    pub(crate) events: Vec<Row>,
}

/// What all runs left: by contestant in the scenario's order, then by number.
#[pyclass(frozen, module = "paceline._paceline")]
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) finished: Vec<Finished>,
    pub(crate) failures: Vec<Py<Failed>>,
}

/// Contestant and number of the run that rows belong to.
struct Labels {
    contestants: Vec<usize>,
    runs: Vec<u64>,
}

impl Records {
    /// This many rows of each run, labelled.
    fn labels(&self, rows: impl Fn(&Finished) -> usize) -> Labels {
        let mut labels = Labels { contestants: Vec::new(), runs: Vec::new() };
        for (index, finished) in self.finished.iter().enumerate() {
            let rows = rows(finished);
            labels.contestants.extend(std::iter::repeat_n(index, rows));
            labels.runs.extend(std::iter::repeat_n(u64::from(finished.run.record.run), rows));
        }
        labels
    }

    /// A table whose first columns are `contestant` and `run`.
    fn labelled(&self, rows: impl Fn(&Finished) -> usize) -> Columns {
        let (labels, mut columns) = (self.labels(rows), Columns::default());
        let names: Vec<String> = self.finished.iter().map(|finished| finished.run.record.contestant()).collect();
        columns.words("contestant", labels.contestants.into_iter().map(|index| &names[index]));
        columns.counts("run", labels.runs.into_iter().map(Some));
        columns
    }
}

#[pymethods]
impl Records {
    /// Runs that did not reach their end.
    #[getter]
    fn failures(&self, py: Python<'_>) -> Vec<Py<Failed>> {
        self.failures.iter().map(|failed| failed.clone_ref(py)).collect()
    }

    fn __len__(&self) -> usize {
        self.finished.len()
    }

    /// Each record as one line of JSON.
    fn json(&self) -> Vec<String> {
        self.finished.iter().map(|finished| serde_json::to_string(&finished.run.record).unwrap_or_default()).collect()
    }

    /// A row for each run: `contestant`, and the columns of CSV and Parquet.
    fn records(&self) -> PyResult<Table> {
        let rows: Vec<_> = self.finished.iter().map(|finished| fields::row(&finished.run.record)).collect();
        let mut table = Columns::default();
        for (index, (name, kind)) in fields::head().iter().enumerate() {
            let column = rows.iter().map(|row| &row[index].1);
            match kind {
                Value::Text(_) => table.texts(name, column.map(text)),
                Value::Flag(_) => table.flags(name, column.map(flag)),
                Value::Count(_) => table.counts(name, column.map(count)),
                Value::Number(_) => table.numbers(name, column.map(number)),
            }
        }
        table.table()
    }

    /// A row for each percentile of packets of each run: delay on the path, and of this in queues.
    fn quantiles(&self) -> PyResult<Table> {
        let of = |finished: &Finished| finished.run.delay_quantiles_ms.len();
        let mut table = self.labelled(of);
        let all = |part: fn(&Finished) -> &Vec<f64>| {
            self.finished.iter().flat_map(move |run| part(run).iter().copied()).collect()
        };
        table.all_numbers(
            "share",
            self.finished.iter().flat_map(|run| (0..of(run)).map(|percent| percent as f64 / 100.0)).collect(),
        );
        table.all_numbers("delay_ms", all(|one| &one.run.delay_quantiles_ms));
        table.all_numbers("queue_ms", all(|one| &one.run.queue_quantiles_ms));
        table.table()
    }

    /// A row for each step of each flow.
    fn series(&self) -> PyResult<Table> {
        let points = |series: &Series| series.capacity_mbps.len();
        let mut table =
            self.labelled(|one| one.run.series.as_ref().map_or(0, |series| points(series) * series.flows.len()));
        let series = || self.finished.iter().filter_map(|one| Some((one, one.run.series.as_ref()?)));
        let flows = || series().flat_map(|(one, series)| series.flows.iter().map(move |flow| (one, series, flow)));
        table.all_numbers(
            "time_s",
            flows().flat_map(|(_, series, _)| (0..points(series)).map(|point| time(series, point))).collect(),
        );
        table.counts(
            "flow",
            flows().flat_map(|(_, series, flow)| std::iter::repeat_n(Some(flow.index as u64 + 1), points(series))),
        );
        let controller = |one: &Finished, index: usize| {
            one.run.record.flows.get(index).map(|flow| format!("{}@{}", flow.controller, flow.via))
        };
        table.words(
            "of",
            flows().flat_map(|(one, series, flow)| {
                std::iter::repeat_n(controller(one, flow.index).unwrap_or_default(), points(series))
            }),
        );
        table.flags(
            "own",
            flows().flat_map(|(one, series, flow)| {
                std::iter::repeat_n(Some(one.run.own.get(flow.index) != Some(&false)), points(series))
            }),
        );
        let numbers = |part: fn(&paceline_experiment::FlowSeries) -> &Vec<f64>| {
            flows().flat_map(move |(_, _, flow)| part(flow).iter().copied()).collect::<Vec<_>>()
        };
        let some = |part: fn(&paceline_experiment::FlowSeries) -> &Vec<Option<f64>>| {
            flows().flat_map(move |(_, _, flow)| part(flow).iter().copied())
        };
        table.all_numbers("throughput_mbps", numbers(|flow| &flow.throughput_mbps));
        table.numbers("queue_ms", some(|flow| &flow.queue_ms));
        table.numbers("queue_max_ms", some(|flow| &flow.queue_max_ms));
        table.numbers("srtt_ms", some(|flow| &flow.srtt_ms));
        table.all_numbers("window_packets", numbers(|flow| &flow.window_packets));
        table.all_numbers("in_flight_packets", numbers(|flow| &flow.in_flight_packets));
        table.all_numbers(
            "capacity_mbps",
            flows().flat_map(|(_, series, _)| series.capacity_mbps.iter().copied()).collect(),
        );
        table.counts(
            "link_queue_bytes",
            flows().flat_map(|(_, series, _)| series.queue_bytes.iter().copied().map(Some)),
        );
        table.table()
    }

    /// A row for each step of each variable that a flow's controller describes.
    fn variables(&self) -> PyResult<Table> {
        let of = |one: &Finished| -> usize {
            let flows = one.run.series.iter().flat_map(|series| &series.flows);
            flows.flat_map(|flow| flow.variables.values()).map(Vec::len).sum()
        };
        let mut table = self.labelled(of);
        let series = || self.finished.iter().filter_map(|one| one.run.series.as_ref());
        let flows = || series().flat_map(|series| series.flows.iter().map(move |flow| (series, flow)));
        let variables = || {
            flows().flat_map(|(series, flow)| {
                flow.variables.iter().map(move |(name, values)| (series, flow.index, *name, values))
            })
        };
        table.all_numbers(
            "time_s",
            variables().flat_map(|(series, _, _, values)| (0..values.len()).map(|point| time(series, point))).collect(),
        );
        table.counts(
            "flow",
            variables().flat_map(|(_, flow, _, values)| std::iter::repeat_n(Some(flow as u64 + 1), values.len())),
        );
        table.words("variable", variables().flat_map(|(_, _, name, values)| std::iter::repeat_n(name, values.len())));
        table.numbers("value", variables().flat_map(|(_, _, _, values)| values.iter().copied()));
        table.table()
    }

    /// A row for each event of each controller.
    fn events(&self) -> PyResult<Table> {
        let mut table = self.labelled(|run| run.events.len());
        let rows = || self.finished.iter().flat_map(|run| &run.events);
        let spans = |part: fn(&Row) -> Option<Nanos>| rows().map(move |row| part(row).map(Nanos::as_millis_f64));
        table.counts("flow", rows().map(|row| Some(row.flow.into())));
        table.words("layer", rows().map(|row| row.layer));
        table.all_numbers("time_s", rows().map(|row| row.now.as_secs_f64()).collect());
        table.words("event", rows().map(|row| row.event));
        table.counts("bytes", rows().map(|row| row.bytes));
        table.counts("packets", rows().map(|row| row.packets));
        table.numbers("rtt_ms", spans(|row| row.rtt));
        table.numbers("srtt_ms", spans(|row| row.srtt));
        table.numbers("min_rtt_ms", spans(|row| row.min_rtt));
        table.counts("in_flight", rows().map(|row| row.in_flight));
        table.counts("ce_bytes", rows().map(|row| row.ce_bytes));
        table.counts("window", rows().map(|row| Some(row.window)));
        table.numbers("pacing_mbps", rows().map(|row| row.pacing_mbps));
        table.table()
    }
}

/// Reads records that `paceline race --json` or `Records.to_json` wrote; see `paceline.Records.read`.
#[pyfunction]
pub(crate) fn read_records(py: Python<'_>, path: PathBuf) -> PyResult<Records> {
    let file = path.display().to_string();
    let read = py.detach(|| {
        let from = input::open(&path, Bounds::RECORDS)
            .map_err(|error| PyOSError::new_err(format!("{file}: cannot be read ({error}); name a file of records")))?;
        read_json(&file, from).map_err(|problem| PyValueError::new_err(problem.to_string()))
    })?;
    let finished = |record| Finished { run: Run::recorded(record), events: Vec::new() };
    Ok(Records { finished: read.into_iter().map(finished).collect(), failures: Vec::new() })
}

fn text(value: &Value) -> Option<&str> {
    if let Value::Text(text) = value { text.as_deref() } else { None }
}

fn flag(value: &Value) -> Option<bool> {
    if let Value::Flag(flag) = value { *flag } else { None }
}

fn count(value: &Value) -> Option<u64> {
    if let Value::Count(count) = value { *count } else { None }
}

fn number(value: &Value) -> Option<f64> {
    if let Value::Number(number) = value { *number } else { None }
}

/// The end of a point's step, in seconds.
fn time(series: &Series, point: usize) -> f64 {
    (point as f64 + 1.0) * series.step.as_secs_f64()
}
