//! Where the data symbols of a process are.

use std::path::PathBuf;

use perftax_doc::steps::Setting;
use perftax_pmu::event::among;
use perftax_pmu::process::{mapped_file, maps};
use perftax_pmu::{Error, Result};
use perftax_symbols::Mapping;
use perftax_symbols::elf::{DataKind, DataSymbol, Elf};

use super::place::{At, Place, PlaceName};

/// A program or library of a process, by what its symbols say.
struct Module {
    path: PathBuf,
    /// What is added to its file's addresses.
    bias: u64,
    variables: Vec<DataSymbol>,
}

/// Data symbols of all that a process has mapped, the program first.
pub struct Variables {
    modules: Vec<Module>,
    maps: Vec<Mapping>,
    is_whole: bool,
}

impl Variables {
    /// Of a process as it is now. Before its libraries are there, it is not whole.
    ///
    /// # Errors
    /// Where it is gone, or may not be looked at.
    pub fn of(pid: u32, is_whole: bool) -> Result<Self> {
        let maps = maps(pid)?;
        let mut modules: Vec<Module> = Vec::new();
        // A file's first mapping holds its header.
        for map in maps.iter().filter(|map| map.file_offset == 0 && map.path.is_absolute()) {
            if modules.iter().all(|module| module.path != map.path) {
                modules.extend(module(pid, map));
            }
        }
        Ok(Self { modules, maps, is_whole })
    }

    /// The place of a name; none where it is not mapped yet, or never, and may be absent.
    ///
    /// # Errors
    /// [`Error::Argument`] where it cannot be watched or is not there, with what is nearest.
    pub fn find(&self, place: &PlaceName) -> Result<Option<Place>> {
        let (address, size) = match &place.at {
            At::Address(address) => (*address, None),
            // It is nowhere yet.
            At::Heap { .. } => return Ok(None),
            At::Symbol { name, offset } => match self.symbol(name, place)? {
                Some((address, size)) => (address.wrapping_add(*offset), size.checked_sub(*offset)),
                None if self.is_whole => return Err(self.unknown(name, place)),
                None => return Ok(None),
            },
        };
        let map = self.maps.iter().find(|map| map.contains(address));
        if map.is_none() && place.may_be_absent {
            return Ok(None);
        }
        // The kernel's half is refused whatever is mapped.
        let found = place.found_at(address, size, map.is_some_and(|map| map.is_shared))?;
        match map {
            Some(_) => Ok(Some(found)),
            None if self.is_whole => Err(Error::Argument {
                argument: Setting::Watch.name(),
                value: place.text.clone(),
                needed: "an address that the program has mapped (see /proc/PID/maps)".into(),
            }),
            None => Ok(None),
        }
    }

    fn symbol(&self, name: &str, place: &PlaceName) -> Result<Option<(u64, u64)>> {
        let wrong = |needed: String| Error::Argument { argument: Setting::Watch.name(), value: place.text.clone(), needed };
        for module in &self.modules {
            let all: Vec<&DataSymbol> = module.variables.iter().filter(|variable| variable.linked == name).collect();
            let of_all: Vec<&DataSymbol> = all.iter().filter(|variable| variable.is_global).copied().collect();
            let mut meant = if of_all.is_empty() { all } else { of_all };
            meant.sort_by_key(|variable| variable.address);
            meant.dedup_by_key(|variable| variable.address);
            match meant[..] {
                [] => {}
                [one] if one.kind == DataKind::ThreadLocal => {
                    return Err(wrong("a variable that threads share: it is thread-local, each has its own".into()));
                }
                [one] => return Ok(Some((module.bias.wrapping_add(one.address), one.bytes))),
                _ => {
                    let module = module.path.display();
                    return Err(wrong(format!(
                        "a name that stands for one place: {} static variables of {module} are called so; watch one by its address",
                        meant.len()
                    )));
                }
            }
        }
        Ok(None)
    }

    fn unknown(&self, name: &str, place: &PlaceName) -> Error {
        let program = self.modules.first().map_or_else(|| "the program".into(), |module| module.path.display().to_string());
        let names = self.modules.iter().flat_map(|module| &module.variables).map(|variable| variable.linked.clone());
        let nearest = among(name, names);
        let help =
            if nearest.is_empty() { format!("nm {program} lists them") } else { format!("nearest: {}", nearest.join(", ")) };
        let needed = format!("a data symbol of {program} or its libraries; {help}");
        Error::Argument { argument: Setting::Watch.name(), value: place.text.clone(), needed }
    }
}

fn module(pid: u32, map: &Mapping) -> Option<Module> {
    let elf = Elf::open(&mapped_file(pid, map)?).ok()?;
    Some(Module { path: map.path.clone(), bias: elf.segments().bias_of_first(map.from), variables: elf.data_symbols() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    /// glibc's own variable for the name of the program, read through its address.
    #[test]
    fn a_variable_of_a_library_is_found() {
        let here = Variables::of(std::process::id(), true).unwrap();
        let place = |text: &str| here.find(&PlaceName::parse(text).unwrap());
        let found = place("program_invocation_name").unwrap().unwrap();
        assert_eq!((found.bytes, found.is_shared), (8, false));
        let memory = File::open("/proc/self/mem").unwrap();
        let mut pointer = [0; 8];
        memory.read_exact_at(&mut pointer, found.address).unwrap();
        let wanted = std::env::args().next().unwrap();
        let mut text = vec![0; wanted.len()];
        memory.read_exact_at(&mut text, u64::from_ne_bytes(pointer)).unwrap();
        assert_eq!(String::from_utf8_lossy(&text), wanted);
        let behind = place("program_invocation_name+3").unwrap().unwrap();
        assert_eq!((behind.address, behind.bytes), (found.address + 3, 5));
        let error = place("program_invocation_nome").err().unwrap().to_string();
        assert!(error.contains("nearest: program_invocation_name"), "{error}");
        let error = place("0x10").err().unwrap().to_string();
        assert!(error.contains("mapped"), "{error}");
        let one_of_many = PlaceName { may_be_absent: true, ..PlaceName::at_address(0x10, 8) };
        assert_eq!(here.find(&one_of_many).unwrap(), None);
        let kernels = PlaceName { may_be_absent: true, ..PlaceName::at_address(0xffff_8881_0000_0000, 64) };
        assert_eq!(here.find(&kernels).unwrap(), None);
    }

    #[test]
    fn what_is_not_there_yet_may_come() {
        let early = Variables::of(std::process::id(), false).unwrap();
        assert_eq!(early.find(&PlaceName::parse("no_such_symbol_at_all").unwrap()).unwrap(), None);
        assert!(early.find(&PlaceName::parse("0xffffffffff600000").unwrap()).is_err(), "the kernel's half");
    }
}
