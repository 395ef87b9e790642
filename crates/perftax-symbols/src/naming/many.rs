//! Functions of many addresses at once, each file read once.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

use crate::elf::{Elf as Elf64, FunctionTable};
use crate::{Mapping, demangled};

/// How the functions of a file are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By symbols: the file's own, and those that were stripped off it, where they are installed.
    #[default]
    Symbols,
    /// By debug information, where there is any: `inner (inlined in outer)`. Reading it takes seconds for a large program.
    Inlined,
}

/// The functions at offsets of a file that can be read at a place, and whose own path says where what was stripped off it is kept ([`Elf64::debug`]); empty where none is known.
pub fn functions_of_file(place: &Path, path: &Path, offsets: &[u64], by: By) -> Vec<String> {
    functions_beside(place, offsets, by, |elf| elf.debug(path))
}

fn functions_beside(place: &Path, offsets: &[u64], by: By, debug: impl Fn(&Elf64) -> Option<PathBuf>) -> Vec<String> {
    // [vdso], //anon and the like are no files.
    if !place.is_absolute() || !place.is_file() {
        return vec![String::new(); offsets.len()];
    }
    let elf = Elf { debug_syms: false, ..Elf::new(place) };
    let mut names = functions(&Source::Elf(elf), Input::FileOffset(offsets), offsets.len());
    let Ok(elf) = Elf64::open(place) else { return names };
    let is_stripped = !elf.has_symbol_table();
    let debug = if is_stripped || by == By::Inlined { debug(&elf) } else { None };
    // What a library exports, which is all that is left in it, may lie before any of its own functions.
    if let Some(debug) = debug.as_deref().filter(|_| is_stripped).and_then(|debug| Elf64::read(debug).ok()) {
        let (exported, table) = (FunctionTable::of(&elf), FunctionTable::of_stripped(&elf, &debug));
        for (name, offset) in names.iter_mut().zip(offsets).filter(|(_, offset)| exported.at_offset(**offset).is_none()) {
            table.at_offset(*offset).into_iter().for_each(|(function, _)| *name = demangled(&function.name));
        }
    }
    // The runtime of a Go program that was stripped still knows its functions.
    if is_stripped && elf.is_go() && names.iter().any(String::is_empty) {
        let table = FunctionTable::of(&elf);
        for (name, offset) in names.iter_mut().zip(offsets).filter(|(name, _)| name.is_empty()) {
            *name = table.at_offset(*offset).map_or_else(String::new, |(function, _)| function.name.clone());
        }
    }
    if by == By::Inlined {
        let segments = elf.segments();
        let addresses: Vec<u64> = offsets.iter().map(|offset| segments.address(*offset).unwrap_or(u64::MAX)).collect();
        for (name, inner) in names.iter_mut().zip(inlined(debug.as_deref().unwrap_or(place), &addresses)) {
            if let (Some(inner), false) = (inner, name.is_empty()) {
                *name = format!("{inner} (inlined in {name})");
            }
        }
    }
    names
}

/// The innermost function that was inlined at each address of a file's own, by its debug information; none where none was.
fn inlined(path: &Path, addresses: &[u64]) -> Vec<Option<String>> {
    let innermost = |symbolized: Symbolized<'_>| {
        let symbol = symbolized.into_sym()?;
        symbol.inlined.last().map(|function| demangled(&function.name))
    };
    match Symbolizer::new().symbolize(&Source::Elf(Elf::new(path)), Input::VirtOffset(addresses)) {
        Ok(all) if all.len() == addresses.len() => all.into_iter().map(innermost).collect(),
        _ => vec![None; addresses.len()],
    }
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
        let debug = at("debug");
        let names = || {
            let beside = |elf: &Elf64| elf.debug_below(&at("a.so"), &debug);
            functions_beside(&at("a.so"), &offsets, By::Symbols, beside)
        };
        assert_eq!(names(), ["", "shown"]);
        let id = crate::elf::by_build_id(&whole.build_id().unwrap()).unwrap();
        let place = debug.join(".build-id").join(format!("{id}.debug"));
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::copy(at("b.debug"), &place).unwrap();
        assert_eq!(names(), ["", "shown"], "of another build");
        std::fs::copy(at("a.debug"), &place).unwrap();
        assert_eq!(names(), ["hidden", "shown"]);
        std::fs::remove_file(&place).unwrap();

        // By the name that the file says, where it lies, and only if it is the same to a bit.
        run("objcopy", &["--add-gnu-debuglink=a.debug", "a.so"]);
        std::fs::rename(at("a.debug"), at("kept")).unwrap();
        assert_eq!(names(), ["", "shown"]);
        let further = debug.join(folder.path().strip_prefix("/").unwrap());
        for place in [folder.path().to_path_buf(), at(".debug"), further] {
            std::fs::create_dir_all(&place).unwrap();
            std::fs::copy(at("b.debug"), place.join("a.debug")).unwrap();
            assert_eq!(names(), ["", "shown"], "of another build");
            std::fs::copy(at("kept"), place.join("a.debug")).unwrap();
            assert_eq!(names(), ["hidden", "shown"], "{}", place.display());
            std::fs::remove_file(place.join("a.debug")).unwrap();
        }
    }

    /// What was inlined is known where there is debug information, be it kept apart.
    #[test]
    fn what_was_inlined_is_named_within_what_it_was_inlined_in() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let source = "static inline __attribute__((always_inline)) int inner(int x) { return x * x + 7; }\n\
                      int outer(int x) { return inner(x) ^ 3; }\nint plain(int x) { return x ^ 5; }\n";
        std::fs::write(at("a.c"), source).unwrap();
        let run = |program: &str, words: &[&str]| {
            assert!(std::process::Command::new(program).args(words).current_dir(folder.path()).status().unwrap().success());
        };
        run("gcc", &["-g", "-O2", "-shared", "-fPIC", "-Wl,--build-id", "-o", "a.so", "a.c"]);
        let whole = Elf64::open(&at("a.so")).unwrap();
        let offset = |name: &str| whole.segments().offset(whole.address_of(name).unwrap()).unwrap();
        let offsets = [offset("outer"), offset("plain")];
        let wanted = ["inner (inlined in outer)", "plain"];
        assert_eq!(functions_of_file(&at("a.so"), &at("a.so"), &offsets, By::Inlined), wanted);
        assert_eq!(functions_of_file(&at("a.so"), &at("a.so"), &offsets, By::Symbols), ["outer", "plain"]);
        run("objcopy", &["--only-keep-debug", "a.so", "a.debug"]);
        run("strip", &["a.so"]);
        run("objcopy", &["--add-gnu-debuglink=a.debug", "a.so"]);
        std::fs::rename(at("a.so"), at("moved")).unwrap();
        assert_eq!(functions_of_file(&at("moved"), &at("a.so"), &offsets, By::Inlined), wanted);
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
