//! Programs of others in races of this process. What tends their processes is this interpreter, started again with this module alone.

use std::ffi::OsString;

use paceline_emulator::command::{started_with, tree};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// Loads this module from its file, whatever packages and variables are there. What Python ignores by itself programs are not to ignore.
const TEND: &str = "\
import signal, sys
from importlib.util import module_from_spec, spec_from_file_location
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
spec = spec_from_file_location('paceline._paceline', sys.argv[1])
module = module_from_spec(spec)
spec.loader.exec_module(module)
sys.exit(module.tend(sys.argv[2:]))
";

/// Sees to it that programs can run: before the first does.
pub(crate) fn acquire(py: Python<'_>) -> PyResult<()> {
    let executable: Option<OsString> = py.import("sys")?.getattr("executable")?.extract()?;
    let unknown =
        "run_programs: sys.executable does not name this interpreter, which runs programs; set it to its path";
    let executable = executable.filter(|path| !path.is_empty()).ok_or_else(|| PyOSError::new_err(unknown))?;
    let module: OsString = py.import("paceline._paceline")?.getattr("__file__")?.extract()?;
    let options = ["-I", "-S", "-c", TEND].map(OsString::from);
    tree::started_by([executable].into_iter().chain(options).chain([module]).collect());
    Ok(())
}

/// Does what the arguments behind those of [`acquire`] say; the exit status.
#[pyfunction]
pub(crate) fn tend(arguments: Vec<OsString>) -> u8 {
    started_with(arguments.into_iter()).unwrap_or(1)
}
