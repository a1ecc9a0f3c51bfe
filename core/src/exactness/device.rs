//! The device that a model runs on, as far as its results may depend on it.

use std::{fs, process::Command};

use mlx_rs::{Device as MlxDevice, DeviceType};

use crate::nn::Executor;

/// A device and its driver, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// What it is called: a processor's or a GPU's model.
    pub name: String,
    /// Version of its driver; on macOS that of the system, which brings it. `none` for a processor on Linux.
    pub driver: String,
}

impl Device {
    /// The device of a model on `executor`.
    pub fn current(executor: Executor) -> Self {
        let gpu = matches!(executor, Executor::Mlx(_))
            && MlxDevice::try_default().and_then(|device| device.get_type()).is_ok_and(is_gpu);
        if cfg!(target_vendor = "apple") {
            let name = said("sysctl", &["-n", "machdep.cpu.brand_string"]);
            let kind = if gpu { "GPU of " } else { "" };
            return Self { name: format!("{kind}{name}"), driver: said("sw_vers", &["-productVersion"]) };
        }
        if gpu { nvidia() } else { Self { name: processor(), driver: "none".to_owned() } }
    }
}

fn is_gpu(kind: DeviceType) -> bool {
    matches!(kind, DeviceType::Gpu)
}

/// What a program of the system says, in a line.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| unknown(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The processor, as Linux names it.
pub(crate) fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    field(&cpuinfo, "model name").unwrap_or_else(unknown)
}

/// The first GPU and the driver, as the driver's own files name them.
fn nvidia() -> Device {
    let folders = fs::read_dir("/proc/driver/nvidia/gpus").into_iter().flatten().flatten();
    let mut names: Vec<_> = folders
        .filter_map(|folder| fs::read_to_string(folder.path().join("information")).ok())
        .filter_map(|text| field(&text, "Model"))
        .collect();
    names.sort();
    let version = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let driver = version.lines().next().map_or_else(unknown, |line| line.trim().to_owned());
    Device { name: names.first().cloned().unwrap_or_else(unknown), driver }
}

/// The value of the first line `label : value`.
fn field(text: &str, label: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == label).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_label() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2.0 GHz\nmodel name\t: Another\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2.0 GHz".to_owned()));
        assert_eq!(field(text, "model"), None);
    }
}
