//! What a copy of a JBOF data set has that the source has not.

use super::each::each;
use super::{CopyOptions, stopped};
use crate::error::{Error, Result};
use crate::layout::{Contents, Layout, jbof};
use crate::store::Store;
use crate::uri::RelPath;
use std::collections::BTreeSet;

/// What is deleted at the destination, and what is not.
#[derive(Debug, Default)]
pub(super) struct Surplus {
    /// Documents before what they name.
    pub(super) removes: Vec<RelPath>,
    pub(super) kept: Vec<RelPath>,
    /// Items of which a killed run may have left something.
    deleting: BTreeSet<String>,
}

/// Finds it. Where nothing is brought forward, there may be nothing.
pub(super) fn surplus(contents: &Contents, to: &dyn Store, options: &CopyOptions) -> Result<Surplus> {
    if contents.layout != Layout::Jbof {
        return match options.delete {
            true => Err(Error::unsupported("only copies of JBOF data sets are rid of what the source has not")
                .at(to.location())
                .remedy("leave --delete out: what nothing names any more is deleted by sigbank gc")),
            false => Ok(Surplus::default()),
        };
    }
    let jbof::Beyond { gone, stale, deleting } = jbof::beyond(contents, to)?;
    if let (false, Some(path)) = (options.update, gone.iter().chain(&stale).next()) {
        return Err(Error::conflict(format!("it has '{path}', which the source has not"))
            .at(to.location())
            .remedy("if it is what is left of an older copy: sigbank sync, with --delete; else choose another place"));
    }
    let (mut removes, kept) = if options.delete { (gone, Vec::new()) } else { (Vec::new(), gone) };
    removes.extend(stale);
    removes.sort_by_key(jbof::rank);
    Ok(Surplus { removes, kept, deleting })
}

impl Surplus {
    /// Deletes what is to be deleted, so that no document is seen that names a missing file.
    pub(super) fn delete(&self, to: &dyn Store, jobs: usize, tell: &mut dyn FnMut() -> bool) -> Result<()> {
        if self.removes.is_empty() && self.deleting.is_empty() {
            return Ok(());
        }
        jbof::begin_deletes(to, &self.removes, &self.deleting)?;
        for group in self.removes.chunk_by(|a, b| jbof::rank(a) == jbof::rank(b)) {
            each(group, jobs, |path: &RelPath| to.delete(path), &mut |()| tell())?;
        }
        if !tell() {
            return Err(stopped());
        }
        jbof::end_deletes(to, &self.removes, &self.deleting)
    }
}
