//! Fork-join pool: many short jobs a second, each split into chunks.
//!
//! Workers spin for [`SPIN`] after a job (a fork then costs a fraction of a microsecond), then park; in a pool of more
//! threads than processors they hand theirs on while they spin, to whoever has a chunk. Chunks
//! are claimed one by one from an atomic word, by the caller too. **The caller waits for claimed chunks,
//! never for workers**: a worker the system has not scheduled has claimed nothing and holds nobody up. What a
//! chunk computes must depend on its index only.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker spins for the next job before it parks.
pub const SPIN: Duration = Duration::from_micros(200);

/// The job in progress: a `&F` with `F: Fn(usize) + Sync`, type erased.
struct Job {
    call: unsafe fn(*const (), usize),
    context: *const (),
}

struct Shared {
    /// `chunks << 32 | next`: chunk `next` is free while `next < chunks`.
    word: AtomicU64,
    /// Chunks of the job that are not finished.
    left: AtomicUsize,
    /// Written only while no chunk is claimed or free, read only between claiming a chunk and finishing it.
    job: UnsafeCell<Job>,
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
    parked: AtomicUsize,
    stop: AtomicBool,
    /// More threads than processors.
    crowded: bool,
    sleep: Mutex<()>,
    wake: Condvar,
}

// SAFETY: `job` follows the protocol above (claims and `left` order its accesses); the closure it points to
// is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is never used outside the call to `run` that set it.
unsafe impl Send for Shared {}

