//! One formatter for each kind of number, units scaled for people.
//!
//! Every estimate shows its interval: `17.2 µs ± 0.7` where the interval is symmetric, `0.8 % [0.7, 1.0]` where it is
//! not, and no interval only where the number is exact.

use perftax_doc::words::grouped;
use perftax_doc::{Estimate, Mechanism};

/// Below this share of the half-width, the two sides of an interval count as equal.
const SYMMETRY_TOLERANCE: f64 = 0.1;

/// Decimals never shown beyond.
const MAX_DECIMALS: i32 = 6;

/// Digits of a number that comes without an interval.
const SIGNIFICANT_DIGITS: i32 = 3;

/// A factor to divide by, and the unit's name, chosen by the size of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// What to divide by.
    pub factor: f64,
    /// The unit's name.
    pub unit: &'static str,
}

/// The unit for a time given in nanoseconds.
pub fn time_scale_ns(ns: f64) -> Scale {
    let (factor, unit) = match ns.abs() {
        x if x >= 1e9 => (1e9, "s"),
        x if x >= 1e6 => (1e6, "ms"),
        x if x >= 1e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    Scale { factor, unit }
}

fn bytes_scale(bytes: f64) -> Scale {
    let (factor, unit) = match bytes.abs() {
        x if x >= 1024.0 * 1024.0 * 1024.0 => (1024.0 * 1024.0 * 1024.0, "GiB"),
        x if x >= 1024.0 * 1024.0 => (1024.0 * 1024.0, "MiB"),
        x if x >= 1024.0 => (1024.0, "KiB"),
        _ => (1.0, "B"),
    };
    Scale { factor, unit }
}

/// A time with its unit: `17.2 µs`. The argument is in nanoseconds.
pub fn time_ns(ns: f64) -> String {
    plain(ns, time_scale_ns(ns))
}

/// A time with its unit: `1.20 s`. The argument is in seconds.
pub fn time_s(s: f64) -> String {
    time_ns(s * 1e9)
}

/// A share as a percentage: `0.8 %`. The argument is a fraction.
pub fn share(fraction: f64) -> String {
    if !fraction.is_finite() {
        return unknown(fraction);
    }
    let text = about(fraction * 100.0);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// A size in bytes: `512 KiB`.
pub fn bytes(bytes: f64) -> String {
    let scale = bytes_scale(bytes);
    let scaled = bytes / scale.factor;
    if scaled.fract() == 0.0 { format!("{scaled:.0} {}", scale.unit) } else { plain(bytes, scale) }
}

/// A rate in bytes a second: `1.20 MiB/s`.
pub fn bytes_per_s(rate: f64) -> String {
    format!("{}/s", bytes(rate.round()))
}

/// An exact count with thousands separated: `12,345`.
pub fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// A count that is a mean or an expectation: whole numbers from 100 on, else three digits.
pub fn about(n: f64) -> String {
    if !n.is_finite() { unknown(n) } else { grouped(&format!("{n:.*}", decimals_for_value(n))) }
}

/// A number where there is little place, three digits and a prefix: `427`, `12.3k`, `1.20M`.
pub fn brief(n: f64) -> String {
    let (factor, prefix) = match n.abs() {
        x if x >= 999.5e6 => (1e9, "G"),
        x if x >= 999.5e3 => (1e6, "M"),
        x if x >= 999.5 => (1e3, "k"),
        _ => (1.0, ""),
    };
    if !n.is_finite() {
        return unknown(n);
    }
    let scaled = n / factor;
    let decimals = if factor == 1.0 {
        decimals_for_value(scaled)
    } else {
        2 - (scaled.abs() + 1e-9).log10().floor().clamp(0.0, 2.0) as usize
    };
    format!("{scaled:.decimals$}{prefix}")
}

/// An estimate where there is little place: `12.3k±4%`; `≤1.2k` where it may be nothing.
pub fn brief_estimate(e: &Estimate) -> String {
    match e.half_width() {
        0.0 => brief(e.estimate),
        _ if e.low <= 0.0 || e.estimate <= 0.0 => format!("≤{}", brief(e.high)),
        half => format!("{}±{:.0}%", brief(e.estimate), 100.0 * half / e.estimate),
    }
}

/// A rate a second: `427/s`, `12.3 k/s`.
pub fn rate(per_s: f64) -> String {
    match per_s.abs() {
        x if x >= 1e6 => format!("{} M/s", about(per_s / 1e6)),
        x if x >= 1e4 => format!("{} k/s", about(per_s / 1e3)),
        _ => format!("{}/s", about(per_s)),
    }
}

/// A sampling period in the words of its mechanism: `2.340061 ms` where time drives it, else `100,003 events`.
/// Exact, because a period is pasted and compared.
pub fn period(mechanism: Mechanism, period: u64) -> String {
    if mechanism.is_time_driven() { exact_time(period) } else { format!("{} {}", count(period), counted(mechanism, period)) }
}

/// A time with all its digits. The argument is in nanoseconds.
pub fn exact_time(ns: u64) -> String {
    let scale = time_scale_ns(ns as f64);
    format!("{} {}", ns as f64 / scale.factor, scale.unit)
}

/// What a mechanism counts down.
fn counted(mechanism: Mechanism, n: u64) -> &'static str {
    match (mechanism, n == 1) {
        (Mechanism::IbsOp, true) => "op",
        (Mechanism::IbsOp, false) => "ops",
        (Mechanism::IbsFetch, true) => "fetch",
        (Mechanism::IbsFetch, false) => "fetches",
        (_, true) => "event",
        (_, false) => "events",
    }
}

/// An estimated time. The estimate is in nanoseconds.
pub fn estimate_ns(e: &Estimate) -> String {
    estimate(e, time_scale_ns(largest(e)))
}

/// An estimated time. The estimate is in seconds.
pub fn estimate_s(e: &Estimate) -> String {
    estimate_ns(&e.scaled(1e9))
}

/// An estimated share. The estimate is a fraction.
pub fn estimate_share(e: &Estimate) -> String {
    estimate(e, Scale { factor: 0.01, unit: "%" })
}

/// An estimated count or pure number. Large ones that are not exact take a prefix: `1.18 G ± 0.03`.
pub fn estimate_number(e: &Estimate) -> String {
    let (factor, unit) = match largest(e).abs() {
        _ if e.half_width() == 0.0 => (1.0, ""),
        x if x >= 1e9 => (1e9, "G"),
        x if x >= 1e6 => (1e6, "M"),
        _ => (1.0, ""),
    };
    estimate(e, Scale { factor, unit })
}

/// How long ago or how long: `3 minutes`, `2 hours`.
pub fn span(seconds: f64) -> String {
    let (n, unit) = match seconds {
        s if !s.is_finite() || s < 0.0 => return unknown(s),
        s if s < 1.0 => return time_s(s),
        s if s < 120.0 => (s, "second"),
        s if s < 7200.0 => (s / 60.0, "minute"),
        s if s < 172_800.0 => (s / 3600.0, "hour"),
        s => (s / 86_400.0, "day"),
    };
    let n = n.round();
    format!("{n} {unit}{}", if n == 1.0 { "" } else { "s" })
}

/// A point in time: `2026-05-09 07:29 UTC`. The argument is in seconds since 1970.
pub fn date(since_1970_s: f64) -> String {
    // Beyond the calendar's years, or no number, there is no date.
    let instant = jiff::Timestamp::from_second(since_1970_s.floor() as i64).ok().filter(|_| since_1970_s.is_finite());
    instant.map_or_else(|| "unknown".into(), |instant| instant.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// A point in time as part of a file's name: `20260509-072911`, UTC. The argument is in seconds since 1970.
pub fn stamp(since_1970_s: f64) -> String {
    let instant = jiff::Timestamp::from_second(since_1970_s.floor() as i64).ok().filter(|_| since_1970_s.is_finite());
    instant.map_or_else(|| "00000000-000000".into(), |instant| instant.strftime("%Y%m%d-%H%M%S").to_string())
}

/// An estimate in the given scale.
pub fn estimate(e: &Estimate, scale: Scale) -> String {
    let unit = if scale.unit.is_empty() { String::new() } else { format!(" {}", scale.unit) };
    if !e.estimate.is_finite() {
        return unknown(e.estimate);
    }
    let e = Estimate { confidence: e.confidence, ..e.scaled(1.0 / scale.factor) };
    let (below, above) = (e.estimate - e.low, e.high - e.estimate);
    let confidence =
        if (e.confidence - 0.95).abs() < 1e-9 { String::new() } else { format!(" ({} %)", (e.confidence * 1e5).round() / 1e3) };
    if below == 0.0 && above == 0.0 {
        return format!("{}{unit}", about(e.estimate));
    }
    let half_width = e.half_width();
    let decimals = decimals_for_half_width(if half_width.is_finite() { half_width } else { e.estimate });
    let number = |x: f64| without_negative_zero(format!("{x:.decimals$}"));
    if half_width.is_finite() && (above - below).abs() <= SYMMETRY_TOLERANCE * 2.0 * half_width {
        format!("{}{unit} ± {}{confidence}", grouped(&number(e.estimate)), grouped(&number(half_width)))
    } else {
        let end = |x: f64| if x.is_finite() { grouped(&number(x)) } else { unknown(x) };
        format!("{}{unit} [{}, {}]{confidence}", grouped(&number(e.estimate)), end(e.low), end(e.high))
    }
}

/// The size that chooses the unit: of the estimate, or of its interval where the estimate is nearly 0.
fn largest(e: &Estimate) -> f64 {
    if e.estimate.abs() >= e.half_width() || !e.half_width().is_finite() { e.estimate } else { e.half_width() }
}

/// Decimals that show two digits of a half-width that starts with 1 or 2, and one of any other (which rounds to 3 or more).
fn decimals_for_half_width(half_width: f64) -> usize {
    let magnitude = half_width.abs().log10().floor();
    if !magnitude.is_finite() {
        return 0;
    }
    let leading = half_width.abs() / 10f64.powf(magnitude);
    let digits = if leading < 2.95 { 1 } else { 0 };
    (digits - magnitude as i32).clamp(0, MAX_DECIMALS) as usize
}

fn decimals_for_value(value: f64) -> usize {
    if value == 0.0 || (value.fract() == 0.0 && value.abs() < 1e15) {
        return 0;
    }
    (SIGNIFICANT_DIGITS - 1 - value.abs().log10().floor() as i32).clamp(0, MAX_DECIMALS) as usize
}

fn plain(value: f64, scale: Scale) -> String {
    if value.is_finite() { format!("{} {}", about(value / scale.factor), scale.unit) } else { unknown(value) }
}

fn unknown(value: f64) -> String {
    match value {
        f64::INFINITY => "∞".into(),
        f64::NEG_INFINITY => "−∞".into(),
        _ => "unknown".into(),
    }
}

fn without_negative_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.into(),
        _ => text,
    }
}

/// The singular or plural with its number: `1 thread`, `212 context switches`.
pub fn plural(n: &str, one: &str, many: &str) -> String {
    if n == "1" { format!("1 {one}") } else { format!("{n} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_the_unit_of_their_size() {
        assert_eq!(time_ns(0.0), "0 ns");
        assert_eq!(time_ns(286.0), "286 ns");
        assert_eq!(time_ns(17_234.0), "17.2 µs");
        assert_eq!(time_ns(2_500_000.0), "2.50 ms");
        assert_eq!(time_s(1.2034), "1.20 s");
        assert_eq!(time_s(123.4), "123 s");
        assert_eq!(time_ns(f64::NAN), "unknown");
    }

    #[test]
    fn a_symmetric_interval_is_one_number() {
        assert_eq!(estimate_ns(&Estimate::new(17_200.0, 16_500.0, 17_900.0)), "17.2 µs ± 0.7");
        assert_eq!(estimate_s(&Estimate::new(1.2, 1.17, 1.23)), "1.20 s ± 0.03");
        assert_eq!(estimate_ns(&Estimate::new(286.0, 272.0, 300.0)), "286 ns ± 14");
        assert_eq!(estimate_number(&Estimate::new(1.0, 0.96, 1.04)), "1.00 ± 0.04");
    }

    #[test]
    fn a_skewed_interval_shows_both_ends() {
        assert_eq!(estimate_share(&Estimate::new(0.008, 0.007, 0.010)), "0.80 % [0.70, 1.00]");
        assert_eq!(estimate_share(&Estimate::new(0.05, 0.04, 0.08)), "5.0 % [4.0, 8.0]");
        assert_eq!(estimate_share(&Estimate::new(0.05, 0.04, f64::INFINITY)), "5 % [4, ∞]");
    }

    #[test]
    fn an_exact_number_has_no_interval_and_another_confidence_is_said() {
        assert_eq!(estimate_ns(&Estimate::exact(1500.0)), "1.50 µs");
        let e = Estimate { confidence: 0.9, ..Estimate::new(100.0, 95.0, 105.0) };
        assert_eq!(estimate_ns(&e), "100 ns ± 5 (90 %)");
    }

    #[test]
    fn an_estimate_near_zero_takes_the_unit_of_its_interval() {
        assert_eq!(estimate_s(&Estimate::new(0.000_000_1, -0.02, 0.02)), "0 ms ± 20");
        assert_eq!(estimate_share(&Estimate::new(-0.0001, -0.0141, 0.0139)), "0.0 % ± 1.4");
    }

    #[test]
    fn shares_drop_idle_zeros() {
        assert_eq!(share(0.058), "5.8 %");
        assert_eq!(share(0.975), "97.5 %");
        assert_eq!(share(0.000_01), "0.001 %");
        assert_eq!(share(1.0), "100 %");
        assert_eq!(share(f64::NAN), "unknown");
    }

    #[test]
    fn large_estimated_counts_take_a_prefix() {
        assert_eq!(estimate_number(&Estimate::new(1.18e9, 1.15e9, 1.21e9)), "1.18 G ± 0.03");
        assert_eq!(estimate_number(&Estimate::new(212.0, 198.0, 226.0)), "212 ± 14");
        assert_eq!(estimate_number(&Estimate::exact(1_000_000.0)), "1,000,000");
    }

    #[test]
    fn sizes_counts_and_rates() {
        assert_eq!(bytes(512.0 * 1024.0), "512 KiB");
        assert_eq!(bytes(1_300_000.0), "1.24 MiB");
        assert_eq!(bytes_per_s(480.4), "480 B/s");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(about(510.4), "510");
        assert_eq!(about(0.123_456), "0.123");
        assert_eq!(rate(427.3), "427/s");
        assert_eq!(rate(123_456.0), "123 k/s");
        assert_eq!(share(0.01), "1 %");
    }

    #[test]
    fn numbers_with_little_place() {
        let brief_of = [0.0, 0.0312, 7.0, 42.5, 427.0, 999.0, 999.9, 1000.0, 12_345.0, 999_999.0, 1.2e9].map(brief);
        assert_eq!(brief_of, ["0", "0.0312", "7", "42.5", "427", "999", "1.00k", "1.00k", "12.3k", "1.00M", "1.20G"]);
        assert_eq!(brief_estimate(&Estimate::new(12_345.0, 11_840.0, 12_850.0)), "12.3k±4%");
        assert_eq!(brief_estimate(&Estimate::new(300.0, -100.0, 1_220.0)), "≤1.22k");
        assert_eq!(brief_estimate(&Estimate::exact(17.0)), "17");
        assert_eq!(brief(f64::NAN), "unknown");
    }

    #[test]
    fn periods_keep_every_digit() {
        assert_eq!(period(Mechanism::CpuClock, 2_340_061), "2.340061 ms");
        assert_eq!(period(Mechanism::Pebs, 100_003), "100,003 events");
        assert_eq!(period(Mechanism::Software, 1), "1 event");
        assert_eq!(period(Mechanism::IbsOp, 65_536), "65,536 ops");
    }

    #[test]
    fn dates_and_spans() {
        assert_eq!(date(0.0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_778_311_740.0), "2026-05-09 07:29 UTC");
        assert_eq!(date(-60.0), "1969-12-31 23:59 UTC");
        assert_eq!(span(185.0), "3 minutes");
        assert_eq!(span(1.2), "1 second");
        assert_eq!(span(7300.0), "2 hours");
    }
}
