//! Who a process is, for whoever looks for what it has written.

use std::path::PathBuf;

use super::file_of;

/// Who a process is.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Its number as it knows it: in the innermost of its PID namespaces.
    pub own_number: u32,
    /// Its user, by whom what it creates is owned.
    pub user: u32,
    /// When it began, s since 1970, to 10 ms.
    pub began_s: f64,
    /// It sees the file systems that we see.
    pub shares_our_files: bool,
}

impl Standing {
    /// Of a process; none where it is gone.
    pub fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(file_of(pid, "status")).ok()?;
        let stat = std::fs::read_to_string(file_of(pid, "stat")).ok()?;
        let (own_number, user) = numbers(&status)?;
        let boot = std::fs::read_to_string("/proc/stat").ok()?;
        let began_s = booted_s(&boot)? + started_ticks(&stat)? / rustix::param::clock_ticks_per_second() as f64;
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        // Who may not be asked is taken to see what we see.
        let shares_our_files = namespace(&pid.to_string()).is_none_or(|its| namespace("self").is_none_or(|own| own == its));
        Some(Self { own_number, user, began_s, shares_our_files })
    }

    /// The process that started it, or has it since that one ended; none where it is gone, or the first.
    pub fn parent(pid: u32) -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        field(&stat, 4)?.parse().ok().filter(|parent| *parent != 0)
    }

    /// Where its runtime writes what the code is called that it makes, in its own file systems (`/tmp/perf-PID.map`).
    pub fn perf_map(&self) -> PathBuf {
        format!("/tmp/perf-{}.map", self.own_number).into()
    }
}

/// A thread's number as it knows it; none where it is gone.
pub fn own_number(pid: u32, tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    Some(numbers(&status)?.0)
}

/// Its number in the innermost namespace (since Linux 4.1), and its effective user (proc(5), `/proc/PID/status`).
fn numbers(status: &str) -> Option<(u32, u32)> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let own_number = field("NSpid:").or_else(|| field("Pid:"))?.split_whitespace().next_back()?;
    let user = field("Uid:")?.split_whitespace().nth(1)?;
    Some((own_number.parse().ok()?, user.parse().ok()?))
}

/// When it was started, in ticks since the machine was.
fn started_ticks(stat: &str) -> Option<f64> {
    field(stat, 22)?.parse().ok()
}

/// A field of `/proc/PID/stat` by its number from 3 on (proc(5)); the name before, which is the second, may hold anything.
pub(super) fn field(stat: &str, number: usize) -> Option<&str> {
    stat.rsplit_once(") ")?.1.split_whitespace().nth(number - 3)
}

fn booted_s(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn this_process_knows_who_it_is() {
        let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let standing = Standing::of(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((standing.own_number, standing.user), (child.id(), rustix::process::geteuid().as_raw()));
        assert!((standing.began_s - began).abs() < 5.0 && standing.shares_our_files, "{standing:?} {began}");
        assert_eq!(standing.perf_map(), PathBuf::from(format!("/tmp/perf-{}.map", child.id())));
        assert_eq!(Standing::of(u32::MAX - 1), None);
        let own = std::process::id();
        assert_eq!((own_number(own, own), own_number(own, 1)), (Some(own), None));
    }

    #[test]
    fn in_namespaces_the_last_number_is_its_own() {
        let status = "Name:\tjava\nPid:\t4711\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t4711\t27\t1\n";
        assert_eq!(numbers(status), Some((1, 1001)));
        assert_eq!(numbers("Pid:\t9\nUid:\t0\t0\t0\t0\n"), Some((9, 0)));
        let stat = "12 (a) b) S 1 12 12 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 4321 100";
        assert_eq!(started_ticks(stat), Some(4321.0));
    }
}
