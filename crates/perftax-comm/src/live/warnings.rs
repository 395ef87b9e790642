//! What weakens a result, whichever lines were looked for.

use perftax_doc::Warning;

/// A warning, and what to do about it.
pub fn warning(message: String, remedy: impl Into<String>) -> Warning {
    Warning::Other { message, remedy: remedy.into() }
}

/// The kernel held traps or samples back; `otherwise` is what helps where its limit cannot be raised.
pub fn throttled(times: u64, otherwise: &str) -> Option<Warning> {
    (times > 0).then(|| {
        warning(
            format!("the kernel throttled {times} times: accesses meanwhile are missing"),
            format!("sysctl kernel.perf_event_max_sample_rate=1000000, or {otherwise}"),
        )
    })
}

/// Threads were created while events of a process that runs were opened.
pub fn unwatched(threads: u64) -> Option<Warning> {
    (threads > 0).then(|| {
        warning(
            format!("{threads} threads were created while perftax came, and are not watched"),
            "start the program under perftax, or attach again",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_happen_is_not_said() {
        assert_eq!((throttled(0, "less"), unwatched(0)), (None, None));
        let said = throttled(3, "less").map(|warning| (warning.to_string(), warning.remedy()));
        let (message, remedy) = said.unwrap_or_default();
        assert_eq!(message, "the kernel throttled 3 times: accesses meanwhile are missing");
        assert_eq!(remedy, "sysctl kernel.perf_event_max_sample_rate=1000000, or less");
    }
}
