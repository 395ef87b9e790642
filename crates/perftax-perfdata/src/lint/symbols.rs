//! Whether the functions of what was sampled have names, on this machine: it is the one that recorded, or the check is unknown.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use perftax_symbols::elf::{Elf, by_build_id, debug_file};

use super::check::{Check, Judgement, Rule, Unit, Whole};
use super::code_map::{CodeMap, SampledFile};
use perftax_doc::words::{count, named, share};

/// Reads the map that another check fills.
pub(super) struct Symbols(pub(super) Rc<RefCell<CodeMap>>);

static RULE: Rule = Rule {
    name: "symbols",
    measures: "samples in user mode in code without names: the file is gone or another one, has no symbols, or was generated, of all in user mode",
    unit: Unit::Share,
    warning: Some(0.2),
    error: None,
    source: "perf report looks functions up in the file of the mapping, told by its build id, and in /tmp/perf-PID.map",
};

/// Files that are opened.
const MAX_FILES: usize = 64;

/// Why the code of a file has no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Nameless {
    Gone,
    Closed,
    Changed,
    Stripped,
    Generated,
}

impl Nameless {
    fn name(self) -> &'static str {
        match self {
            Self::Gone => "cannot be found here any more",
            Self::Closed => "may not be read by you",
            Self::Changed => "was rebuilt since",
            Self::Stripped => "has no symbols",
            Self::Generated => "is generated code, of which no map was written",
        }
    }
}

impl Check for Symbols {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let map = self.0.borrow();
        if map.user_samples == 0 {
            return Judgement::none("no samples in user mode that tell their address and process");
        }
        let features = &whole.recording.features;
        if !features.is_of_this_host() {
            return Judgement::unknown("it was recorded on another machine, whose files are not here");
        }
        let code = map.looked_up();
        let mut files: Vec<(&str, &SampledFile)> = code.by_file.iter().map(|(file, sampled)| (file.as_str(), sampled)).collect();
        files.sort_by_key(|(_, sampled)| std::cmp::Reverse(sampled.samples));
        let listed = |file: &str| features.build_ids.as_ref()?.get(file).map(Vec::as_slice);
        let nameless: Vec<(&str, u64, Nameless)> = files
            .iter()
            .take(MAX_FILES)
            .filter_map(|&(file, sampled)| {
                let id = sampled.build_id.as_deref().or_else(|| listed(file));
                Some((file, sampled.samples, nameless(file, id, &sampled.processes)?))
            })
            .collect();
        let Some(&(_, _, why)) = nameless.first() else {
            return Judgement::none("every file that was sampled has symbols");
        };
        let samples: u64 = nameless.iter().map(|(_, samples, _)| samples).sum();
        let of_all = samples as f64 / map.user_samples as f64;
        let alike: Vec<&str> = nameless.iter().filter(|file| file.2 == why).map(|(file, ..)| *file).collect();
        Judgement::measured(
            of_all,
            format!(
                "{} of {} samples in user mode ({}) are in code without names: {} {}",
                count(samples),
                count(map.user_samples),
                share(of_all),
                named(&alike),
                why.name()
            ),
            "shares by function fall apart into addresses",
            match why {
                Nameless::Gone | Nameless::Changed => {
                    "record again, or keep the files: perf buildid-cache --add FILE before they change"
                }
                Nameless::Closed => "lint as a user who may read them: root, or who recorded",
                Nameless::Stripped => "install its debug symbols (debuginfod, -dbgsym), or build without -s",
                Nameless::Generated => {
                    "have it write a map: java -XX:+DumpPerfMapAtExit, node --perf-basic-prof, python3 -X perf"
                }
            },
        )
    }
}

/// Why the functions of a file have no names; none where they have.
fn nameless(file: &str, id: Option<&[u8]>, processes: &BTreeSet<u32>) -> Option<Nameless> {
    if file.starts_with('[') {
        // The kernel's own, and what it maps for the program.
        return None;
    }
    let is_generated =
        ["//anon", "//other", "/memfd:", "/SYSV", "/dev/zero", "anon_inode:"].iter().any(|begin| file.starts_with(begin));
    if is_generated {
        let has_map = processes.iter().any(|pid| Path::new(&format!("/tmp/perf-{pid}.map")).exists());
        return (!has_map).then_some(Nameless::Generated);
    }
    // perf record keeps a copy of what it saw, by its build id.
    let kept = id.and_then(|id| Some(std::env::home_dir()?.join(".debug/.build-id").join(by_build_id(id)?).join("elf")));
    let path = kept.filter(|kept| kept.is_file()).unwrap_or_else(|| file.into());
    // What is no file may block, or do something, by being opened.
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Some(Nameless::Closed),
        Ok(about) if about.is_file() => {}
        _ => return Some(Nameless::Gone),
    }
    let elf = match Elf::open(&path) {
        Ok(elf) => elf,
        Err(perftax_symbols::Error::File { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            return Some(Nameless::Closed);
        }
        Err(perftax_symbols::Error::File { .. }) => return Some(Nameless::Gone),
        // What is no ELF file has names that another reader knows (.dex, .oat).
        Err(_) => return None,
    };
    let found = elf.build_id();
    let is_other = |recorded: &[u8], found: &[u8]| recorded != found && !recorded.iter().all(|byte| *byte == 0);
    if id.zip(found.as_deref()).is_some_and(|(recorded, found)| is_other(recorded, found)) {
        return Some(Nameless::Changed);
    }
    let has_debug_file = || found.and_then(|id| debug_file(&id)).is_some_and(|path| path.exists());
    (!elf.has_functions() && !has_debug_file()).then_some(Nameless::Stripped)
}
