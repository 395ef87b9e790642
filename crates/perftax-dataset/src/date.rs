//! Days of UTC.

/// A day, ns.
const DAY_NS: i64 = 86_400_000_000_000;
/// From 0000-03-01 to 1970-01-01, days.
const TO_1970: i64 = 719_468;
/// 400 years, days.
const ERA: i64 = 146_097;

/// The UTC day of a moment, ns since 1970, as `2026-11-29`.
pub fn day(moment_ns: i64) -> String {
    // Years begin with March: the day that leap years have more is the last one then (Hinnant, chrono-compatible low-level date algorithms).
    let days = moment_ns.div_euclid(DAY_NS) + TO_1970;
    let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Days since 1970 of such a text; none where it is no day.
pub fn days_of(text: &str) -> Option<i64> {
    let is_written = |(at, c): (usize, char)| if at == 4 || at == 7 { c == '-' } else { c.is_ascii_digit() };
    if text.len() != 10 || !text.char_indices().all(is_written) {
        return None;
    }
    let part = |from: usize, to: usize| text[from..to].parse::<i64>().ok();
    let (year, month, of_month) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + of_month - 1;
    let days = era * ERA + of_era - TO_1970;
    (day(days * DAY_NS) == text).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, text) in
            [(0, "1970-01-01"), (-1, "1969-12-31"), (11_016, "2000-02-29"), (11_017, "2000-03-01"), (20_786, "2026-11-29")]
        {
            assert_eq!(day(days * DAY_NS + DAY_NS - 1), text);
            assert_eq!(days_of(text), Some(days));
        }
        for days in (-3000..60_000).step_by(7) {
            assert_eq!(days_of(&day(days * DAY_NS)), Some(days));
        }
        for wrong in ["", "2026-02-30", "2026-13-01", "2026-1-01", "26-11-29", "2026-11-29T", "2026/11/29"] {
            assert_eq!(days_of(wrong), None, "{wrong}");
        }
    }
}
