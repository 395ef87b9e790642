//! Which messages are exported.

use rustc_hash::FxHashMap;

use crate::message::Message;

/// A choice of messages, made as they come.
#[derive(Debug)]
pub enum Selection {
    /// Every one.
    All,
    /// Those from a latency on, and of their threads the one before and the one after each.
    Slow(Slow),
}

/// The slow ones with their neighbours.
#[derive(Debug)]
pub struct Slow {
    slow_ns: u64,
    /// By thread: the last message, unless it was chosen, and whether the next one is.
    threads: FxHashMap<u32, (Option<Message>, bool)>,
}

impl Selection {
    /// Messages of this latency on, with their neighbours.
    pub fn slow(slow_ns: u64) -> Self {
        Self::Slow(Slow { slow_ns, threads: FxHashMap::default() })
    }

    /// Hands on what is chosen. A message that never ended is chosen with its neighbours.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn take<E>(&mut self, message: &Message, out: &mut dyn FnMut(&Message) -> Result<(), E>) -> Result<(), E> {
        let Self::Slow(slow) = self else { return out(message) };
        // The thread that began it has it next to its others.
        let Some(tid) = message.threads.first().copied() else { return Ok(()) };
        let (last, is_next) = slow.threads.entry(tid).or_default();
        if message.latency_ns().is_none_or(|ns| ns >= slow.slow_ns) {
            if let Some(last) = last.take() {
                out(&last)?;
            }
            *is_next = true;
            out(message)
        } else if std::mem::take(is_next) {
            *last = None;
            out(message)
        } else {
            match last {
                Some(last) => last.clone_from(message),
                None => *last = Some(message.clone()),
            }
            Ok(())
        }
    }
}
