//! The machine and the program.

use std::{env::consts, fs, process::Command, thread};

use mlxcel_core::{
    exactness::{Device, key::mlx_version},
    nn::{Executor, isa, threads},
};

use super::check::Checks;

pub(super) fn check(checks: &mut Checks) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let processor = Device::current(Executor::Cpu).name;
    let memory =
        memory().map(|bytes| format!(", {:.1} GB of memory", bytes as f64 / 1e9)).unwrap_or_default();
    checks.note("machine", format!("{processor}, {cores} cores{memory}, {} {}", consts::OS, consts::ARCH));
    let build = if cfg!(debug_assertions) { "debug build" } else { "release build" };
    checks.note("program", format!("mlxcel {}, {build}, MLX {}", env!("CARGO_PKG_VERSION"), mlx_version()));
}

/// The executor, in words.
pub(super) fn executor(executor: Executor) -> String {
    match executor {
        Executor::Cpu => format!("cpu: row-exact kernels, {}, {} threads", isa(), threads()),
        Executor::Mlx(_) => {
            let Device { name, driver } = Device::current(executor);
            format!("{}: MLX's operators on {name}, driver {driver}", executor.name())
        }
    }
}

/// Bytes of memory.
fn memory() -> Option<u64> {
    if cfg!(target_vendor = "apple") {
        let output = Command::new("sysctl").args(["-n", "hw.memsize"]).output().ok()?;
        return String::from_utf8(output.stdout).ok()?.trim().parse().ok();
    }
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
