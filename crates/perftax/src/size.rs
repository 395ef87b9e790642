//! Sizes on the command line.

/// A size from 1 to `most` bytes: bytes, or with K, M or G.
pub fn size(text: &str, most: u64) -> Result<u64, String> {
    let (digits, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let factor: u64 = match unit.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(format!("unit {unit}: it is K, M or G")),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).filter(|n| (1..=most).contains(n));
    bytes.ok_or_else(|| format!("needs a size from 1 to {}M", most >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_limits() {
        let most = 128 << 20;
        assert_eq!(size("64K", most), Ok(65_536));
        assert_eq!(size("4MiB", most), Ok(4 << 20));
        assert_eq!(size("1", most), Ok(1));
        for wrong in ["0", "", "K", "129M", "-1", "1.5M", "64KK", "99999999999999999999G"] {
            assert!(size(wrong, most).is_err(), "{wrong}");
        }
    }
}
