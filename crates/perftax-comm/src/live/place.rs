//! Places in memory as the user names them: `SYMBOL[+OFFSET][/BYTES]`, `0xADDRESS[/BYTES]`, `heap:FUNCTION[#N][+OFFSET][/BYTES]`.

use crate::LINE_BYTES;
use perftax_doc::steps::Setting;
use perftax_pmu::{Error, Result};

/// Bytes watched at an address where nothing else is said: a word.
pub(super) const WORD_BYTES: u64 = 8;
/// The most that can be watched at one place: sixteen lines.
const MAX_BYTES: u64 = 16 * LINE_BYTES;
/// Where the kernel's half of the addresses begins on x86-64 and AArch64, whatever the depth of page tables.
pub(super) const KERNEL_HALF: u64 = 1 << 63;

/// A place as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceName {
    /// As the user wrote it.
    pub text: String,
    /// Where it begins.
    pub at: At,
    /// Bytes; none: all of a symbol, from its offset on, or a word.
    pub bytes: Option<u64>,
    /// Whether the others are watched without it where the program has nothing mapped there: it is one of many that a file names.
    pub may_be_absent: bool,
}

/// Where a place begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// An address.
    Address(u64),
    /// So far behind a data symbol of the program, or of a library that it has loaded.
    Symbol {
        /// As `nm` prints it.
        name: String,
        /// Bytes behind its first.
        offset: u64,
    },
    /// So far into an object of the heap that is not there yet.
    Heap {
        /// Who allocates it, itself or by what it calls.
        function: String,
        /// It is that many-th, from 1 on.
        number: u64,
        /// Bytes behind its first.
        offset: u64,
    },
}

/// Where places lie that are not there yet: in what no program has mapped (vm.mmap_min_addr).
const NOWHERE: u64 = 0x1000;

/// A place that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// As the user named it.
    pub name: String,
    /// Whether processes share it: where it is not, a forked child has a copy of its own at the same address.
    pub is_shared: bool,
}

impl Place {
    /// Whether an address lies in it.
    pub fn holds(&self, address: u64) -> bool {
        (self.address..self.address + self.bytes).contains(&address)
    }
}

impl PlaceName {
    /// Reads a place.
    ///
    /// # Errors
    /// [`Error::Argument`] with what it needs to be.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |needed: &str| Error::Argument { argument: Setting::Watch.name(), value: text.into(), needed: needed.into() };
        let (place, bytes) = match text.rsplit_once('/') {
            Some((place, bytes)) => {
                let bytes = number(bytes).filter(|bytes| (1..=MAX_BYTES).contains(bytes));
                (place, Some(bytes.ok_or_else(|| wrong(&format!("1 to {MAX_BYTES} bytes behind the /")))?))
            }
            None => (text, None),
        };
        if let Some(object) = place.strip_prefix("heap:") {
            let (object, offset) = match object.rsplit_once('+') {
                Some((object, offset)) => (object, number(offset).ok_or_else(|| wrong("heap:FUNCTION+OFFSET, OFFSET in bytes"))?),
                None => (object, 0),
            };
            let (function, nth) = match object.rsplit_once('#') {
                Some((function, nth)) => {
                    (function, number(nth).filter(|nth| *nth > 0).ok_or_else(|| wrong("heap:FUNCTION#N, N from 1 on"))?)
                }
                None => (object, 1),
            };
            if function.is_empty() {
                return Err(wrong("heap:FUNCTION[#N][+OFFSET][/BYTES]"));
            }
            let at = At::Heap { function: function.into(), number: nth, offset };
            return Ok(Self { text: text.into(), at, bytes, may_be_absent: false });
        }
        let at = match place.strip_prefix("0x") {
            Some(hex) => At::Address(u64::from_str_radix(hex, 16).map_err(|_| wrong("0xADDRESS[/BYTES], hexadecimal"))?),
            None => {
                let (name, offset) = match place.rsplit_once('+') {
                    Some((name, offset)) => (name, number(offset).ok_or_else(|| wrong("SYMBOL+OFFSET, OFFSET in bytes"))?),
                    None => (place, 0),
                };
                if name.is_empty() || name.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(wrong("SYMBOL[+OFFSET][/BYTES] or 0xADDRESS[/BYTES]"));
                }
                At::Symbol { name: name.into(), offset }
            }
        };
        Ok(Self { text: text.into(), at, bytes, may_be_absent: false })
    }

    /// Whether it is an object's that is not there yet.
    pub fn is_of_heap(&self) -> bool {
        matches!(self.at, At::Heap { .. })
    }

    /// Where a place stands until its object is there, apart from other such places, and lying to its line as it will; none for others.
    pub fn awaited(&self, number: usize) -> Option<Place> {
        let At::Heap { offset, .. } = &self.at else { return None };
        let address = NOWHERE + number as u64 * 2 * MAX_BYTES + offset % LINE_BYTES;
        Some(Place { address, bytes: self.bytes.unwrap_or(WORD_BYTES), name: self.text.clone(), is_shared: false })
    }

    /// So many bytes from an address on.
    pub fn at_address(address: u64, bytes: u64) -> Self {
        Self { text: format!("{address:#x}/{bytes}"), at: At::Address(address), bytes: Some(bytes), may_be_absent: false }
    }

    /// The place of a whole line.
    pub fn of_line(address: u64) -> Self {
        Self::at_address(address & !(LINE_BYTES - 1), LINE_BYTES)
    }

    /// The place from an address on: a symbol's with its size, or where it was named.
    ///
    /// # Errors
    /// [`Error::Argument`] where it cannot be watched.
    pub fn found_at(&self, address: u64, size: Option<u64>, is_shared: bool) -> Result<Place> {
        let wrong = |needed: String| Error::Argument { argument: Setting::Watch.name(), value: self.text.clone(), needed };
        let bytes = self.bytes.or(size.filter(|size| *size > 0)).unwrap_or(WORD_BYTES);
        if address >= KERNEL_HALF || address.saturating_add(bytes) > KERNEL_HALF {
            return Err(wrong(
                "an address of the program's, below 0x8000000000000000: what the kernel has is not watched".into(),
            ));
        }
        if bytes > MAX_BYTES {
            return Err(wrong(format!(
                "a part of it, as SYMBOL+OFFSET/BYTES: it has {bytes} bytes, and {MAX_BYTES} are the most that are watched at one place"
            )));
        }
        Ok(Place { address, bytes, name: self.text.clone(), is_shared })
    }
}

