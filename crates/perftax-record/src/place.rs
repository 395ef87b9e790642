//! Where the events are open that sample a program.

/// Where the events are open that sample a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On its threads, and inherited by what those create: each context switch puts the events in place, each thread that is created copies them.
    Threads,
    /// On CPUs, whoever runs there: nothing is switched or copied, and a period goes on from one thread to the next. Samples of others are taken, too, and
    /// dropped: those lose as much of their time.
    Cpus,
}
