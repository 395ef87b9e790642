//! Many numbers in a page: packed into bytes, and these as base64.

use perftax_doc::Point;

/// Functions that are told apart on a page; others are one.
pub(super) const MAX_FUNCTIONS: usize = 1000;
/// Ids of all messages are on the page while they take less; else those of slow ones alone. Bytes.
const MAX_ID_BYTES: usize = 6_000_000;
/// Steps of a latency's natural logarithm: 0.03 % apart at most, and 2^64 ns still fits 16 bits.
pub(super) const LATENCY_STEPS: f64 = 1477.0;

/// Points as columns of bytes; the script (`templates/trace/points.js`) reads them.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// Beginnings, ns / `quantum`: differences, seven bits a byte.
    pub(super) times: Vec<u8>,
    /// How coarse they are, ns.
    pub(super) quantum: u64,
    /// Logarithms, [`LATENCY_STEPS`], two bytes each.
    pub(super) latencies: Vec<u8>,
    /// The cause; 128 more where it is slow.
    pub(super) causes: Vec<u8>,
    /// The function's number in `function_names` and 1; 0 for none.
    pub(super) functions: Vec<u8>,
    /// By their number, those of most messages first, the last one for all others.
    pub(super) function_names: Vec<String>,
    /// Ids of all messages, or of the slow ones: differences, zigzag.
    pub(super) ids: Vec<u8>,
    /// Whether they are of all.
    pub(super) has_all_ids: bool,
}

impl Packed {
    pub(super) fn of(points: &[Point], names: &[String]) -> Self {
        let span = points.last().map_or(0, |point| point.begin_ns);
        // Two bytes, mostly: 2^14 steps to the next one on average.
        let quantum = ((span / (points.len() as u64 + 1)) >> 14).max(1);
        let mut packed = Self { quantum, has_all_ids: true, ..Self::default() };
        let mut last = 0;
        for point in points {
            let time = (point.begin_ns / quantum).max(last);
            varint(&mut packed.times, time - last);
            last = time;
            let code = (point.latency_ns.max(1) as f64).ln() * LATENCY_STEPS;
            packed.latencies.extend((code.round() as u16).to_le_bytes());
            packed.causes.push(point.cause & 0x7f | u8::from(point.is_slow) << 7);
        }
        packed.pack_functions(points, names);
        packed.ids = ids(points.iter());
        if packed.ids.len() > MAX_ID_BYTES {
            packed.has_all_ids = false;
            packed.ids = ids(points.iter().filter(|point| point.is_slow));
        }
        packed
    }

    /// Numbers functions anew, so that the frequent ones take a byte.
    fn pack_functions(&mut self, points: &[Point], names: &[String]) {
        let mut counts: std::collections::BTreeMap<u32, usize> = std::collections::BTreeMap::new();
        for point in points {
            if let Some(function) = point.function {
                *counts.entry(function).or_default() += if point.is_slow { 1000 } else { 1 };
            }
        }
        let mut order: Vec<(u32, usize)> = counts.into_iter().collect();
        order.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let has_others = order.len() > MAX_FUNCTIONS;
        order.truncate(MAX_FUNCTIONS);
        let name = |function: &u32| names.get(*function as usize).cloned().unwrap_or_default();
        self.function_names = order.iter().map(|(function, _)| name(function)).collect();
        if has_others {
            self.function_names.push("other functions".into());
        }
        let numbers: std::collections::BTreeMap<u32, u64> =
            order.iter().enumerate().map(|(at, (function, _))| (*function, at as u64 + 1)).collect();
        for point in points {
            let number = point.function.map_or(0, |function| numbers.get(&function).copied().unwrap_or(MAX_FUNCTIONS as u64 + 1));
            varint(&mut self.functions, number);
        }
    }
}

fn ids<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::new(), 0u64);
    for point in points {
        let difference = point.id.wrapping_sub(last) as i64;
        varint(&mut bytes, ((difference << 1) ^ (difference >> 63)) as u64);
        last = point.id;
    }
    bytes
}

/// Seven bits a byte, the lowest first; the highest bit says that there are more.
fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Base64 with padding (RFC 4648, section 4).
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().enumerate().fold(0u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= three.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_published() {
        // RFC 4648, section 10.
        let wanted = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, wanted) in wanted.into_iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..length]), wanted);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn small_differences_take_few_bytes() {
        let point = |at: u64| Point {
            id: at + 1,
            begin_ns: at * 1_000_000,
            latency_ns: 2000 + at % 7,
            cause: 3,
            function: at.is_multiple_of(10).then_some(5),
            is_slow: at.is_multiple_of(100),
        };
        let points: Vec<Point> = (0..10_000).map(point).collect();
        let packed = Packed::of(&points, &vec!["f".to_string(); 6]);
        let bytes = packed.times.len() + packed.latencies.len() + packed.causes.len() + packed.functions.len() + packed.ids.len();
        assert!(packed.has_all_ids && bytes < 80_000, "{bytes}");
        assert_eq!((packed.function_names, packed.functions[0], packed.functions[1]), (vec!["f".to_string()], 1, 0));
        assert_eq!(packed.causes[..2], [131, 3]);
        let mut bytes = Vec::new();
        varint(&mut bytes, 300);
        assert_eq!(bytes, [0xac, 2]);
    }
}
