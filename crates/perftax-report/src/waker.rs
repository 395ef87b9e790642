//! Who ended a thread's waiting, in words.

use perftax_doc::Waker;

use crate::printable::printable;

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

#[cfg(test)]
mod tests {
    use super::*;

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
