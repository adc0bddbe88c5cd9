//! Tables in Arrow's memory, which other libraries read without a copy: the Arrow PyCapsule interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyType};

use crate::conduct::mistake;

/// A table of columns, each of texts, truths, whole numbers or numbers.
#[pyclass(frozen, module = "paceline._paceline")]
pub(crate) struct Table {
    batch: RecordBatch,
}

/// A table in the making.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn add(&mut self, name: &str, array: ArrayRef) {
        self.fields.push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
    }

    /// A column of texts.
    pub(crate) fn texts<T: AsRef<str>>(&mut self, name: &str, values: impl IntoIterator<Item = Option<T>>) {
        self.add(name, Arc::new(values.into_iter().collect::<StringArray>()));
    }

    /// A column of texts of which there are few: a number for each, and the texts once.
    pub(crate) fn words<T: AsRef<str>>(&mut self, name: &str, values: impl IntoIterator<Item = T>) {
        let mut builder = StringDictionaryBuilder::<Int32Type>::new();
        values.into_iter().for_each(|value| builder.append_value(value));
        self.add(name, Arc::new(builder.finish()));
    }

    /// A column of whole numbers.
    pub(crate) fn counts(&mut self, name: &str, values: impl IntoIterator<Item = Option<u64>>) {
        // Arrow's readers and Parquet like a sign; no count comes near it.
        let values = values.into_iter().map(|count| count.map(|count| i64::try_from(count).unwrap_or(i64::MAX)));
        self.add(name, Arc::new(values.collect::<Int64Array>()));
    }

    /// A column of what holds or does not.
    pub(crate) fn flags(&mut self, name: &str, values: impl IntoIterator<Item = Option<bool>>) {
        self.add(name, Arc::new(values.into_iter().collect::<BooleanArray>()));
    }

    /// A column of numbers.
    pub(crate) fn numbers(&mut self, name: &str, values: impl IntoIterator<Item = Option<f64>>) {
        self.add(name, Arc::new(values.into_iter().collect::<Float64Array>()));
    }

    /// A column of numbers that are all there.
    pub(crate) fn all_numbers(&mut self, name: &str, values: Vec<f64>) {
        self.add(name, Arc::new(Float64Array::from(values)));
    }

    /// The table.
    pub(crate) fn table(self) -> PyResult<Table> {
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(schema, self.arrays).map_err(|error| mistake(&error.to_string()))?;
        Ok(Table { batch })
    }
}

/// A column that is to be pickled: its name, its kind, its values.
type Pickled<'py> = (String, &'static str, Bound<'py, PyList>);

/// What a kind of column is called where tables are pickled.
fn kind(of: &DataType) -> &'static str {
    match of {
        DataType::Float64 => "number",
        DataType::Int64 => "count",
        DataType::Boolean => "flag",
        DataType::Utf8 => "text",
        _ => "word",
    }
}

#[pymethods]
impl Table {
    /// Of columns with their names and kinds: how a table comes out of a pickle.
    #[new]
    fn new(columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let mut table = Columns::default();
        for (name, kind, values) in columns {
            match kind.as_str() {
                "number" => table.numbers(&name, values.extract::<Vec<Option<f64>>>()?),
                "count" => table.counts(&name, values.extract::<Vec<Option<u64>>>()?),
                "flag" => table.flags(&name, values.extract::<Vec<Option<bool>>>()?),
                "text" => table.texts(&name, values.extract::<Vec<Option<String>>>()?),
                "word" => table.words(&name, values.extract::<Vec<String>>()?),
                other => return Err(PyValueError::new_err(format!("a column of kind '{other}' cannot be"))),
            }
        }
        table.table()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, (Vec<Pickled<'py>>,))> {
        let (py, table) = (slf.py(), slf.get());
        let column =
            |field: &Arc<Field>| Ok((field.name().clone(), kind(field.data_type()), table.column(py, field.name())?));
        let columns = table.batch.schema_ref().fields().iter().map(column).collect::<PyResult<_>>()?;
        Ok((slf.get_type(), (columns,)))
    }

    /// The columns' names.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// How many rows.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// A column as a list of Python's.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let Some(array) = self.batch.column_by_name(name) else {
            let names = self.column_names().join(", ");
            return Err(PyKeyError::new_err(format!("there is no column '{name}'; there are {names}")));
        };
        match array.data_type() {
            DataType::Float64 => PyList::new(py, array.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()),
            DataType::Int64 => PyList::new(py, array.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()),
            DataType::Boolean => PyList::new(py, array.as_boolean().iter().collect::<Vec<_>>()),
            DataType::Utf8 => PyList::new(py, array.as_string::<i32>().iter().collect::<Vec<_>>()),
            _ => {
                let words = array.as_dictionary::<Int32Type>();
                let texts = words.values().as_string::<i32>();
                let text = |key: usize| texts.value(key);
                PyList::new(py, words.keys_iter().map(|key| key.map(text)).collect::<Vec<_>>())
            }
        }
    }

    /// The table as a stream of Arrow's C interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may give its own schema where it cannot give another.
        let _ = requested_schema;
        let batches = [Ok::<_, ArrowError>(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }
}
