//! What the system did meanwhile: time stolen by the hypervisor, performance interrupts.

use perftax_doc::Warning;
use perftax_pmu::{Error, Result};

/// Nanoseconds stolen from one CPU (or all together) since boot, from /proc/stat, in ticks of 10 ms.
pub fn steal_ns(cpu: Option<u32>) -> Result<u64> {
    let path = "/proc/stat";
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    Ok(steal_in(&text, cpu).unwrap_or(0))
}

/// USER_HZ: the unit of /proc/stat on Linux, fixed at 100 a second for user space (proc(5)).
const TICK_NS: u64 = 10_000_000;

/// The eighth number of a `cpu` line.
fn steal_in(stat: &str, cpu: Option<u32>) -> Option<u64> {
    let name = cpu.map_or_else(|| "cpu".to_string(), |n| format!("cpu{n}"));
    let line = stat.lines().find(|line| line.split_ascii_whitespace().next() == Some(&name))?;
    line.split_ascii_whitespace().nth(8)?.parse::<u64>().ok().map(|ticks| ticks * TICK_NS)
}

/// Performance monitoring interrupts of one CPU since boot, from /proc/interrupts; always 0 where that does not tell.
pub fn performance_interrupts(cpu: u32) -> Result<u64> {
    let path = "/proc/interrupts";
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    Ok(interrupts_in(&text, cpu).unwrap_or(0))
}

/// The number in the line `PMI:` under the CPU's heading: CPUs that are offline have no column.
fn interrupts_in(interrupts: &str, cpu: u32) -> Option<u64> {
    let heading = format!("CPU{cpu}");
    let column = interrupts.lines().next()?.split_ascii_whitespace().position(|word| word == heading)?;
    let line = interrupts.lines().find_map(|line| line.trim_start().strip_prefix("PMI:"))?;
    line.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// What to say where a hypervisor hid hits of this process's own breakpoints.
pub fn hidden_hits() -> Option<Warning> {
    let traps = perftax_pmu::sys::stray_traps();
    (traps > 0).then_some(Warning::StrayTraps { traps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_steal_column() {
        let stat =
            "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 30 9 10\ncpu1 1 2 3 4 5 6 7 50 9 10\ncpu10 0 0 0 0 0 0 0 7 0 0\n";
        assert_eq!(steal_in(stat, None), Some(800_000_000));
        assert_eq!(steal_in(stat, Some(1)), Some(500_000_000));
        assert_eq!(steal_in(stat, Some(10)), Some(70_000_000));
        assert_eq!(steal_in(stat, Some(2)), None);
    }

    #[test]
    fn reads_the_column_of_the_cpu() {
        let interrupts =
            "           CPU0       CPU3\n  0:   9   8  IO-APIC  timer\nPMI:   120   7   Performance monitoring interrupts\n";
        assert_eq!(interrupts_in(interrupts, 0), Some(120));
        assert_eq!(interrupts_in(interrupts, 3), Some(7));
        assert_eq!(interrupts_in(interrupts, 1), None);
    }
}
