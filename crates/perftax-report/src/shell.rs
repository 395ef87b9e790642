//! Commands as a reader can paste them into a shell.

/// The arguments quoted where a shell needs it, joined by spaces.
pub fn join<S: AsRef<str>>(arguments: &[S]) -> String {
    arguments.iter().map(|a| quote(a.as_ref())).collect::<Vec<_>>().join(" ")
}

/// One argument: as it is where every character is harmless to a shell, else in single quotes.
pub fn quote(argument: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(harmless) {
        argument.into()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_quotes_gets_them() {
        assert_eq!(
            join(&["perf", "record", "-e", "cpu/event=0xc2/ppp", "--", "./a b", "it's", ""]),
            r"perf record -e cpu/event=0xc2/ppp -- './a b' 'it'\''s' ''"
        );
        assert_eq!(quote("$(reboot)"), "'$(reboot)'");
    }
}
