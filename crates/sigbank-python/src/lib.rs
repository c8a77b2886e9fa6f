//! The native module of the Python package: take arguments, release the GIL, call the core, wrap the result.

mod arguments;
mod convert;
mod dataset;
mod errors;
mod give;
mod iterate;
mod jbof;
mod progress;
mod query;
mod sedpack;
mod signal;
mod tools;
mod values;
mod windows;

use pyo3::prelude::*;

/// Runs the command line with these arguments and gives its exit code.
#[pyfunction]
fn cli_main(py: Python<'_>, argv: Vec<std::ffi::OsString>) -> i32 {
    py.detach(|| sigbank_cli::run(argv))
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<dataset::Dataset>()?;
    m.add_class::<dataset::Field>()?;
    m.add_class::<sedpack::SedpackDataset>()?;
    m.add_class::<sedpack::Filler>()?;
    m.add_class::<iterate::ExampleIterator>()?;
    m.add_class::<iterate::BatchIterator>()?;
    m.add_class::<convert::Buffer>()?;
    m.add_function(wrap_pyfunction!(cli_main, m)?)?;
    m.add_function(wrap_pyfunction!(dataset::open, m)?)?;
    m.add_function(wrap_pyfunction!(tools::compress, m)?)?;
    m.add_function(wrap_pyfunction!(tools::decompress, m)?)?;
    m.add_function(wrap_pyfunction!(tools::checksum, m)?)?;
    m.add_function(wrap_pyfunction!(tools::checksum_file, m)?)?;
    m.add_function(wrap_pyfunction!(tools::bench_decode, m)?)?;
    m.add_class::<query::MetadataTable>()?;
    m.add_function(wrap_pyfunction!(query::check_expression, m)?)?;
    m.add_function(wrap_pyfunction!(query::reopened, m)?)?;
    m.add_function(wrap_pyfunction!(query::made_again, m)?)?;
    jbof::register(m)?;
    signal::register(m)
}
