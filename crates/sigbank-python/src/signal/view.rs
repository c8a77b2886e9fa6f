//! A selection of a dataset's records.

use super::dataset::SignalDataset;
use super::errors::{During, raise};
use super::iterate::RecordIterator;
use super::publish::{named, publish_options};
use super::store::SignalStore;
use pyo3::prelude::*;
use sigbank::layout::signal_dataset::View;

/// A selection of a dataset's records.
#[pyclass(frozen, module = "sigbank._native")]
pub struct SignalView {
    dataset: Py<SignalDataset>,
    view: View,
}

impl SignalView {
    pub fn new(dataset: Py<SignalDataset>, view: View) -> Self {
        Self { dataset, view }
    }
}

#[pymethods]
impl SignalView {
    fn __len__(&self) -> usize {
        self.view.ordinals().len()
    }
    fn ordinals(&self) -> Vec<u64> {
        self.view.ordinals().to_vec()
    }
    fn record<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.dataset.get().record_at(py, key, Some(self.view.ordinals()))
    }
    fn records<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let places = super::dataset::indices(keys, self.view.len(), "view")?;
        let ordinals = places.into_iter().filter_map(|n| self.view.ordinal(n).ok()).collect::<Vec<_>>();
        self.dataset.get().records_at(py, &ordinals)
    }
    fn record_metadata<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.dataset.get().metadata_at(py, key, Some(self.view.ordinals()))
    }
    fn iter_records(&self, py: Python<'_>) -> RecordIterator {
        py.detach(|| RecordIterator::records(self.view.batches()))
    }
    fn iter_record_metadata(&self, py: Python<'_>) -> RecordIterator {
        py.detach(|| RecordIterator::metadata(self.view.metadata_batches()))
    }

    #[pyo3(signature = (store, dataset_id, snapshot_id, options=None, publication=None, compat=false))]
    #[allow(clippy::too_many_arguments)]
    fn publish(
        &self,
        py: Python<'_>,
        store: &SignalStore,
        dataset_id: &str,
        snapshot_id: &str,
        options: Option<&Bound<'_, PyAny>>,
        publication: Option<&Bound<'_, PyAny>>,
        compat: bool,
    ) -> PyResult<SignalDataset> {
        let options = store.options(publish_options(options, publication, compat)?);
        let what = named(dataset_id, snapshot_id);
        let published = py.detach(|| self.view.publish(&store.store, &what, &options));
        Ok(SignalDataset::new(published.map_err(|e| raise(e, During::Publish))?, &store.root))
    }

    #[pyo3(signature = (store, dataset_id, snapshot_id, records_per_shard, options=None, compat=false))]
    #[allow(clippy::too_many_arguments)]
    fn materialize(
        &self,
        py: Python<'_>,
        store: &SignalStore,
        dataset_id: &str,
        snapshot_id: &str,
        records_per_shard: u64,
        options: Option<&Bound<'_, PyAny>>,
        compat: bool,
    ) -> PyResult<SignalDataset> {
        let options = store.options(publish_options(options, None, compat)?);
        let what = named(dataset_id, snapshot_id);
        let published = py.detach(|| self.view.materialize(&store.store, &what, records_per_shard, &options));
        Ok(SignalDataset::new(published.map_err(|e| raise(e, During::Publish))?, &store.root))
    }
}