/// Decimal, or hexadecimal with 0x.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let symbol = |name: &str, offset| At::Symbol { name: name.into(), offset };
        let read = |text: &str| PlaceName::parse(text).map(|place| (place.at, place.bytes)).unwrap();
        assert_eq!(read("counter"), (symbol("counter", 0), None));
        assert_eq!(read("table+0x10/4"), (symbol("table", 16), Some(4)));
        assert_eq!(read("table+24"), (symbol("table", 24), None));
        assert_eq!(read("_ZN1a1bE/64"), (symbol("_ZN1a1bE", 0), Some(64)));
        assert_eq!(read("0x7f00/16"), (At::Address(0x7f00), Some(16)));
        for wrong in ["", "/8", "+4", "4711", "0xzz", "a/0", "a/x", "a/1025", "a+x", "a+/8"] {
            let error = PlaceName::parse(wrong).err().unwrap_or_else(|| panic!("{wrong} was read"));
            assert!(matches!(&error, Error::Argument { argument, .. } if *argument == Setting::Watch.name()), "{error}");
        }
    }

    #[test]
    fn objects_that_are_not_there_yet_are_named_by_who_makes_them() {
        let read = |text: &str| PlaceName::parse(text).map(|place| (place.at, place.bytes)).unwrap();
        let heap = |function: &str, number, offset| At::Heap { function: function.into(), number, offset };
        assert_eq!(read("heap:make"), (heap("make", 1, 0), None));
        assert_eq!(read("heap:pool::make#3+0x48/16"), (heap("pool::make", 3, 0x48), Some(16)));
        for wrong in ["heap:", "heap:a#0", "heap:a#x", "heap:a+x", "heap:a/0"] {
            assert!(PlaceName::parse(wrong).is_err(), "{wrong}");
        }
        let place = PlaceName::parse("heap:make+0x48/16").unwrap().awaited(1).unwrap();
        assert_eq!((place.address % 64, place.bytes, place.address < 0x10000), (8, 16, true));
        assert_eq!(PlaceName::parse("table").unwrap().awaited(1), None);
    }

    #[test]
    fn what_cannot_be_watched_is_refused() {
        let place = PlaceName::parse("table").unwrap();
        assert_eq!(place.found_at(0x1000, Some(24), false).unwrap().bytes, 24);
        assert_eq!(place.found_at(0x1000, None, false).unwrap().bytes, 8);
        assert!(place.found_at(0x1000, Some(4096), false).err().unwrap().to_string().contains("+OFFSET/BYTES"));
        let kernel = PlaceName::parse("0xffffffff81000000").unwrap();
        assert!(kernel.found_at(0xffff_ffff_8100_0000, None, false).err().unwrap().to_string().contains("kernel"));
        assert_eq!(PlaceName::of_line(0x1039), PlaceName::parse("0x1000/64").unwrap());
    }
}
