//! Soaks a running server: clients of many kinds at once, for a long time, each of which checks what it gets.
//!
//! `cargo run --release -p mlxcel-server --example soak -- ADDRESS SECONDS [PID [SEED]]`
//!
//! Among them are clients that leave in the middle, close their half, read slowly, send half a request, too much or nonsense,
//! or come two hundred at once. Every answer must be what the same request got alone, without a drafter; every status must be
//! the one that fits; every stream must end with `[DONE]`; and at the end the server must have nothing left to do. With the
//! server's PID its resident memory is printed, and must not grow in the last third of the run. The server needs its default
//! bounds and no key. The exit code is 1 if anything was wrong.
//!
//! `… --example soak -- ADDRESS --requests 10000 [PID]` asks as many short requests, 8 at a time, and prints the resident
//! memory on the way.

mod client;
mod kinds;
mod pool;

use std::{
    env, fs,
    process::ExitCode,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{scope, sleep},
    time::{Duration, Instant},
};

use self::{
    client::{Outcome, get},
    kinds::{CROWD, Client, PATIENT, World},
    pool::{Pool, Random, Tally},
};

/// Clients that draw what they do.
const CLIENTS: usize = 12;
/// Short requests at a time.
const AT_ONCE: usize = 8;
/// How often the memory is looked at.
const LOOK: Duration = Duration::from_secs(30);
/// Time for the server to have nothing left to do.
const DRAIN: Duration = Duration::from_secs(10);
/// By how much the memory may be higher in the last third of a run than in the second.
const GROWTH: f64 = 1.2;

fn main() -> Outcome<ExitCode> {
    const USAGE: &str = "usage: soak ADDRESS (SECONDS | --requests N) [PID [SEED]]";
    let mut arguments: Vec<_> = env::args().skip(1).collect();
    let short = arguments.get(1).is_some_and(|argument| argument == "--requests");
    if short {
        arguments.remove(1);
    }
    let [address, count, rest @ ..] = arguments.as_slice() else { return Err(USAGE.into()) };
    let count: usize = count.parse().map_err(|_| USAGE)?;
    let pid = rest.first().map(|pid| pid.parse()).transpose()?;
    let seed = rest.get(1).map_or(Ok(1), |seed| seed.parse())?;

    let mut random = Random(seed);
    let pool = if short { Pool::short() } else { Pool::mixed(&mut random) };
    let world = World { address: address.clone(), pool };
    world.pool.learn(address)?;
    let tally = Tally::default();
    show(Instant::now(), pid, &tally);
    if short {
        many_short(&world, count, pid, &tally, &mut random);
    } else {
        let memory = mixed_load(&world, Duration::from_secs(count as u64), pid, &tally, &mut random);
        tally.add("memory", steady(&memory));
    }
    tally.add("the end", drained(address));
    tally.print();
    Ok(if tally.violations() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All kinds of clients until the time is over. Returns the resident memory on the way.
fn mixed_load(
    world: &World,
    time: Duration,
    pid: Option<u32>,
    tally: &Tally,
    random: &mut Random,
) -> Vec<u64> {
    let start = Instant::now();
    let weight = CROWD.iter().map(|(_, weight, _)| weight).sum();
    let mut memory = Vec::new();
    scope(|scope| {
        for _ in 0..CLIENTS {
            let mut random = random.fork();
            scope.spawn(move || {
                while start.elapsed() < time {
                    let (kind, client) = of_crowd(random.below(weight));
                    act(kind, client, world, tally, &mut random);
                }
            });
        }
        for (kind, client) in PATIENT {
            let mut random = random.fork();
            scope.spawn(move || {
                while start.elapsed() < time {
                    act(kind, client, world, tally, &mut random);
                }
            });
        }
        while start.elapsed() < time {
            sleep(LOOK.min(time.saturating_sub(start.elapsed())));
            memory.extend(show(start, pid, tally));
        }
    });
    memory
}

/// Lets a client do one thing. One that is told to come again waits as long as it is told.
fn act(kind: &'static str, client: Client, world: &World, tally: &Tally, random: &mut Random) {
    let outcome = client(world, random);
    let busy = matches!(outcome, Ok("429"));
    tally.add(kind, outcome);
    if busy {
        sleep(Duration::from_secs(1));
    }
}

/// The client of the crowd that a number below the sum of all weights falls to.
fn of_crowd(mut number: usize) -> (&'static str, Client) {
    for (kind, weight, client) in CROWD {
        match number.checked_sub(weight) {
            Some(rest) => number = rest,
            None => return (kind, client),
        }
    }
    unreachable!("the number is below the sum")
}

fn many_short(world: &World, count: usize, pid: Option<u32>, tally: &Tally, random: &mut Random) {
    let (start, asked) = (Instant::now(), AtomicUsize::new(0));
    scope(|scope| {
        for _ in 0..AT_ONCE {
            let (mut random, asked) = (random.fork(), &asked);
            scope.spawn(move || {
                loop {
                    let number = asked.fetch_add(1, Ordering::Relaxed) + 1;
                    if number > count {
                        break;
                    }
                    tally.add("short", kinds::whole(world, &mut random));
                    if [count / 10, count / 5, count / 2, count].contains(&number) {
                        show(start, pid, tally);
                    }
                }
            });
        }
    });
}

/// Prints how far the run is. Returns the server's resident memory in KiB, if its PID is known.
fn show(start: Instant, pid: Option<u32>, tally: &Tally) -> Option<u64> {
    let (seconds, done, wrong) = (start.elapsed().as_secs_f64(), tally.all(), tally.violations());
    let memory = pid.and_then(resident);
    let files = pid.and_then(|pid| Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count()));
    let told = memory
        .zip(files)
        .map(|(memory, files)| format!(", {:.1} MiB resident, {files} open files", memory as f64 / 1024.0));
    println!("{seconds:7.1} s: {done} done, {wrong} violations{}", told.unwrap_or_default());
    memory
}

/// Resident memory in KiB.
fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Whether memory is as high in the last third as in the second; in the first the server still warms up.
fn steady(memory: &[u64]) -> Outcome<&'static str> {
    let third = memory.len() / 3;
    let highest = |of: &[u64]| of.iter().copied().max().unwrap_or(0);
    let (before, last) =
        (highest(&memory[third..memory.len() - third]), highest(&memory[memory.len() - third..]));
    if third < 3 {
        return Ok("too few figures to tell");
    }
    if last as f64 > before as f64 * GROWTH {
        return Err(format!("it grew from {before} to {last} KiB").into());
    }
    Ok("steady")
}

/// Waits until the server has nothing left to do.
fn drained(address: &str) -> Outcome<&'static str> {
    let start = Instant::now();
    loop {
        let metrics = get(address, "/metrics")?;
        let names = ["num_requests_running", "num_requests_waiting", "state_bytes"];
        let left: Vec<_> = names
            .iter()
            .filter_map(|name| metrics.lines().find(|line| line.starts_with(&format!("mlxcel:{name} "))))
            .collect();
        if left.len() == names.len() && left.iter().all(|line| line.ends_with(" 0")) {
            println!("nothing was left to do after {:.2} s", start.elapsed().as_secs_f64());
            return Ok("nothing left to do");
        }
        if start.elapsed() > DRAIN {
            return Err(format!("still there after {} s: {left:?}", DRAIN.as_secs()).into());
        }
        sleep(Duration::from_millis(10));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
