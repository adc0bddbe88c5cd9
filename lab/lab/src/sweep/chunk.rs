//! A file of results: a row for each run, with its place in the grid, the columns of its record, and why it failed.

use std::fs::File;
use std::io;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::Sweep;
use crate::input::Bounds;
use crate::record::Record;
use crate::record::fields::{Value, columns, columns_of};
use crate::record::parquet::write;

/// What is kept of a run for the table: the numbers of [`super::cells::FIGURES`], then of the stop's metric; or why it failed.
pub(super) type Known = Result<Vec<Option<f64>>, String>;

/// A row, and what is kept of it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) columns: Vec<(String, Value)>,
    pub(super) known: Known,
}

impl Row {
    /// Of a run that was made.
    pub(super) fn new(sweep: &Sweep, index: usize, result: &Result<Record, String>) -> Self {
        let (contestant, cell, run) = sweep.place(index);
        let values = sweep.values(cell);
        let mut row = vec![
            ("point".to_owned(), Value::Count(Some(index as u64))),
            ("cell".to_owned(), Value::Count(Some(cell as u64))),
        ];
        for (axis, value) in sweep.axes.iter().zip(&values) {
            row.push((format!("grid.{}", axis.key), axis.column(*value)));
        }
        let known = match result {
            Ok(record) => {
                let of_record = columns(record);
                let known = sweep.figures().map(|name| number(&of_record, name)).collect();
                row.extend(of_record);
                Ok(known)
            }
            Err(problem) => {
                let name = &sweep.contestants[contestant];
                let (controller, via) = name.split_once('@').unwrap_or((name, ""));
                let seed = sweep.seed_of(&values);
                row.extend(columns_of(&serde_json::json!({
                    "controller": controller, "via": via, "seed": seed, "run": run, "version": sweep.ground.version,
                })));
                Err(problem.clone())
            }
        };
        row.push(("failure".to_owned(), Value::Text(known.as_ref().err().cloned())));
        Self { columns: row, known }
    }
}

fn number(columns: &[(String, Value)], name: &str) -> Option<f64> {
    match &columns.iter().find(|(column, _)| column == name)?.1 {
        Value::Number(number) => *number,
        Value::Count(count) => count.map(|count| count as f64),
        Value::Text(_) => None,
    }
}

/// Writes a chunk whole.
pub(super) fn save(path: &Path, rows: &[Vec<(String, Value)>]) -> Result<(), paceline_files::OutputError> {
    paceline_files::write_regular(path, |draft| write(rows, draft).map_err(io::Error::other))
}

/// Reads a chunk: number and result of each run.
///
/// # Errors
/// When it cannot be read, or is no chunk.
pub(super) fn load(path: &Path, sweep: &Sweep) -> Result<Vec<(usize, Known)>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    Bounds::RECORDS.permit(&file).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let mut results = Vec::new();
    for row in reader.get_row_iter(None).map_err(|error| error.to_string())? {
        let row = row.map_err(|error| error.to_string())?;
        let field = |wanted: &str| row.get_column_iter().find(|(name, _)| *name == wanted).map(|(_, field)| field);
        let Some(Field::Long(index)) = field("point") else { return Err("a row has no point".to_owned()) };
        let index = usize::try_from(*index).map_err(|_| "a point below 0".to_owned())?;
        let known = match field("failure") {
            Some(Field::Str(problem)) => Err(problem.clone()),
            _ => Ok(sweep.figures().map(|name| field(name).and_then(read)).collect()),
        };
        results.push((index, known));
    }
    Ok(results)
}

fn read(field: &Field) -> Option<f64> {
    match field {
        Field::Double(number) => Some(*number),
        Field::Long(count) => Some(*count as f64),
        _ => None,
    }
}
