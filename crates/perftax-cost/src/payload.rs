//! What a sample carries beside its basic record, where that is of another size than the calibrated one.

use perftax_doc::Estimate;

use crate::setting::{CALLERS, USER_STACK_BYTES};

/// Call chains that leave the user's callers out took 0 to 0.4 µs where whole ones took 2.2 (KVM guest, AMD EPYC).
const OF_KERNEL_CHAIN: (f64, f64) = (0.09, 0.2);
/// Entries of the calibrated chain: where it is, its callers, and the marker of the user's part. The kernel's own are few there.
const CALIBRATED_ENTRIES: f64 = CALLERS as f64 + 2.0;
/// What an entry more or less costs, of the term: 8, 16 and 60 callers more took 0.8, 1.4 and 5.6 µs on top of 1.2.
const OF_ENTRY: (f64, f64, f64) = (0.02, 0.0425, 0.055);
/// What of the term the end of the calibrated chain takes, an address that cannot be read: between nothing and a third (a sixth here, more in the emulated
/// machine). A chain that ends otherwise does not pay for it.
const OF_ITS_END: (f64, f64, f64) = (0.3, 0.1, 0.0);
/// What is left of the term where a chain ends at once.
const OF_ANY_CHAIN: f64 = 0.2;

/// What a call chain costs by its entries, where their number is known, and by whether it leaves the user's callers out, from the calibrated one's term, ns a sample.
pub fn of_chain(term_ns: &Estimate, is_of_kernel: bool, entries: Option<f64>) -> Estimate {
    if is_of_kernel {
        let (estimate, high) = OF_KERNEL_CHAIN;
        return Estimate { estimate: term_ns.estimate * estimate, low: 0.0, high: term_ns.high * high, ..*term_ns };
    }
    let more = entries.map_or(0.0, |entries| entries - CALIBRATED_ENTRIES);
    let (least, middle, most) = OF_ENTRY;
    let (low, high) = if more < 0.0 { (most, least) } else { (least, most) };
    let times = |of_entry: f64, of_its_end: f64| (1.0 + of_entry * more - of_its_end).max(OF_ANY_CHAIN);
    Estimate {
        estimate: term_ns.estimate * times(middle, OF_ITS_END.1),
        low: term_ns.low * times(low, OF_ITS_END.0),
        high: term_ns.high * times(high, OF_ITS_END.2),
        ..*term_ns
    }
}

/// The share of the term that a user stack costs whatever its size: 1,024 bytes added 1.75 µs to a page fault and 8,192 bytes 4.7 (KVM guest, AMD EPYC).
const OF_ANY_STACK: f64 = 0.28;

/// A user stack of which so many bytes were asked for and so many copied, by the term of the calibrated one, whose bytes all are. Whether its size costs
/// everything or nothing bounds it.
pub fn of_stack(term_ns: &Estimate, bytes: u32, copied: Option<f64>) -> Estimate {
    let times = copied.unwrap_or(bytes.into()) / f64::from(USER_STACK_BYTES);
    let estimate = term_ns.estimate * (OF_ANY_STACK + (1.0 - OF_ANY_STACK) * times);
    if times == 1.0 {
        return *term_ns;
    }
    Estimate { estimate, low: term_ns.low * times.min(1.0), high: term_ns.high * times.max(1.0), ..*term_ns }
}

/// A program's tracepoints cost up to so many times what the calibration's loop pays for the same samples: 1.27 to 1.34 times by three programs of system calls on
/// an AMD EPYC, of the same instructions (1.02 to 1.1 times in the emulated machine, which has no caches to miss and no branches to mispredict; docs/results/recordings.md).
pub const TRACEPOINT_MORE: f64 = 1.35;
