//! Where requests run: one private runtime a process, made when it is first needed. Callers wait on channels, never inside a runtime,
//! so that they may be in one of their own.

use crate::error::{Error, Result};
use std::future::Future;
use std::sync::mpsc::{self, Receiver, RecvError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// A value that belongs to one process. A forked child makes its own: threads and connections of its parent are not there, and
/// locks that the parent's threads held are never free again.
#[derive(Debug)]
pub(super) struct PerProcess<T>(OnceLock<Box<Node<T>>>);

#[derive(Debug)]
struct Node<T> {
    process: u32,
    value: OnceLock<T>,
    making: Mutex<()>,
    next: OnceLock<Box<Node<T>>>,
}

impl<T> PerProcess<T> {
    pub(super) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// This process's value, made by `make` when there is none.
    pub(super) fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<&T> {
        let process = std::process::id();
        let new = || Box::new(Node { process, value: OnceLock::new(), making: Mutex::new(()), next: OnceLock::new() });
        // The list grows by a node a generation of forks. What another process left half-made lies in its own node.
        let mut node = self.0.get_or_init(new);
        while node.process != process {
            node = node.next.get_or_init(new);
        }
        if let Some(value) = node.value.get() {
            return Ok(value);
        }
        let _one = node.making.lock().unwrap_or_else(PoisonError::into_inner);
        if node.value.get().is_none() {
            let _ = node.value.set(make()?);
        }
        node.value.get().ok_or_else(|| Error::storage("a value of this process was not made"))
    }
}

/// A request takes at least so much of the memory in flight, so that their number is bounded too.
const LEAST: u64 = 1 << 20;
const UNIT: u64 = 64 << 10;
const IN_FLIGHT: u64 = 128 << 20;

struct Engine {
    // Never dropped: the process ends with it.
    runtime: Runtime,
    in_flight: Arc<Semaphore>,
}

static ENGINE: PerProcess<Engine> = PerProcess::new();

fn engine() -> Result<&'static Engine> {
    ENGINE.get(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(8)
            .thread_name("sigbank-io")
            .enable_all()
            .build()
            .map_err(|e| {
                Error::storage(format!("the threads for requests cannot be started: {e}"))
                    .remedy("allow this process more threads")
            })?;
        Ok(Engine { runtime, in_flight: Arc::new(Semaphore::new((IN_FLIGHT / UNIT) as usize)) })
    })
}

/// Waits until `bytes` more may be in flight in this process; they are until the permit is dropped.
pub(super) async fn in_flight(bytes: u64) -> Result<OwnedSemaphorePermit> {
    let units = u32::try_from(bytes.clamp(LEAST, IN_FLIGHT / 2).div_ceil(UNIT)).unwrap_or(u32::MAX);
    let permits = Arc::clone(&engine()?.in_flight);
    permits.acquire_many_owned(units).await.map_err(|_| Error::storage("the process is ending"))
}

/// Work that goes on in the background; given up when this is dropped.
#[derive(Debug)]
pub(super) struct Started<T> {
    result: Receiver<Result<T>>,
    task: JoinHandle<()>,
    process: u32,
}

impl<T> Started<T> {
    /// Whether this is the process that began it. In another one, a child of it, nothing goes on.
    pub(super) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
    pub(super) fn is_ready(&self) -> bool {
        !self.is_here() || self.task.is_finished()
    }
    pub(super) fn wait(self) -> Result<T> {
        if !self.is_here() {
            return Err(Error::storage("the request was begun before this process was forked").remedy("begin it again here"));
        }
        self.result.recv().unwrap_or_else(|RecvError| Err(ended()))
    }
}

impl<T> Drop for Started<T> {
    fn drop(&mut self) {
        // The runtime of another process may have locks that are never free again.
        if self.is_here() {
            self.task.abort();
        }
    }
}

/// The error of a background task that ended without a word, which only a bug can do.
pub(super) fn ended() -> Error {
    Error::storage("the request was given up inside the process")
}

/// Begins work in the background.
pub(super) fn start<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<Started<T>> {
    let (sender, result) = mpsc::channel();
    let task = engine()?.runtime.spawn(async move {
        let _ = sender.send(work.await);
    });
    Ok(Started { result, task, process: std::process::id() })
}

/// Does work in the background and waits for it.
pub(super) fn wait<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    start(work)?.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_inside_another_runtime_and_given_up_when_dropped() {
        let outer = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(outer.block_on(async { wait(async { Ok(7) }) }).unwrap(), 7);
        let (sender, dropped) = mpsc::channel::<()>();
        let hanging = start(async move {
            let _sender = sender;
            std::future::pending::<Result<()>>().await
        });
        assert!(!hanging.as_ref().unwrap().is_ready());
        drop(hanging);
        assert_eq!(dropped.recv(), Err(RecvError), "the work goes on");
    }

    #[test]
    fn a_value_that_could_not_be_made_is_made_the_next_time() {
        let value = PerProcess::new();
        assert!(value.get(|| Err(Error::storage("no"))).is_err());
        assert_eq!(*value.get(|| Ok(3)).unwrap(), 3);
        assert_eq!(*value.get(|| Ok(4)).unwrap(), 3);
    }

    #[test]
    fn bytes_in_flight_are_bounded() {
        let held = (0..2).map(|_| wait(in_flight(u64::MAX)).unwrap()).collect::<Vec<_>>();
        let third = start(in_flight(1)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!third.is_ready());
        drop(held);
        drop(third.wait().unwrap());
    }
}
