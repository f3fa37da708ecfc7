//! Reads for tasks that must not block: a thread reads, and a task takes the pieces.

use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use super::{FilePiece, FileReader, ReadOptions};

/// Number of pieces that are read ahead: one while the task processes another, and a spare.
const AHEAD: usize = 2;

/// A [`FileReader`] for tasks of any executor. A task that waits for a piece is woken when the piece is ready.
///
/// The reader runs in its own thread, a few pieces ahead of its caller. After a drop of the `AsyncReader`, the thread
/// ends as soon as its current read returns. The drop does not wait for the thread.
///
/// ```no_run
/// # async fn count(path: &str) -> std::io::Result<usize> {
/// let file = std::fs::File::open(path)?;
/// let mut reader = sleds::AsyncReader::new(file, sleds::ReadOptions::default())?;
/// let mut lines = 0;
/// while let Some(piece) = reader.next_piece().await? {
///     lines += piece.data.iter().filter(|byte| **byte == b'\n').count();
/// }
/// # Ok(lines)
/// # }
/// ```
///
/// A piece borrows the reader, so an `AsyncReader` is not a `Stream`. `futures::stream::unfold(reader, next)` makes a
/// stream from it, with
///
/// ```no_run
/// # async fn of(reader: sleds::AsyncReader) {
/// let next = |mut reader: sleds::AsyncReader| async move {
///     let piece = reader.next_piece().await.transpose()?;
///     let owned = piece.map(|piece| (piece.offset, piece.data.to_vec()));
///     Some((owned, reader))
/// };
/// # let _: Option<(std::io::Result<(u64, Vec<u8>)>, _)> = next(reader).await;
/// # }
/// ```
pub struct AsyncReader {
    shared: Arc<AsyncShared>,
    /// The last piece returned.
    current: OwnedPiece,
}

/// A piece that borrows nothing.
#[derive(Default)]
struct OwnedPiece {
    offset: u64,
    skipped: u64,
    data: Vec<u8>,
}

#[derive(Default)]
struct AsyncShared {
    state: Mutex<AsyncState>,
    /// Signals that `ready` has space for another piece, or that the reader was dropped.
    room: Condvar,
}

/// State shared by the thread and the task.
///
/// Invariant: while `waker` is set, `ready` is empty and `end` is `None`. Code that changes either wakes the waker.
#[derive(Default)]
struct AsyncState {
    ready: VecDeque<OwnedPiece>,
    /// Memory of returned pieces.
    spare: Vec<Vec<u8>>,
    /// End of the pieces: no piece follows those in `ready`. Contains the error until the caller receives it.
    end: Option<io::Result<()>>,
    /// The `AsyncReader` was dropped.
    dropped: bool,
    waker: Option<Waker>,
}

impl AsyncShared {
    fn lock(&self) -> MutexGuard<'_, AsyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for space in `ready`, and appends the piece. Returns false if the `AsyncReader` was dropped.
    fn put(&self, piece: FilePiece<'_>) -> bool {
        let full = |state: &mut AsyncState| state.ready.len() >= AHEAD && !state.dropped;
        let waited = self.room.wait_while(self.lock(), full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.dropped {
            return false;
        }
        let mut data = state.spare.pop().unwrap_or_default();
        drop(state);
        data.clear();
        data.extend_from_slice(piece.data);
        let owned = OwnedPiece {
            offset: piece.offset,
            skipped: piece.skipped,
            data,
        };
        let mut state = self.lock();
        state.ready.push_back(owned);
        wake(state);
        true
    }

    fn end(&self, how: io::Result<()>) {
        let mut state = self.lock();
        state.end.get_or_insert(how);
        wake(state);
    }
}

/// Releases the lock, then wakes a waiting task.
fn wake(mut state: MutexGuard<'_, AsyncState>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Records the end of reading even if the thread panics, so that no task waits forever.
struct FeederGuard(Arc<AsyncShared>);

impl Drop for FeederGuard {
    fn drop(&mut self) {
        self.0
            .end(Err(io::Error::other("the thread that read panicked")));
    }
}

impl AsyncReader {
    /// Makes a reader like [`FileReader::new`]. Errors of the file are returned with the first piece.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(file: File, options: ReadOptions) -> io::Result<AsyncReader> {
        AsyncReader::begin(file, move |file| FileReader::new(file, options))
    }

    /// Makes a reader like [`FileReader::for_first_hit`].
    ///
    /// # Errors
    /// As for [`AsyncReader::new`].
    pub fn for_first_hit(file: File, options: ReadOptions) -> io::Result<AsyncReader> {
        AsyncReader::begin(file, move |file| FileReader::for_first_hit(file, options))
    }

    /// Makes a reader like [`FileReader::before`].
    ///
    /// # Errors
    /// As for [`AsyncReader::new`].
    pub fn before(file: File, limit: u64, options: ReadOptions) -> io::Result<AsyncReader> {
        AsyncReader::begin(file, move |file| FileReader::before(file, limit, options))
    }

    fn begin(
        file: File,
        open: impl FnOnce(&File) -> io::Result<FileReader<'_>> + Send + 'static,
    ) -> io::Result<AsyncReader> {
        let shared = Arc::new(AsyncShared::default());
        let feeder = FeederGuard(Arc::clone(&shared));
        let feed = move || {
            let read = || {
                let mut reader = open(&file)?;
                while let Some(piece) = reader.next_piece()? {
                    if !feeder.0.put(piece) {
                        break;
                    }
                }
                Ok(())
            };
            feeder.0.end(read());
        };
        let thread = thread::Builder::new().name("sleds-async".to_owned());
        thread.spawn(feed)?;
        Ok(AsyncReader {
            shared,
            current: OwnedPiece::default(),
        })
    }

    /// Returns the next piece; `None` after the last. A drop of the future loses no piece.
    ///
    /// # Errors
    /// If the file cannot be read. The next call returns `None`.
    pub async fn next_piece(&mut self) -> io::Result<Option<FilePiece<'_>>> {
        let any = poll_fn(|context| self.poll_next(context)).await?;
        Ok(any.then_some(FilePiece {
            offset: self.current.offset,
            skipped: self.current.skipped,
            data: &self.current.data,
        }))
    }

    /// Makes the next piece the current piece. Returns false at the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut state = self.shared.lock();
        if let Some(next) = state.ready.pop_front() {
            let before = std::mem::replace(&mut self.current, next);
            state.spare.push(before.data);
            drop(state);
            self.shared.room.notify_one();
            return Poll::Ready(Ok(true));
        }
        if let Some(end) = &mut state.end {
            Poll::Ready(std::mem::replace(end, Ok(())).map(|()| false))
        } else {
            state.waker = Some(context.waker().clone());
            Poll::Pending
        }
    }
}

impl Drop for AsyncReader {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.dropped = true;
        state.waker = None;
        drop(state);
        self.shared.room.notify_one();
    }
}
