//! Long calls that tell how far they are.

use crate::errors::raise;
use pyo3::prelude::*;

/// Runs a long call without the GIL that tells its progress to a Python callable, which may raise; Ctrl-C ends it.
pub fn with_progress<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    run: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> sigbank::Result<T> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let done = py.detach(|| {
        run(&mut |done, total| {
            Python::attach(|py| {
                let told = py.check_signals().and_then(|()| match &progress {
                    Some(callable) => callable.call1(py, (done, total)).map(|_| ()),
                    None => Ok(()),
                });
                told.map_err(|e| raised = Some(e)).is_ok()
            })
        })
    });
    match raised {
        Some(e) => Err(e),
        None => done.map_err(raise),
    }
}
