//! Call chains: addresses from the innermost out, with markers that say whose they are.

use super::words::Words;
use perf_event_open_sys::bindings as abi;

/// The entries of a call chain as the kernel wrote them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callchain<'a> {
    /// Addresses and markers.
    pub entries: Words<'a>,
}

/// Where the addresses that follow a marker belong (`PERF_CONTEXT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Before any marker, or after one that this decoder does not know.
    Unknown,
    /// Hypervisor.
    Hypervisor,
    /// Kernel.
    Kernel,
    /// User space.
    User,
    /// User space, to be written later in a `CALLCHAIN_DEFERRED` record; the one "address" here is the cookie that both share.
    UserDeferred,
    /// Guest.
    Guest,
    /// Guest's kernel.
    GuestKernel,
    /// Guest's user space.
    GuestUser,
}

/// One address of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The address; a return address but for the first of each context. A cookie in [`Context::UserDeferred`].
    pub address: u64,
    /// Whose it is.
    pub context: Context,
}

impl<'a> Callchain<'a> {
    /// The addresses without the markers.
    pub fn frames(&self) -> impl Iterator<Item = Frame> + use<'a> {
        let mut context = Context::Unknown;
        self.entries.iter().filter_map(move |entry| match Context::from_marker(entry) {
            Some(marked) => {
                context = marked;
                None
            }
            None => Some(Frame { address: entry, context }),
        })
    }
}

impl Context {
    /// The context that an entry marks, where it is a marker: the top 4095 addresses cannot be code.
    pub fn from_marker(entry: u64) -> Option<Self> {
        if entry < widened(abi::PERF_CONTEXT_MAX) {
            return None;
        }
        const KNOWN: [(u64, Context); 7] = [
            (widened(abi::PERF_CONTEXT_HV), Context::Hypervisor),
            (widened(abi::PERF_CONTEXT_KERNEL), Context::Kernel),
            (widened(abi::PERF_CONTEXT_USER), Context::User),
            (widened(abi::PERF_CONTEXT_USER_DEFERRED), Context::UserDeferred),
            (widened(abi::PERF_CONTEXT_GUEST), Context::Guest),
            (widened(abi::PERF_CONTEXT_GUEST_KERNEL), Context::GuestKernel),
            (widened(abi::PERF_CONTEXT_GUEST_USER), Context::GuestUser),
        ];
        Some(KNOWN.iter().find(|(marker, _)| *marker == entry).map_or(Self::Unknown, |(_, context)| *context))
    }
}

/// The bindings' markers are `unsigned long`.
#[allow(clippy::unnecessary_cast)]
const fn widened(marker: abi::perf_callchain_context) -> u64 {
    marker as u64
}
