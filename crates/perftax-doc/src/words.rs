//! Numbers and names in sentences.

/// A share in per cent.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".into(),
        _ if percent < 0.01 => "under 0.01 %".into(),
        _ if percent < 1.0 => format!("{percent:.2} %"),
        _ if percent < 10.0 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// A whole number with separators.
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// The digits of a number, with commas between the thousands of its whole part: `1,234.5`.
pub fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, fraction)| (whole, Some(fraction)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// The same with its noun.
pub fn many(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// The first of many names.
pub fn named<S: AsRef<str>>(names: &[S]) -> String {
    const MAX_NAMES: usize = 3;
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(AsRef::as_ref).collect();
    match names.len().checked_sub(MAX_NAMES).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", shown.join(", ")),
        None => shown.join(", "),
    }
}

/// A time.
pub fn time_s(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.3} s"),
        _ if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{:.1} µs", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(["-1234.5678", "-123", "12345.0"].map(grouped), ["-1,234.5678", "-123", "12,345.0"]);
        assert_eq!([0.0, 0.00002, 0.004, 0.05, 0.5].map(share), ["0 %", "under 0.01 %", "0.40 %", "5.0 %", "50 %"]);
        assert_eq!(named(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
        assert_eq!([2.5, 0.0025, 2.5e-6].map(time_s), ["2.500 s", "2.5 ms", "2.5 µs"]);
    }
}
