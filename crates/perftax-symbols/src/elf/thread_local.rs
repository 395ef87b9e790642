//! Variables of which each thread has its own: how a file that defines one gets at it, by which it is found from outside ("ELF Handling For Thread-Local Storage").

use object::elf::{PT_TLS, R_X86_64_DTPMOD64, R_X86_64_TLSDESC, R_X86_64_TPOFF64};
use object::read::elf::ProgramHeader;
use object::{Object, ObjectSymbol, RelocationFlags, RelocationTarget, SymbolKind};

use super::Elf;

/// A thread-local variable that a file defines for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLocal {
    /// Where it lies in the file's part of a thread's variables.
    pub offset: u64,
    /// How the file gets there.
    pub access: ThreadLocalAccess,
}

/// What says where a file's part of a thread's variables lies, once it is loaded. Addresses are without where the file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadLocalAccess {
    /// A descriptor: a function, and what it is given (`R_X86_64_TLSDESC`, GNU2).
    Descriptor(u64),
    /// The module's number (`R_X86_64_DTPMOD64`, general dynamic).
    Module(u64),
    /// The variable's distance from the thread pointer (`R_X86_64_TPOFF64`, initial exec).
    Distance(u64),
    /// The program itself: so far below the thread pointer the variable lies (local exec).
    Program(u64),
}

impl Elf {
    /// A variable of that name among those that are exported; none where it is none of each thread's own, or nobody in the file gets at it.
    pub fn thread_local(&self, linked: &str) -> Option<ThreadLocal> {
        let parsed = self.parse().ok()?;
        let is_it = |symbol: &object::Symbol<'_, '_, _>| {
            symbol.kind() == SymbolKind::Tls && !symbol.is_undefined() && symbol.name() == Ok(linked)
        };
        let symbol = parsed.dynamic_symbols().find(is_it)?;
        let offset = symbol.address();
        let of_it = |(at, relocation): (u64, object::Relocation)| {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { return None };
            if relocation.target() != RelocationTarget::Symbol(symbol.index()) {
                return None;
            }
            match r_type {
                _ if r_type == R_X86_64_TLSDESC => Some(ThreadLocalAccess::Descriptor(at)),
                _ if r_type == R_X86_64_DTPMOD64 => Some(ThreadLocalAccess::Module(at)),
                _ if r_type == R_X86_64_TPOFF64 => Some(ThreadLocalAccess::Distance(at)),
                _ => None,
            }
        };
        let mut relocated = parsed.dynamic_relocations().into_iter().flatten().filter_map(of_it);
        let access = relocated.next().or_else(|| {
            // A program's own variables lie right below the thread pointer, their end aligned as they are (variant II).
            let object::File::Elf64(file) = &parsed else { return None };
            let endian = file.endian();
            let header = file.elf_program_headers().iter().find(|header| header.p_type(endian) == PT_TLS)?;
            let (bytes, align) = (header.p_memsz(endian), header.p_align(endian).max(1));
            let is_program = file.elf_program_headers().iter().any(|header| header.p_type(endian) == object::elf::PT_INTERP)
                || parsed.kind() == object::ObjectKind::Executable;
            is_program.then(|| ThreadLocalAccess::Program(bytes.next_multiple_of(align).wrapping_sub(offset)))
        })?;
        Some(ThreadLocal { offset, access })
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::path::Path;
    use std::process::Command;

    use super::*;

    const SOURCE: &str = "__attribute__((visibility(\"default\"))) __thread void *other[3], *watched;
        void set(void *to) { watched = to; other[1] = to; }
        int printf(const char *, ...);
        int main(void) { set(0); printf(\"%ld\", (long)((char *)__builtin_thread_pointer() - (char *)&watched)); return 0; }\n";

    fn built(folder: &Path, options: &[&str]) -> Elf {
        let (source, file) = (folder.join("a.c"), folder.join("a"));
        std::fs::write(&source, SOURCE).unwrap();
        assert!(Command::new("gcc").args(["-O2", "-o"]).args([&file, &source]).args(options).status().unwrap().success());
        Elf::open(&file).unwrap()
    }

    #[test]
    fn each_way_to_a_thread_s_variable_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let found = |options: &[&str], name: &str| built(folder.path(), options).thread_local(name);
        let library = ["-shared", "-fPIC"];
        let access = |options: &[&str]| found(&[&library[..], options].concat(), "watched").unwrap();
        assert!(matches!(access(&["-mtls-dialect=gnu2"]).access, ThreadLocalAccess::Descriptor(_)));
        assert!(matches!(access(&["-mtls-dialect=gnu"]).access, ThreadLocalAccess::Module(_)));
        assert!(matches!(access(&["-ftls-model=initial-exec"]).access, ThreadLocalAccess::Distance(_)));
        assert_eq!([0, 24].map(|offset| access(&[]).offset == offset).iter().filter(|is_it| **is_it).count(), 1);
        // A program's own is not exported as a rule.
        let program = found(&["-rdynamic"], "watched").unwrap();
        let said = Command::new(folder.path().join("a")).output().unwrap();
        let below: u64 = String::from_utf8_lossy(&said.stdout).parse().unwrap();
        assert_eq!(program.access, ThreadLocalAccess::Program(below));
        assert_eq!(found(&[], "watched"), None);
        assert_eq!(found(&library, "set"), None);
        assert_eq!(found(&library, "nothing"), None);
    }
}
