//! Records as a Parquet file: the columns of the CSV, each optional.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::Record;
use super::fields::{Value, row};

/// Writes one row per run, columns as [`write_csv`](super::write_csv) has them; null where CSV has nothing. No record, no
/// columns.
///
/// # Errors
/// When the writer fails.
pub fn write_parquet<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let rows: Vec<Vec<(String, Value)>> = records.into_iter().map(row).collect();
    write(&rows, out).map_err(io::Error::other)
}

/// Writes rows with the same columns.
pub(crate) fn write(rows: &[Vec<(String, Value)>], out: &mut (dyn Write + Send)) -> Result<(), ParquetError> {
    let groups = (!rows.is_empty()).then_some(rows);
    write_groups(groups.into_iter(), out)
}

/// Writes groups of rows, all with the same columns; no group is empty.
pub(crate) fn write_groups<G: AsRef<[Vec<(String, Value)>]>>(
    groups: impl Iterator<Item = G>,
    out: &mut (dyn Write + Send),
) -> Result<(), ParquetError> {
    let mut groups = groups.peekable();
    let head = |group: &G| group.as_ref().first().cloned().unwrap_or_default();
    let first = groups.peek().map(head).unwrap_or_default();
    let fields = first.iter().map(|(name, value)| field(name, value)).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("record").with_fields(fields).build()?;
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(WriterProperties::new()))?;
    for rows in groups {
        let mut group = file.next_row_group()?;
        for (index, (_, value)) in first.iter().enumerate() {
            let column = rows.as_ref().iter().map(|row| &row[index].1);
            match value {
                Value::Text(_) => put::<ByteArrayType>(&mut group, column.map(text))?,
                Value::Flag(_) => put::<BoolType>(&mut group, column.map(flag))?,
                Value::Count(_) => put::<Int64Type>(&mut group, column.map(count))?,
                Value::Number(_) => put::<DoubleType>(&mut group, column.map(number))?,
            }
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}

fn field(name: &str, value: &Value) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match value {
        Value::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Value::Flag(_) => (Physical::BOOLEAN, None),
        Value::Count(_) => (Physical::INT64, None),
        Value::Number(_) => (Physical::DOUBLE, None),
    };
    let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    Ok(Arc::new(field.with_logical_type(logical).build()?))
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut (dyn Write + Send)>,
    column: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else { return Ok(()) };
    let (mut values, mut there) = (Vec::new(), Vec::new());
    for value in column {
        there.push(i16::from(value.is_some()));
        values.extend(value);
    }
    writer.typed::<T>().write_batch(&values, Some(&there), None)?;
    writer.close()
}

fn text(value: &Value) -> Option<ByteArray> {
    if let Value::Text(Some(text)) = value { Some(ByteArray::from(text.as_str())) } else { None }
}

fn flag(value: &Value) -> Option<bool> {
    if let Value::Flag(flag) = value { *flag } else { None }
}

/// Parquet's own integers have a sign; no count comes near it.
fn count(value: &Value) -> Option<i64> {
    if let Value::Count(Some(count)) = value { Some(i64::try_from(*count).unwrap_or(i64::MAX)) } else { None }
}

fn number(value: &Value) -> Option<f64> {
    if let Value::Number(number) = value { *number } else { None }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use crate::race::{Settings, race};
    use crate::scenario::{Options, Source};

    #[test]
    fn what_is_read_back_is_what_the_csv_has() {
        let text = "name = 'small'\nseconds = 1\nruns = 2\nseed = 9223372036854775807\n\
                    contestants = ['reno@tcp', 'copa@udp']\n\
                    [down]\nrate = '5 Mbit/s'\ndelay = '10ms'\nloss = '0.001..0.01'\n";
        let race = race(&Source::from_text("s.toml", text, Options::default()), &Settings::default()).unwrap();
        let mut marked: Vec<Record> = race.runs.iter().map(|run| run.record.clone()).collect();
        (marked[0].trusted, marked[1].trusted) = (Some(true), Some(false));
        let records: Vec<&Record> = marked.iter().collect();
        let mut file = tempfile::tempfile().unwrap();
        write_parquet(records.iter().copied(), &mut file).unwrap();

        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 4);
        for (row, record) in rows.iter().zip(&records) {
            let expected = super::row(record);
            assert_eq!(row.len(), expected.len());
            for ((name, field), (wanted, value)) in row.get_column_iter().zip(&expected) {
                assert_eq!(name, wanted);
                let found = match field {
                    Field::Null => String::new(),
                    Field::Str(text) => text.clone(),
                    Field::Bool(flag) => flag.to_string(),
                    Field::Long(count) => count.to_string(),
                    Field::Double(number) => number.to_string(),
                    other => panic!("{name}: {other:?}"),
                };
                assert_eq!(found, value.text(), "{name}");
            }
        }
        let field =
            |row: usize, wanted: &str| rows[row].get_column_iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
        assert_eq!(field(0, "seed"), Field::Long(i64::MAX));
        assert_eq!(field(3, "contestant"), Field::Str("copa@udp".to_owned()));
        let trusted: Vec<_> = (0..4).map(|row| field(row, "trusted")).collect();
        assert_eq!(trusted, [Field::Bool(true), Field::Bool(false), Field::Null, Field::Null]);
    }

    #[test]
    fn no_records_are_a_file_too() {
        let mut file = tempfile::tempfile().unwrap();
        write_parquet([], &mut file).unwrap();
        assert_eq!(SerializedFileReader::new(file).unwrap().metadata().file_metadata().num_rows(), 0);
    }
}
