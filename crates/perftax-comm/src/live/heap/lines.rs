//! Which objects lay in the lines that were touched.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::{Bytes, LINE_BYTES};

use super::objects::Heap;

/// Objects of the same callers that are told apart in one line; more are many.
const MAX_NUMBERS: usize = 1000;

/// An object, or several that took each other's place, as it lay in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Return addresses of who allocated it, innermost first.
    pub callers: Arc<[u64]>,
    /// Bytes.
    pub bytes: u64,
    /// The line's first byte as seen from the object's.
    pub offset: i64,
    /// How many the same callers had allocated when it was, it included; of several the first.
    pub number: u64,
    /// How many of the same callers lay there one after the other.
    pub times: u64,
    /// Whether no record of the heap was lost meanwhile.
    pub is_sure: bool,
}

/// What tells an object in a line from others: callers, bytes, offset.
type Part = (Arc<[u64]>, u64, i64);
/// What tells what lies in a line from what else may.
type Key = Vec<Part>;

/// Touches that found the same.
#[derive(Debug)]
struct Found {
    touches: u64,
    is_sure: bool,
    numbers: Vec<BTreeSet<u64>>,
}

/// Touches of a line that come within so long are looked up together, ns: what lay there at the last of them.
const TOGETHER_NS: u64 = 100_000;
/// Lines that are looked up; further ones are left without names.
const MAX_LINES: usize = 200_000;

/// Touches of a line that were not looked up yet.
#[derive(Clone, Copy, Debug)]
struct Touch {
    first_ns: u64,
    latest_ns: u64,
    touches: u64,
    bytes: Bytes,
}

/// Lines by process and address.
#[derive(Debug, Default)]
pub struct Lines {
    touched: HashMap<(u32, u64), Vec<Touch>>,
    found: HashMap<(u32, u64), HashMap<Key, Found>>,
}

impl Lines {
    /// Some bytes of a line were touched. Touches of a line come in order of time, as far as can be.
    pub fn touched(&mut self, pid: u32, line: u64, bytes: Bytes, at_ns: u64) {
        if self.found.len() >= MAX_LINES && !self.found.contains_key(&(pid, line)) {
            return;
        }
        let touches = self.touched.entry((pid, line)).or_default();
        match touches.last_mut().filter(|last| at_ns.saturating_sub(last.first_ns) < TOGETHER_NS) {
            Some(last) => {
                last.latest_ns = last.latest_ns.max(at_ns);
                last.bytes = last.bytes.with(bytes);
                last.touches += 1;
            }
            None => touches.push(Touch { first_ns: at_ns, latest_ns: at_ns, touches: 1, bytes }),
        }
    }

    /// Looks up what lay where lines were touched, of touches before a time, up to which the heaps are known.
    pub fn settle<'h>(&mut self, until_ns: u64, heap: impl Fn(u32) -> Option<&'h Heap>) {
        let found = &mut self.found;
        self.touched.retain(|&(pid, line), touches| {
            touches.retain(|touch| {
                if touch.latest_ns >= until_ns {
                    return true;
                }
                if let Some(heap) = heap(pid) {
                    look_up(heap, line, *touch, found.entry((pid, line)).or_default());
                }
                false
            });
            !touches.is_empty()
        });
    }

    /// What lay in a line, by address, the most often of all that lay there when it was touched; nothing where that was no object that is known.
    pub fn objects(&self, pid: u32, line: u64) -> Vec<Placed> {
        let found = self.found.get(&(pid, line)).into_iter().flatten();
        // Of two that were found as often, the same one each time.
        let Some((key, found)) = found.max_by_key(|(key, found)| (found.touches, std::cmp::Reverse(*key))) else {
            return Vec::new();
        };
        let placed = |((callers, bytes, offset), numbers): (&Part, &BTreeSet<u64>)| Placed {
            callers: Arc::clone(callers),
            bytes: *bytes,
            offset: *offset,
            number: numbers.first().copied().unwrap_or_default(),
            times: numbers.len() as u64,
            is_sure: found.is_sure,
        };
        key.iter().zip(&found.numbers).map(placed).collect()
    }
}

fn look_up(heap: &Heap, line: u64, touch: Touch, found: &mut HashMap<Key, Found>) {
    let (from, bytes) = touch.bytes.extent().unwrap_or((0, LINE_BYTES));
    let objects = heap.lying_in(line + from, bytes, touch.latest_ns);
    let is_sure = objects.iter().all(|object| heap.is_sure_of(object, touch.latest_ns));
    let key: Key = objects
        .iter()
        .map(|object| (Arc::clone(&object.callers), object.bytes, line.wrapping_sub(object.address) as i64))
        .collect();
    let same =
        found.entry(key).or_insert_with(|| Found { touches: 0, is_sure: true, numbers: vec![BTreeSet::new(); objects.len()] });
    same.touches += touch.touches;
    same.is_sure &= is_sure;
    for (numbers, object) in same.numbers.iter_mut().zip(&objects) {
        if numbers.len() < MAX_NUMBERS {
            numbers.insert(object.number);
        }
    }
}
