//! What the kernel's probes fetch (Documentation/trace/uprobetracer.rst).

/// How the kernel's probes (Documentation/trace/uprobetracer.rst) fetch the text that an argument is the address of.
///
/// # Errors
/// What the argument is instead.
pub fn fetch_text(argument: &str) -> Result<String, String> {
    let (size, place) = argument.split_once('@').ok_or("has no size")?;
    if !matches!(size, "8" | "-8") {
        return Err(format!("is {} bytes wide, and no address", size.trim_start_matches('-')));
    }
    if let Some(register) = place.strip_prefix('%') {
        return Ok(format!("+0(%{}):string", kernel_register(register)?));
    }
    let (offset, register) =
        place.strip_suffix(')').and_then(|place| place.split_once("(%")).ok_or("lies in no register or frame")?;
    let offset: i64 = match offset {
        "" => 0,
        offset => offset.parse().map_err(|_| "lies at an address that only a linker knows")?,
    };
    Ok(format!("+0({offset:+}(%{})):string", kernel_register(register)?))
}

/// As `asm/ptrace.h` of the kernel names them: rdi is di there.
fn kernel_register(name: &str) -> Result<String, String> {
    const WORDS: [&str; 8] = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"];
    let numbered = name.strip_prefix('r').filter(|n| n.parse::<u32>().is_ok_and(|n| (8..16).contains(&n)));
    match name.strip_prefix('r').filter(|word| WORDS.contains(word)) {
        Some(word) => Ok(word.into()),
        None if numbered.is_some() => Ok(name.into()),
        None => Err(format!("lies in {name}, which is no 64-bit register of x86-64 by itself")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn arguments_become_what_the_kernel_fetches() {
        assert_eq!(fetch_text("8@%rbx").unwrap(), "+0(%bx):string");
        assert_eq!(fetch_text("8@%r13").unwrap(), "+0(%r13):string");
        assert_eq!(fetch_text("8@-144(%rbp)").unwrap(), "+0(-144(%bp)):string");
        assert_eq!(fetch_text("-8@(%rax)").unwrap(), "+0(+0(%ax)):string");
        for (argument, why) in [
            ("4@%ebx", "4 bytes"),
            ("8@$5", "no register"),
            ("8@8(%rax,%rbx,4)", "no 64-bit register"),
            ("8@x(%rip)", "linker"),
            ("%rax", "no size"),
        ] {
            assert!(fetch_text(argument).unwrap_err().contains(why), "{argument}: {:?}", fetch_text(argument));
        }
    }
}
