//! Guards: every knob that perftax changes is put back, also on a panic, SIGINT and SIGTERM.

mod affinity;
mod descriptors;
mod interrupt;
mod probe_definitions;
mod throttle;

pub use affinity::{allowed_cpus, online_cpus, pin_this_thread};
pub use descriptors::raise_descriptor_limit;
pub use interrupt::{Interrupted, check_interrupted, interrupted, on_signal_restore};
pub use probe_definitions::{ProbeDefinition, ProbeDefinitions};
pub use throttle::ThrottleGuard;
