//! Functions of many addresses at once, each file read once.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use crate::elf::{self, Elf as Elf64, FunctionTable};
use crate::{Mapping, demangled};

/// The functions at offsets of a file, by its symbols alone, and by those that its distribution stripped off and that are installed (gdb manual, "Separate Debug Files"); empty where none is known.
pub fn functions_of_file(path: &Path, offsets: &[u64]) -> Vec<String> {
    functions_beside(path, offsets, elf::debug_file)
}

fn functions_beside(path: &Path, offsets: &[u64], debug_file: impl Fn(&[u8]) -> Option<PathBuf>) -> Vec<String> {
    // [vdso], //anon and the like are no files.
    if !path.is_absolute() || !path.is_file() {
        return vec![String::new(); offsets.len()];
    }
    let elf = Elf { debug_syms: false, ..Elf::new(path) };
    let mut names = functions(&Source::Elf(elf), Input::FileOffset(offsets), offsets.len());
    let Some(elf) = elf::Elf::open(path).ok().filter(|elf| !elf.has_symbol_table()) else { return names };
    // What a library exports, which is all that is left in it, may lie before any of its own functions.
    let debug = elf.build_id().and_then(|id| debug_file(&id)).and_then(|file| elf::Elf::read(&file).ok());
    if let Some(debug) = debug.filter(|debug| debug.build_id() == elf.build_id()) {
        let (exported, table) = (FunctionTable::of(&elf), FunctionTable::of_stripped(&elf, &debug));
        for (name, offset) in names.iter_mut().zip(offsets).filter(|(_, offset)| exported.at_offset(**offset).is_none()) {
            table.at_offset(*offset).into_iter().for_each(|(function, _)| *name = demangled(&function.name));
        }
    }
    // The runtime of a Go program that was stripped still knows its functions.
    if elf.is_go() && names.iter().any(String::is_empty) {
        let table = FunctionTable::of(&elf);
        for (name, offset) in names.iter_mut().zip(offsets).filter(|(name, _)| name.is_empty()) {
            *name = table.at_offset(*offset).map_or_else(String::new, |(function, _)| function.name.clone());
        }
    }
    names
}

/// The functions at offsets of the code that the kernel maps into every process of its own (vdso(7)), by its symbols: those of this process's, which is the same one for all
/// 64-bit programs. Empty where none is known.
pub fn functions_of_vdso(offsets: &[u64]) -> Vec<String> {
    let table = own_vdso().and_then(|image| Elf64::of_bytes(Path::new("[vdso]"), image).ok()).map(|elf| FunctionTable::of(&elf));
    let name =
        |offset: &u64| table.as_ref().and_then(|table| table.at_offset(*offset)).map(|(function, _)| function.name.clone());
    offsets.iter().map(|offset| name(offset).unwrap_or_default()).collect()
}

/// What this process has of it.
fn own_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let own = Mapping::parse_all(&maps).into_iter().find(|mapping| mapping.path == Path::new("[vdso]"))?;
    let mut image = vec![0; usize::try_from(own.to - own.from).ok()?];
    std::fs::File::open("/proc/self/mem").ok()?.read_exact_at(&mut image, own.from).ok()?;
    Some(image)
}

/// The functions at addresses of this machine's kernel; empty where none is known, or the kernel hides its addresses (`kptr_restrict`).
pub fn functions_of_kernel(addresses: &[u64]) -> Vec<String> {
    functions(&Source::Kernel(Kernel::default()), Input::AbsAddr(addresses), addresses.len())
}

fn functions(source: &Source<'_>, input: Input<&[u64]>, wanted: usize) -> Vec<String> {
    // The library would read the kernel's symbols, a hundred thousand lines, to look for none.
    if wanted == 0 {
        return Vec::new();
    }
    let name = |symbolized: Symbolized<'_>| symbolized.into_sym().map_or_else(String::new, |symbol| demangled(&symbol.name));
    match Symbolizer::new().symbolize(source, input) {
        Ok(all) if all.len() == wanted => all.into_iter().map(name).collect(),
        _ => vec![String::new(); wanted],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// A library whose own functions' names were stripped off: they are those of the file that they were put into, and that is of its build.
    #[test]
    fn what_was_stripped_off_is_found_where_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let source = "static __attribute__((noinline)) int hidden(int x) { return x * 3 + 1; }\nint shown(int x) { return hidden(x) + hidden(x + 1); }\n";
        std::fs::write(at("a.c"), source).unwrap();
        let run = |program: &str, words: &[&str]| {
            assert!(
                std::process::Command::new(program).args(words).current_dir(folder.path()).status().unwrap().success(),
                "{program}"
            );
        };
        run("gcc", &["-O1", "-shared", "-fPIC", "-Wl,--build-id", "-o", "a.so", "a.c"]);
        run("gcc", &["-O1", "-shared", "-fPIC", "-Wl,--build-id", "-DOTHER", "-Dhidden=other", "-o", "b.so", "a.c"]);
        let whole = Elf64::open(&at("a.so")).unwrap();
        let offsets: Vec<u64> =
            ["hidden", "shown"].map(|name| whole.segments().offset(whole.address_of(name).unwrap()).unwrap()).into();
        for name in ["a", "b"] {
            run("objcopy", &["--only-keep-debug", &format!("{name}.so"), &format!("{name}.debug")]);
        }
        run("strip", &["a.so"]);
        let names = |debug: Option<&str>| functions_beside(&at("a.so"), &offsets, |_| debug.map(at));
        assert_eq!(names(None), ["", "shown"]);
        assert_eq!(names(Some("a.debug")), ["hidden", "shown"]);
        assert_eq!(names(Some("b.debug")), ["", "shown"], "of another build");
    }

    /// Every x86-64 kernel maps these (arch/x86/entry/vdso/vdso.lds.S).
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_kernels_own_code_has_its_names() {
        let elf = Elf64::of_bytes(Path::new("[vdso]"), own_vdso().unwrap()).unwrap();
        let at = elf.address_of("__vdso_clock_gettime").unwrap();
        let names = functions_of_vdso(&[at, at + 1, 1 << 40]);
        assert!(names[0].ends_with("clock_gettime") && names[1] == names[0] && names[2].is_empty(), "{names:?}");
    }
}
