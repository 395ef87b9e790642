//! Names of addresses in programs as `cc` makes them: position-independent and not, stripped and not.

#![allow(clippy::unwrap_used)] // tests may

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use perftax_symbols::Mapping;
use perftax_symbols::naming::{CodePlace, Names};

const SOURCE: &str = include_str!("fixtures/naming.c");

fn mappings_of(pid: u32) -> Vec<Mapping> {
    Mapping::parse_all(&std::fs::read(format!("/proc/{pid}/maps")).unwrap())
}

/// A program that waits, and the addresses that it printed.
struct Program {
    child: Child,
    counters: u64,
    quiet: u64,
    large: u64,
    object: u64,
    local: u64,
    work: u64,
    f: u64,
    /// Its file, which goes away with it.
    _folder: tempfile::TempDir,
}

impl Program {
    fn run(options: &[&str], is_stripped: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prog");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/naming.c");
        succeed(Command::new("cc").args(["-g", "-O1", "-o"]).arg(&path).args(options).arg(source));
        if is_stripped {
            succeed(Command::new("strip").arg(&path));
        }
        let mut child = Command::new(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addresses = line.split_whitespace().map(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap());
        let [counters, quiet, large, object, local, work, f] = addresses.collect::<Vec<_>>().try_into().unwrap();
        Self { child, counters, quiet, large, object, local, work, f, _folder: folder }
    }

    fn names(&self) -> Names {
        Names::of(mappings_of(self.child.id()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The number of the source's line that holds a text.
fn line_of(text: &str) -> usize {
    1 + SOURCE.lines().position(|line| line.contains(text)).unwrap()
}

fn check_data(program: &Program) {
    let mut names = program.names();
    assert_eq!(names.data(program.counters).name, "counters [prog]");
    let place = names.data(program.counters + 8);
    assert_eq!(place.name, "counters+0x8 [prog]");
    let object = place.object.unwrap();
    assert_eq!((object.name.as_str(), object.address, object.bytes), ("counters", program.counters, 16));
    assert_eq!(names.data(program.quiet + 15).name, "quiet+0xf [prog]", "a static variable");
    assert_eq!(names.data(program.large).name, "large [prog]");
    assert_eq!(names.data(program.large + 0x8_0000).name, "large+0x80000 [prog]", "beyond what the file has of it");
    assert!(names.data(program.object).name.starts_with("heap+0x"), "{:?}", names.data(program.object));
    let local = names.data(program.local).name;
    assert!(local.starts_with("stack-0x") && local.ends_with("of the first thread"), "{local}");
    assert_eq!(names.data(8).name, "0x8");
}

fn check_code(program: &Program) {
    let names = program.names();
    let first = names.code(program.work);
    assert_eq!(first.function, "work [prog]");
    assert_eq!(names.code(program.f).function, "f [prog]", "no abbreviation of C++'s");
    let seen: Vec<CodePlace> = (0..32).map(|offset| names.code(program.work + offset)).collect();
    assert_eq!(seen[1].function, "work+0x1 [prog]");
    let inlined = format!("naming.c:{} < naming.c:{}", line_of("inlined here"), line_of("called here"));
    assert!(seen.iter().any(|place| place.source.as_deref() == Some(&inlined)), "{inlined} is not in {seen:?}");
    let plain = format!("naming.c:{}", line_of("quiet.a += own"));
    assert!(seen.iter().any(|place| place.source.as_deref() == Some(&plain)), "{plain} is not in {seen:?}");
    assert_eq!(names.code(8), CodePlace { function: "0x8".into(), source: None });
}

fn check_symbols(program: &Program) {
    let mut names = program.names();
    let found = names.symbol("counters").unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].address, found[0].bytes), (program.counters, 16));
    assert!(found[0].path.ends_with("prog"), "{found:?}");
    assert_eq!(names.symbol("large").unwrap()[0].address, program.large);
    // Never mangled: no abbreviations of C++'s types.
    for name in ["s", "i"] {
        let address = names.symbol(name).unwrap()[0].address;
        assert_eq!(names.data(address).name, format!("{name} [prog]"));
    }
    let missing = names.symbol("cuonters").unwrap_err();
    assert_eq!(missing.nearest.first().map(String::as_str), Some("counters [prog]"), "{missing}");
    let missing = names.symbol("own").unwrap_err();
    assert!(missing.is_thread_local && missing.to_string().contains("each thread"), "{missing}");
}

#[test]
fn a_program_that_can_lie_anywhere() {
    let program = Program::run(&["-fPIE", "-pie"], false);
    check_data(&program);
    check_code(&program);
    check_symbols(&program);
}

#[test]
fn a_program_at_a_fixed_address() {
    let program = Program::run(&["-fno-pie", "-no-pie"], false);
    assert!(program.counters < 1 << 32);
    check_data(&program);
    check_code(&program);
    check_symbols(&program);
}

#[test]
fn a_program_without_symbols_is_told_by_section_and_file() {
    let program = Program::run(&["-fPIE", "-pie"], true);
    let mut names = program.names();
    let data = names.data(program.counters);
    assert!(data.name.starts_with(".data") && data.name.ends_with(" [prog]") && data.object.is_none(), "{data:?}");
    let bss = names.data(program.large + 0x8_0000);
    assert!(bss.name.starts_with(".bss+0x80") && bss.name.ends_with(" [prog]"), "{bss:?}");
    let code = names.code(program.work);
    assert!(code.function.starts_with("prog+0x") && code.source.is_none(), "{code:?}");
    assert!(names.symbol("counters").is_err());
}

#[test]
fn a_process_elsewhere_has_its_files_where_somebody_says() {
    let program = Program::run(&["-fPIE", "-pie"], false);
    let mut mappings = mappings_of(program.child.id());
    let path = mappings.iter().find(|mapping| mapping.path.ends_with("prog")).unwrap().path.clone();
    let root = path.parent().unwrap();
    for mapping in mappings.iter_mut().filter(|mapping| mapping.path.ends_with("prog")) {
        mapping.path = "/prog".into();
    }
    let below = |mapping: &Mapping| Some(root.join(mapping.path.strip_prefix("/").unwrap()));
    assert_eq!(Names::read_at(mappings.clone(), below).data(program.counters).name, "counters [prog]");
    let unknown = Names::of(mappings).data(program.counters).name;
    assert!(unknown.starts_with("prog+0x"), "{unknown}");
}
