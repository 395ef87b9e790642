//! Who ended a thread's waiting, in words.

use perftax_doc::{Meanwhile, Waker};

use crate::printable::printable;
use crate::units;

/// `worker (12), at message 17, in futex`; `vector: local timer`; `an interrupt`.
pub(crate) fn named(waker: &Waker) -> String {
    let message = waker.message.map(|id| match &waker.label {
        Some(label) => format!("at message {id} ({})", printable(label)),
        None => format!("at message {id}"),
    });
    let at = waker.at.as_deref().map(printable).map(|at| match at.strip_prefix("system call: ") {
        Some(call) => format!("in {call}"),
        None => at,
    });
    match (&waker.thread, at) {
        (Some(thread), at) => [Some(printable(thread)), message, at].into_iter().flatten().collect::<Vec<_>>().join(", "),
        (None, Some(interruption)) => interruption,
        (None, None) => "an interrupt".into(),
    }
}

/// `worker (12) was at 3 other messages meanwhile, for 2.1 ms, longest at 17 (GET /)`.
pub(crate) fn worked_on(meanwhile: &Meanwhile) -> String {
    let others = if meanwhile.stretches == 1 { "another message" } else { "other messages" };
    let least = if meanwhile.is_partial { "at least " } else { "" };
    let many =
        if meanwhile.stretches == 1 { String::new() } else { format!("{least}{} ", units::count(meanwhile.stretches.into())) };
    let label = meanwhile.label.as_deref().map_or_else(String::new, |label| format!(" ({})", printable(label)));
    let time = format!("{least}{}", units::time_ns(meanwhile.ns as f64));
    format!("{} was at {many}{others} meanwhile, for {time}, longest at {}{label}", printable(&meanwhile.thread), meanwhile.most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_worked_on_meanwhile_is_told() {
        let one = Meanwhile {
            tid: 12,
            thread: "worker (12)".into(),
            stretches: 1,
            ns: 2_100_000,
            is_partial: false,
            most: 17,
            label: None,
        };
        assert_eq!(worked_on(&one), "worker (12) was at another message meanwhile, for 2.10 ms, longest at 17");
        let many = worked_on(&Meanwhile { stretches: 1200, label: Some("GET /".into()), ..one.clone() });
        let partial = worked_on(&Meanwhile { stretches: 1024, is_partial: true, ..one.clone() });
        assert!(partial.contains("at least 1,024 other messages meanwhile, for at least 2.10 ms"), "{partial}");
        assert_eq!(many, "worker (12) was at 1,200 other messages meanwhile, for 2.10 ms, longest at 17 (GET /)");
    }

    #[test]
    fn wakers_are_named_as_far_as_they_are_known() {
        let interrupt = Waker { tid: 0, thread: None, message: None, label: None, at: None };
        assert_eq!(named(&interrupt), "an interrupt");
        assert_eq!(named(&Waker { at: Some("vector: local timer".into()), ..interrupt.clone() }), "vector: local timer");
        let thread = Waker { tid: 12, thread: Some("worker (12)".into()), ..interrupt };
        assert_eq!(named(&thread), "worker (12)");
        let at_message = Waker { message: Some(17), at: Some("system call: futex".into()), ..thread };
        assert_eq!(named(&at_message), "worker (12), at message 17, in futex");
        assert_eq!(named(&Waker { label: Some("GET /".into()), at: None, ..at_message }), "worker (12), at message 17 (GET /)");
    }
}
