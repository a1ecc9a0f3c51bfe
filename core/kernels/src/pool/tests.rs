//! Every chunk once, panics, nesting, sleeping workers.

use super::*;

#[test]
fn every_chunk_runs_once_for_any_number_of_threads() {
    for threads in [0, 1, 2, 3, 8] {
        let pool = Pool::new(threads);
        assert_eq!(pool.threads(), threads.max(1));
        for chunks in [0, 1, 2, 7, 1000] {
            let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(chunks, |i| {
                counts[i].fetch_add(1, Relaxed);
            });
            assert!(counts.iter().all(|c| c.load(Relaxed) == 1), "{threads} threads, {chunks} chunks");
        }
    }
}

#[test]
fn pieces_are_disjoint_and_cover_the_buffer() {
    let pool = Pool::new(2);
    for (total, len) in [(0, 3), (1, 3), (10, 3), (12, 3), (5, 100), (5, 0)] {
        let mut out = vec![usize::MAX; total];
        pool.run_chunks(&mut out, len, |index, piece| piece.fill(index));
        let expected: Vec<usize> = (0..total).map(|i| i / len.max(1)).collect();
        assert_eq!(out, expected);
    }
}

#[test]
fn a_panic_reaches_the_caller_after_the_other_chunks_and_the_pool_lives_on() {
    let pool = Pool::new(2);
    for _ in 0..50 {
        let done = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(20, |i| {
                done.fetch_add(1, Relaxed);
                assert!(i != 13, "chunk thirteen");
            });
        }));
        let payload = result.unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"chunk thirteen"));
        assert_eq!(done.load(Relaxed), 20);
        pool.run(3, |_| {});
    }
}

#[test]
fn nested_and_concurrent_jobs_finish() {
    let pool = Pool::new(2);
    let total = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    pool.run(4, |_| {
                        pool.run(3, |_| {
                            total.fetch_add(1, Relaxed);
                        });
                    });
                }
            });
        }
    });
    assert_eq!(total.load(Relaxed), 4 * 100 * 4 * 3);
}

#[test]
fn parked_workers_wake_for_a_job_and_for_the_end() {
    let pool = Pool::new(3);
    for _ in 0..3 {
        std::thread::sleep(SPIN * 10);
        // Two chunks that wait for each other need two threads.
        let barrier = std::sync::Barrier::new(2);
        pool.run(2, |_| {
            barrier.wait();
        });
    }
    std::thread::sleep(SPIN * 10);
    drop(pool);
}

#[test]
fn the_global_pool_can_be_replaced_while_it_is_used() {
    let first = pool();
    set_threads(3);
    assert_eq!(pool().threads(), 3);
    first.run(5, |_| {});
    set_threads(physical_cores());
    assert!(physical_cores() >= 1);
}
