//! Where threads may run. Measuring threads pin themselves and end, so there is nothing to put back.

use perftax_doc::steps::Setting;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Error, Result};

/// All CPUs that are online, whatever this process may use, ascending.
///
/// # Errors
/// Where sysfs does not say.
pub fn online_cpus() -> Result<Vec<u32>> {
    let path = std::path::Path::new("/sys/devices/system/cpu/online");
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    Ok(crate::machine::cpu_list(text.trim()))
}

/// The CPUs that this process may run on, ascending.
pub fn allowed_cpus() -> Result<Vec<u32>> {
    let set = sched_getaffinity(None).map_err(|e| Error::System { call: "sched_getaffinity".into(), source: e.into() })?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// Pins the calling thread to one CPU for the rest of its life.
pub fn pin_this_thread(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU || !allowed_cpus()?.contains(&cpu) {
        return Err(Error::Argument {
            argument: Setting::Cpu.name(),
            value: cpu.to_string(),
            needed: format!("one of the allowed CPUs {:?}", allowed_cpus()?),
        });
    }
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(|e| Error::System { call: format!("sched_setaffinity to CPU {cpu}"), source: e.into() })
}