/// Ignores poison: the guarded values are valid at every point.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn is_open(word: u64) -> bool {
        (word & 0xffff_ffff) < (word >> 32)
    }

    /// Claims and runs chunks until none is free.
    fn work(&self) {
        let mut word = self.word.load(Acquire);
        while Self::is_open(word) {
            if let Err(now) = self.word.compare_exchange_weak(word, word + 1, AcqRel, Acquire) {
                word = now;
                continue;
            }
            // SAFETY: this thread has claimed a chunk of the job that is current and `left` counts it, so
            // `run` has not returned: the job was written before the word that was just read, and its closure
            // is alive.
            let chunk = AssertUnwindSafe(|| unsafe {
                let job = &*self.job.get();
                (job.call)(job.context, (word & 0xffff_ffff) as usize);
            });
            if let Err(payload) = catch_unwind(chunk) {
                lock(&self.panicked).get_or_insert(payload);
            }
            self.left.fetch_sub(1, Release);
            word = self.word.load(Acquire);
        }
    }

    fn worker(&self) {
        let (mut idle_since, mut spins) = (Instant::now(), 0u32);
        while !self.stop.load(Relaxed) {
            if Self::is_open(self.word.load(Acquire)) {
                self.work();
                (idle_since, spins) = (Instant::now(), 0);
                continue;
            }
            std::hint::spin_loop();
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(256) {
                if idle_since.elapsed() > SPIN {
                    self.park();
                    (idle_since, spins) = (Instant::now(), 0);
                } else if self.crowded {
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Sleeps until a job is open. `parked` is raised before the last look at the word, and `run` writes the
    /// word before it looks at `parked` (both SeqCst), so one of the two sees the other.
    fn park(&self) {
        self.parked.fetch_add(1, SeqCst);
        let mut guard = lock(&self.sleep);
        while !Self::is_open(self.word.load(SeqCst)) && !self.stop.load(SeqCst) {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.parked.fetch_sub(1, SeqCst);
    }

    fn wake_all(&self) {
        if self.parked.load(SeqCst) > 0 {
            let _guard = lock(&self.sleep);
            self.wake.notify_all();
        }
    }
}

/// Threads that run the chunks of one job at a time, the caller among them. Dropping it joins the workers.
pub struct Pool {
    shared: Arc<Shared>,
    /// Held by the thread whose job is running.
    running: Mutex<()>,
    workers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} threads)", self.threads())
    }
}

impl Pool {
    /// A pool of `threads` threads, the caller counted: `threads - 1` workers (0 counts as 1). Threads that
    /// the system refuses are left out.
    pub fn new(threads: usize) -> Pool {
        unsafe fn nothing(_: *const (), _: usize) {}
        let shared = Arc::new(Shared {
            word: AtomicU64::new(0),
            left: AtomicUsize::new(0),
            job: UnsafeCell::new(Job { call: nothing, context: std::ptr::null() }),
            panicked: Mutex::new(None),
            parked: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            crowded: threads > std::thread::available_parallelism().map_or(usize::MAX, usize::from),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
        });
        let spawn = |index| {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("kernel-{index}"));
            builder.spawn(move || shared.worker()).ok()
        };
        let workers = (1..threads).map_while(spawn).collect();
        Pool { shared, running: Mutex::new(()), workers }
    }

    /// Threads that can work on a job, the caller counted.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `f(0)`, ..., `f(chunks - 1)`, each once, in any order and on any thread; returns when all are done.
    /// A panic in a chunk is raised here, after the other chunks if threads share the job. Called from within a
    /// chunk, or while another thread's job runs, it works through the chunks alone.
    pub fn run<F: Fn(usize) + Sync>(&self, chunks: usize, f: F) {
        unsafe fn call<F: Fn(usize)>(context: *const (), chunk: usize) {
            // SAFETY: `run` passes a pointer to its `F`, alive until all chunks are done.
            unsafe { (*context.cast::<F>())(chunk) }
        }
        assert!(u32::try_from(chunks).is_ok(), "pool: {chunks} chunks, at most 2^32 - 1");
        let alone = chunks <= 1 || self.workers.is_empty();
        let guard = match if alone { Err(TryLockError::WouldBlock) } else { self.running.try_lock() } {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poison)) => poison.into_inner(),
            Err(TryLockError::WouldBlock) => {
                (0..chunks).for_each(f);
                return;
            }
        };
        let shared = &*self.shared;
        // SAFETY: `running` is held and the last job is finished, so no chunk is claimed or free: nobody
        // reads `job`.
        unsafe { *shared.job.get() = Job { call: call::<F>, context: (&raw const f).cast() } };
        shared.left.store(chunks, Relaxed);
        shared.word.store((chunks as u64) << 32, SeqCst);
        shared.wake_all();
        shared.work();
        let mut spins = 0u32;
        while shared.left.load(Acquire) > 0 {
            std::hint::spin_loop();
            spins += 1;
            if spins > 2000 {
                std::thread::yield_now();
            }
        }
        let payload = lock(&shared.panicked).take();
        drop(guard);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    /// Splits `out` into pieces of `len` (the last may be shorter) and runs `f(index, piece)` for each, as
    /// [`run`](Pool::run) does.
    pub fn run_chunks<T: Send, F: Fn(usize, &mut [T]) + Sync>(&self, out: &mut [T], len: usize, f: F) {
        let (total, len) = (out.len(), len.max(1));
        let base = Base(out.as_mut_ptr());
        self.run(total.div_ceil(len), |index| {
            let start = index * len;
            // SAFETY: pieces of different indices are disjoint parts of `out`, which is borrowed for the
            // call; each index runs once.
            let piece = unsafe { std::slice::from_raw_parts_mut(base.at(start), len.min(total - start)) };
            f(index, piece);
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.shared.wake_all();
        for worker in self.workers.drain(..) {
            // A worker's panics are caught in `work`.
            let _ = worker.join();
        }
    }
}

/// Start of a buffer whose disjoint parts go to different chunks.
pub(crate) struct Base<T>(pub(crate) *mut T);

// SAFETY: only a way to carry the address; every use states why its part is disjoint.
unsafe impl<T: Send> Sync for Base<T> {}

impl<T> Base<T> {
    /// Address of element `index`.
    ///
    /// # Safety
    /// `index` is within the buffer (or one past it).
    pub(crate) unsafe fn at(&self, index: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(index) }
    }
}

static POOL: RwLock<Option<Arc<Pool>>> = RwLock::new(None);

/// The process-wide pool; [`physical_cores`] threads unless [`set_threads`] chose another number.
pub fn pool() -> Arc<Pool> {
    if let Some(pool) = &*POOL.read().unwrap_or_else(PoisonError::into_inner) {
        return Arc::clone(pool);
    }
    let mut slot = POOL.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(slot.get_or_insert_with(|| Arc::new(Pool::new(physical_cores()))))
}

/// Replaces the process-wide pool by one of `threads` threads (at least 1). Jobs on the old one finish there.
pub fn set_threads(threads: usize) {
    let new = Arc::new(Pool::new(threads));
    let old = POOL.write().unwrap_or_else(PoisonError::into_inner).replace(new);
    drop(old); // joins its workers, outside the lock
}

/// Physical cores this process may use: hyperthreads of a core count once, quotas and affinity are respected.
/// At least 1.
pub fn physical_cores() -> usize {
    let logical = std::thread::available_parallelism().map_or(1, usize::from);
    let mut cores = std::collections::HashSet::new();
    for cpu in 0..4096 {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        match std::fs::read_to_string(path) {
            Ok(siblings) => cores.insert(siblings),
            Err(_) => break,
        };
    }
    if cores.is_empty() { logical } else { logical.min(cores.len()) }
}

#[cfg(test)]
mod tests;
