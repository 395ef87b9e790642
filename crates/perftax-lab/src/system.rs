//! What the system did meanwhile: time stolen by the hypervisor.

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
}
