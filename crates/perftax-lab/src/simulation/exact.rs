//! One run of a program where all that differs from run to run is fixed, counted by function.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use perftax_doc::StatFunction;
use perftax_model::run::{Mapping, Outcome, Request};
use perftax_pmu::{Error, Result};
use perftax_symbols::naming::{By, functions_of_file};

use super::runner::{resolve, run_with_plugin};
use super::{Guest, Installation};
use crate::published::Published;

/// The processor that QEMU shows the program: what the plugin decodes, which is more than its default where that is an old one.
pub const PROCESSOR: &str = "max";
/// The release that uname(2) tells: programs read it, and its length is theirs to read.
pub const KERNEL: &str = "6.1.0";
/// Go's runtime interrupts its threads by a clock of the host's otherwise.
const WITHOUT_PREEMPTION: (&str, &str) = ("GODEBUG", "asyncpreemptoff=1");
/// Where a copy of the program stands, by a path that is as long everywhere: it lies on the program's stack.
const FOLDER: &str = "/tmp";

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Exactly {
    /// What the model counted.
    pub outcome: Outcome,
    /// Instructions by function, most first.
    pub functions: Vec<StatFunction>,
    /// The program's file, and the libraries whose code was executed.
    pub files: Vec<PathBuf>,
    /// Calls whose answer could not be fixed, with how often they were made.
    pub unfixed: BTreeMap<String, u64>,
    /// How often threads did what another run need not do alike.
    pub strays: u64,
    /// How the program ended: its exit code, or 128 + the signal that killed it.
    pub code: i32,
    /// It forked; what the children did was not counted.
    pub forked: bool,
}

/// The environment of such a run, by name.
pub fn exact_environment(added: &[(OsString, OsString)]) -> BTreeMap<OsString, OsString> {
    let fixed = super::runner::ENVIRONMENT.iter().chain([&WITHOUT_PREEMPTION]);
    let fixed = fixed.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    fixed.chain(added.iter().cloned()).collect()
}

/// Runs a program and counts every instruction. It runs as a copy, unless it has to stand where it stands.
///
/// # Errors
/// Where it cannot be run, or ends without an outcome.
pub fn count_exactly(installation: &Installation, guest: &Guest, seed: u64, in_place: bool) -> Result<Exactly> {
    let program = guest.argv.first().ok_or_else(|| Error::Argument {
        argument: "CMD",
        value: "missing".into(),
        needed: "the program to be counted".into(),
    })?;
    let original = resolve(program)?;
    let original = original.canonicalize().map_err(Error::file(&original))?;
    let folder = tempfile::Builder::new().prefix("perftax-").rand_bytes(8).tempdir_in(FOLDER).map_err(Error::file(FOLDER))?;
    let name = Path::new(program).file_name().unwrap_or(program.as_os_str());
    let copy = folder.path().join(name);
    let place = if in_place { original.clone() } else { copied(&original, &copy)? };
    let rows = folder.path().join(".executed");
    let guest = Guest {
        argv: std::iter::once(place.clone().into()).chain(guest.argv.iter().skip(1).cloned()).collect(),
        called: Some(name.into()),
        piped: true,
        options: ["-cpu", PROCESSOR, "-r", KERNEL].map(OsString::from).into(),
        environment: exact_environment(&guest.environment).into_iter().collect(),
        ..guest.clone()
    };
    let request = Request {
        seed,
        samples: Some(rows.to_string_lossy().into_owned()),
        ..Request::counting(Published::load("broadwell")?.model()?.clone())
    };
    let (outcome, code, forked) = run_with_plugin(installation, &guest, seed, "exact", |outcome| {
        serde_json::to_vec(&Request { outcome, ..request.clone() })
    })?;
    let outcome: Outcome = outcome.ok_or_else(|| super::runner::no_outcome(code, &program.to_string_lossy()))?;
    let executed = std::fs::read(&rows).map_err(Error::file(&rows))?;
    let left = folder.path().join(".executed.left");
    let (unfixed, strays) = std::fs::read(&left).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let (functions, mut files) = by_function(&outcome.mappings, &parsed(&executed), &place, &original);
    files.sort_by_key(|file| (*file != original, file.clone()));
    Ok(Exactly { outcome, functions, files, unfixed, strays, code, forked })
}

/// Where the copy stands. One that looks for libraries beside itself could not find them there.
fn copied(original: &Path, copy: &Path) -> Result<PathBuf> {
    let bytes = std::fs::read(original).map_err(Error::file(original))?;
    if bytes.windows(ORIGIN.len()).any(|window| window == ORIGIN) {
        return Ok(original.into());
    }
    std::fs::copy(original, copy).map_err(Error::file(copy))?;
    Ok(copy.into())
}

/// What stands for a program's own folder where it names those of its libraries (ld.so(8)).
const ORIGIN: &[u8] = b"$ORIGIN";

/// Address and times of each instruction.
fn parsed(rows: &[u8]) -> Vec<(u64, u64)> {
    let word = |row: &[u8], at: usize| row[at..at + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    rows.chunks_exact(16).map(|row| (word(row, 0), word(row, 8))).collect()
}

/// Functions with their instructions, most first, and the files that were executed.
fn by_function(
    mappings: &[Mapping],
    executed: &[(u64, u64)],
    place: &Path,
    original: &Path,
) -> (Vec<StatFunction>, Vec<PathBuf>) {
    let mut by_file: BTreeMap<&str, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for (address, times) in executed {
        let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(address));
        let (path, offset) = mapping.map_or(("", *address), |it| (it.path.as_str(), address - it.start + it.offset));
        let (offsets, all) = by_file.entry(path).or_default();
        offsets.push(offset);
        all.push(*times);
    }
    let mut functions: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut files = Vec::new();
    for (path, (offsets, times)) in &by_file {
        let file = if Path::new(path) == place { original } else { Path::new(path) };
        let name = file.file_name().map_or("(no file)".into(), |name| name.to_string_lossy().into_owned());
        let names = functions_of_file(file, file, offsets, By::Symbols);
        for (function, times) in names.into_iter().zip(times) {
            *functions.entry((function, name.clone())).or_default() += times;
        }
        if !path.is_empty() {
            files.push(file.to_path_buf());
        }
    }
    let row = |((function, file), instructions): ((String, String), u64)| StatFunction {
        function,
        file,
        instructions,
        least: instructions,
        most: instructions,
    };
    let mut functions: Vec<StatFunction> = functions.into_iter().map(row).collect();
    functions
        .sort_by(|a, b| b.instructions.cmp(&a.instructions).then_with(|| (&a.function, &a.file).cmp(&(&b.function, &b.file))));
    (functions, files)
}
