//! The layout-neutral way to fill a dataset.

use super::filler::{FillerOptions, Written};
use super::progress::Session;
use super::{Dataset, Filler};
use crate::error::Result;
use crate::layout::{Committed, GroupMetadata, RawRecord, RecordWriter, Sink, Source, Token};
use std::sync::{Arc, Mutex, PoisonError};

/// A Sedpack dataset as a [`Sink`]: any number of writers, one commit.
#[derive(Debug)]
pub struct SedpackSink {
    dataset: Dataset,
    options: FillerOptions,
    /// The finished writers' sessions, alive until their shards are committed.
    sessions: Arc<Mutex<Vec<Session>>>,
}

impl SedpackSink {
    pub(super) fn new(dataset: Dataset, options: FillerOptions) -> Self {
        Self { dataset, options, sessions: Arc::default() }
    }
}

impl Sink for SedpackSink {
    fn writer(&self) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(SinkWriter {
            filler: Filler::new(self.dataset.clone(), self.options.clone())?,
            sessions: self.sessions.clone(),
        }))
    }

    fn commit(&self, tokens: Vec<Token>) -> Result<Committed> {
        let mut all = Written {
            sessions: std::mem::take(&mut *self.sessions.lock().unwrap_or_else(PoisonError::into_inner)),
            ..Written::default()
        };
        let mut committed = Committed::default();
        for token in &tokens {
            let written = Written::from_token(token)?;
            for (list, shards) in &written.shards {
                let split = list.components().next().unwrap_or("").to_owned();
                *committed.records.entry(split).or_default() += shards.iter().map(|s| s.examples).sum::<u64>();
            }
            all.shards.extend(written.shards);
        }
        self.dataset.publish(all, self.options.durable)?;
        committed.root = self.dataset.root_digest()?;
        Ok(committed)
    }
}

struct SinkWriter {
    filler: Filler,
    sessions: Arc<Mutex<Vec<Session>>>,
}

impl RecordWriter for SinkWriter {
    fn append(&mut self, split: &str, record: &RawRecord<'_>, group: Option<&GroupMetadata>) -> Result<()> {
        self.filler.append(split, record, group)
    }
    fn finish(mut self: Box<Self>) -> Result<Token> {
        let (mut written, failed) = self.filler.close_all();
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).append(&mut written.sessions);
        failed.map(|()| written.to_token())
    }
}
