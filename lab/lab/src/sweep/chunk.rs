//! A file of results: a row for each run, with its place in the grid, the columns of its record, and why it failed.

use std::fs::File;
use std::io;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as ParquetRow};

use super::{PointFailure, Sweep};
use crate::input::Bounds;
use crate::record::Record;
use crate::record::fields::{Value, columns, columns_of};
use crate::record::parquet::write;

/// What is kept of a run for the table: the numbers of [`super::cells::FIGURES`], then of the stop's metric; or why it failed.
pub(super) type Known = Result<Vec<Option<f64>>, PointFailure>;

/// Why a file is not a chunk of results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not Parquet.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// The number of a run is missing.
    #[error("a row has no point")]
    NoPoint,
    /// The number of a run is not one.
    #[error("a row has the point {0}, below 0")]
    Negative(i64),
}

/// The columns of a run.
pub(super) type Row = Vec<(String, Value)>;

/// What is kept of a run.
pub(super) fn known(sweep: &Sweep, result: &Result<Record, PointFailure>) -> Known {
    let record = columns(result.as_ref().map_err(Clone::clone)?);
    Ok(sweep.figures().map(|name| number(&record, name)).collect())
}

/// The row of a run that was made.
pub(super) fn row(sweep: &Sweep, index: usize, result: &Result<Record, PointFailure>) -> Row {
    let (contestant, cell, run) = sweep.place(index);
    let values = sweep.values(cell);
    let mut row = vec![
        ("point".to_owned(), Value::Count(Some(index as u64))),
        ("cell".to_owned(), Value::Count(Some(cell as u64))),
    ];
    for (axis, value) in sweep.axes.iter().zip(&values) {
        row.push((format!("grid.{}", axis.key), axis.column(*value)));
        row.extend(axis.measured(*value).map(|(name, number)| (format!("grid.{name}"), number)));
    }
    match result {
        Ok(record) => row.extend(columns(record)),
        Err(_) => {
            let name = &sweep.contestants[contestant];
            let (controller, via) = name.split_once('@').unwrap_or((name, ""));
            row.extend(columns_of(&serde_json::json!({
                "controller": controller, "via": via, "seed": sweep.seed_of(&values), "run": run,
                "version": sweep.ground.version, "commit": sweep.ground.commit,
            })));
        }
    }
    row.push(("failure".to_owned(), Value::Text(result.as_ref().err().map(ToString::to_string))));
    row
}

fn number(columns: &[(String, Value)], name: &str) -> Option<f64> {
    match &columns.iter().find(|(column, _)| column == name)?.1 {
        Value::Number(number) => *number,
        Value::Count(count) => count.map(|count| count as f64),
        Value::Text(_) | Value::Flag(_) => None,
    }
}

/// Writes a chunk whole.
pub(super) fn save(path: &Path, rows: &[Row]) -> Result<(), paceline_files::OutputError> {
    paceline_files::write_regular(path, |draft| write(rows, draft).map_err(io::Error::other))
}

/// Reads a chunk: number and result of each run.
///
/// # Errors
/// When it cannot be read, or is not a chunk.
pub(super) fn load(path: &Path, sweep: &Sweep) -> Result<Vec<(usize, Known)>, ChunkError> {
    let known = |row: &ParquetRow| match field(row, "failure") {
        Some(Field::Str(problem)) => Err(PointFailure::new(problem)),
        _ => Ok(sweep.figures().map(|name| field(row, name).and_then(read)).collect()),
    };
    each(path, known)
}

/// The same with all columns.
///
/// # Errors
/// As [`load`].
pub(super) fn rows(path: &Path, sweep: &Sweep) -> Result<Vec<(usize, Row)>, ChunkError> {
    // Every row has the same columns, each of one kind.
    let kinds = row(sweep, 0, &Err(PointFailure::new("")));
    each(path, |row| kinds.iter().map(|(name, kind)| (name.clone(), value(kind, field(row, name)))).collect())
}

fn each<T>(path: &Path, of: impl Fn(&ParquetRow) -> T) -> Result<Vec<(usize, T)>, ChunkError> {
    let file = File::open(path)?;
    Bounds::RECORDS.permit(&file)?;
    let reader = SerializedFileReader::new(file)?;
    let mut results = Vec::new();
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let Some(Field::Long(index)) = field(&row, "point") else { return Err(ChunkError::NoPoint) };
        let index = usize::try_from(*index).map_err(|_| ChunkError::Negative(*index))?;
        results.push((index, of(&row)));
    }
    Ok(results)
}

fn field<'a>(row: &'a ParquetRow, wanted: &str) -> Option<&'a Field> {
    row.get_column_iter().find(|(name, _)| *name == wanted).map(|(_, field)| field)
}

/// As a column of this kind has it.
fn value(kind: &Value, field: Option<&Field>) -> Value {
    match kind {
        Value::Text(_) => Value::Text(if let Some(Field::Str(text)) = field { Some(text.clone()) } else { None }),
        Value::Flag(_) => Value::Flag(if let Some(Field::Bool(flag)) = field { Some(*flag) } else { None }),
        Value::Count(_) => Value::Count(match field {
            Some(Field::Long(count)) => u64::try_from(*count).ok(),
            _ => None,
        }),
        Value::Number(_) => Value::Number(field.and_then(read)),
    }
}

fn read(field: &Field) -> Option<f64> {
    match field {
        Field::Double(number) => Some(*number),
        Field::Long(count) => Some(*count as f64),
        _ => None,
    }
}
