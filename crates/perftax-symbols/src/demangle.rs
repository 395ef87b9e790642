//! Names of symbols.

/// A symbol's name as the source has it. Only what the mangling of C++ (`_Z`) or Rust (`_R`, formerly `_Z`) made is folded back: demanglers
/// take a C variable `s` for C++'s abbreviation of `short`.
pub fn demangled(linked: &str) -> String {
    demangled_with(linked, cpp_demangle::DemangleOptions::new())
}

/// The same without a function's parameters and what it returns: `a::f` of `a::f(int)`; and of a generic one in Rust without what it is made for.
pub fn without_parameters(linked: &str) -> String {
    let mut name = demangled_with(linked, cpp_demangle::DemangleOptions::new().no_params().no_return_type());
    if linked.starts_with("_R")
        && let Some(at) = name.rfind("::<").filter(|_| name.ends_with('>'))
    {
        name.truncate(at);
    }
    name
}

fn demangled_with(linked: &str, options: cpp_demangle::DemangleOptions) -> String {
    let rust = || rustc_demangle::try_demangle(linked).ok().map(|name| format!("{name:#}"));
    let cpp = || cpp_demangle::Symbol::new(linked).ok().and_then(|symbol| symbol.demangle_with_options(&options).ok());
    let found = match linked {
        _ if linked.starts_with("_R") => rust(),
        _ if linked.starts_with("_Z") && has_rusts_hash(linked) => rust(),
        _ if linked.starts_with("_Z") => cpp(),
        _ => None,
    };
    found.unwrap_or_else(|| linked.into())
}

/// Rust's older names are C++'s with a hash of 16 digits at their end (`17h0123456789abcdefE`), and what LLVM adds (`.llvm.1234`) behind;
/// without this question, the last part of any C++ name would pass for a hash.
fn has_rusts_hash(linked: &str) -> bool {
    let Some((hash, rest)) = linked.rsplit_once("17h").and_then(|(_, tail)| tail.split_once('E')) else { return false };
    hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && (rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_in_the_source() {
        assert_eq!(demangled("_ZN4pool7pending17h0123456789abcdefE"), "pool::pending");
        assert_eq!(demangled("_ZN4pool7pending17h0123456789abcdefE.llvm.123"), "pool::pending");
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangled("_ZN5queue4headE"), "queue::head");
        assert_eq!(demangled("_Z3addii"), "add(int, int)");
        assert_eq!(demangled("_ZN1a17head_of_the_queueE"), "a::head_of_the_queue");
        assert_eq!(without_parameters("_Z3addii"), "add");
        assert_eq!(without_parameters("_ZN1a1fIiEEvT_"), "a::f<int>");
        assert_eq!(without_parameters("main"), "main");
    }

    #[test]
    fn what_was_never_mangled_stays() {
        // C++'s abbreviations of types, and beginnings that Mach-O and Windows have for what is mangled.
        let letters = ('a'..='z').map(String::from);
        let others = ["counters", "Ss", "St", "Dn", "_Z", "_Reset", "_R", "_Z@", "__ZN1a1bE", "ZN1a1bE", "RNvC1a1b", "", "é"];
        for name in letters.chain(others.map(String::from)) {
            assert_eq!(demangled(&name), name);
        }
    }
}
