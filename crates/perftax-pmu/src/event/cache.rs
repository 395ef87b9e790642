//! Hardware cache events: a cache, an operation and a result in one name, `L1-dcache-load-misses`.

/// A cache (`enum perf_hw_cache_id`): its names, first the one that is listed, and the operations that it may have
/// (read, write, prefetch), as perf restricts them.
struct Cache {
    names: &'static [&'static str],
    meaning: &'static str,
    operations: [bool; 3],
}

const CACHES: &[Cache] = &[
    Cache { names: &["L1-dcache", "l1-d", "l1d", "L1-data"], meaning: "level 1 data cache", operations: [true; 3] },
    Cache {
        names: &["L1-icache", "l1-i", "l1i", "L1-instruction"],
        meaning: "level 1 instruction cache",
        operations: [true, false, true],
    },
    Cache { names: &["LLC", "L2"], meaning: "last level cache", operations: [true; 3] },
    Cache { names: &["dTLB", "d-tlb", "Data-TLB"], meaning: "data address translations", operations: [true; 3] },
    Cache {
        names: &["iTLB", "i-tlb", "Instruction-TLB"],
        meaning: "code address translations",
        operations: [true, false, false],
    },
    Cache { names: &["branch", "branches", "bpu", "btb", "bpc"], meaning: "branch predictor", operations: [true, false, false] },
    Cache { names: &["node"], meaning: "memory of the own NUMA node", operations: [true; 3] },
];

/// `enum perf_hw_cache_op_id`: listed singular, listed plural, then synonyms.
const OPERATIONS: [&[&str]; 3] = [
    &["load", "loads", "read"],
    &["store", "stores", "write"],
    &["prefetch", "prefetches", "speculative-read", "speculative-load"],
];

/// `enum perf_hw_cache_op_result_id`.
const RESULTS: [&[&str]; 2] = [&["refs", "Reference", "ops", "access"], &["misses", "miss"]];

/// The `config` of a cache event's name; none where it is not one, or the cache has no such operation.
pub(super) fn config(name: &str) -> Option<u64> {
    let (cache, mut rest) = CACHES
        .iter()
        .enumerate()
        .flat_map(|(id, cache)| cache.names.iter().map(move |prefix| (id, *prefix)))
        .filter_map(|(id, prefix)| name.strip_prefix(prefix).map(|rest| (id, rest)))
        .filter(|(_, rest)| rest.is_empty() || rest.starts_with('-'))
        .min_by_key(|(_, rest)| rest.len())?;
    let (mut operation, mut result) = (None, None);
    while let Some(tail) = rest.strip_prefix('-') {
        if let (None, Some((id, after))) = (operation, word(&OPERATIONS, tail)) {
            (operation, rest) = (Some(id), after);
        } else if let (None, Some((id, after))) = (result, word(&RESULTS, tail)) {
            (result, rest) = (Some(id), after);
        } else {
            return None;
        }
    }
    let (operation, result) = (operation.unwrap_or(0), result.unwrap_or(0));
    let allowed = rest.is_empty() && CACHES.get(cache)?.operations.get(operation).copied()?;
    allowed.then_some(encode(cache, operation, result))
}

/// Each listed name with its configuration and meaning.
pub(super) fn all() -> impl Iterator<Item = (String, u64, String)> {
    CACHES.iter().enumerate().flat_map(|(id, cache)| {
        let allowed = (0..OPERATIONS.len()).filter(|operation| cache.operations[*operation]);
        allowed.flat_map(move |operation| {
            (0..RESULTS.len()).map(move |result| {
                let [singular, plural] = [OPERATIONS[operation][0], OPERATIONS[operation][1]];
                let name = match result {
                    0 => format!("{}-{plural}", cache.names[0]),
                    _ => format!("{}-{singular}-misses", cache.names[0]),
                };
                let what = if result == 0 { plural.to_string() } else { format!("{singular} misses") };
                (name, encode(id, operation, result), format!("{}: {what}", cache.meaning))
            })
        })
    })
}

fn encode(cache: usize, operation: usize, result: usize) -> u64 {
    (cache | operation << 8 | result << 16) as u64
}

/// The id whose name the text starts with (longest name wins), and what follows it.
fn word<'a>(table: &[&[&str]], text: &'a str) -> Option<(usize, &'a str)> {
    table
        .iter()
        .enumerate()
        .flat_map(|(id, names)| names.iter().map(move |name| (id, *name)))
        .filter_map(|(id, name)| text.strip_prefix(name).map(|rest| (id, rest)))
        .filter(|(_, rest)| rest.is_empty() || rest.starts_with('-'))
        .min_by_key(|(_, rest)| rest.len())
}
