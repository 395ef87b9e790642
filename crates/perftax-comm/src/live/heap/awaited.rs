//! Objects that are waited for, to be watched as soon as they are there: by who allocates them.

use perftax_doc::steps::Setting;
use perftax_pmu::event::among;
use perftax_pmu::process::mapped_file;
use perftax_pmu::{Error, Result};
use perftax_symbols::elf::Elf;
use perftax_symbols::{Mapping, demangled};

use super::objects::HeapObject;

/// An object that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// Which place it is for.
    pub place: usize,
    /// Where the code of its allocator's caller stands: first address, and one behind the last.
    pub code: Vec<(u64, u64)>,
    /// It is that many-th that is allocated from there, from 1 on.
    pub number: u64,
    /// How many have been so far.
    pub seen: u64,
}

impl Awaited {
    /// Whether an object that was just allocated is the one.
    pub fn is(&mut self, object: &HeapObject) -> bool {
        // The call stands before what it returns to.
        let is_from_there = |caller: &u64| self.code.iter().any(|(from, to)| (*from..*to).contains(&caller.wrapping_sub(1)));
        if !object.callers.iter().any(is_from_there) {
            return false;
        }
        self.seen += 1;
        self.seen == self.number
    }
}

/// Where the code of a function stands in a process: several places where several have its name.
///
/// # Errors
/// [`Error::Argument`] where there is none, with the nearest.
pub fn code_of(pid: u32, maps: &[Mapping], function: &str, place: &str) -> Result<Vec<(u64, u64)>> {
    let (mut found, mut names) = (Vec::new(), Vec::new());
    for map in maps.iter().filter(|map| map.is_code && map.path.is_absolute()) {
        let mut each = |name: &str, from: u64, bytes: u64| {
            let plain = demangled(name);
            let plain = plain.split('(').next().unwrap_or_default();
            if name == function || plain == function {
                found.push((from, from.saturating_add(bytes)));
            } else {
                names.push(plain.to_string());
            }
        };
        functions(pid, map, &mut each);
    }
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        let nearest = among(function, names);
        let help = if nearest.is_empty() { String::new() } else { format!("; nearest: {}", nearest.join(", ")) };
        let needed = format!("a function of the program or its libraries, one that is not inlined{help}");
        return Err(Error::Argument { argument: Setting::Watch.name(), value: place.into(), needed });
    }
    Ok(found)
}

/// Functions in what is mapped there: name, address in the process, bytes.
fn functions(pid: u32, map: &Mapping, each: &mut dyn FnMut(&str, u64, u64)) -> Option<()> {
    let elf = Elf::open(&mapped_file(pid, map)?).ok()?;
    let segments = elf.segments();
    for function in elf.functions().into_iter().filter(|function| function.bytes > 0) {
        let in_map = segments.offset(function.address).and_then(|offset| offset.checked_sub(map.file_offset));
        if let Some(from) = in_map.map(|at| map.from + at).filter(|from| *from < map.to) {
            each(&function.name, from, function.bytes);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use perftax_pmu::process::maps;

    #[test]
    fn the_nth_that_comes_from_there_is_the_one() {
        let mut awaited = Awaited { place: 0, code: vec![(0x1000, 0x1010)], number: 2, seen: 0 };
        let of =
            |callers: &[u64]| HeapObject { address: 0, bytes: 8, callers: callers.into(), number: 1, from_ns: 0, until_ns: None };
        assert!(!awaited.is(&of(&[0x2000, 0x1010])), "the first");
        assert!(!awaited.is(&of(&[0x1000])), "called before the function begins");
        assert!(awaited.is(&of(&[0x2000, 0x1001, 0x3000])));
        assert!(!awaited.is(&of(&[0x1001])), "one is enough");
    }

    #[test]
    fn functions_are_found_by_name() {
        let (pid, here) = (std::process::id(), maps(std::process::id()).unwrap());
        let [(from, to)] = code_of(pid, &here, "pthread_create", "").unwrap()[..] else { panic!("one") };
        assert!(here.iter().any(|map| map.is_code && map.from <= from && to <= map.to));
        let error = code_of(pid, &here, "pthread_creat", "heap:pthread_creat").unwrap_err().to_string();
        assert!(error.contains("nearest: pthread_create"), "{error}");
    }
}
