//! `pmu/term,term=value/`: terms put into the bits that sysfs names.

use perftax_doc::Mechanism;

use crate::error::{Error, Result};
use crate::machine::Vendor;

use super::cache;
use super::catalog::{Catalog, Pmu, is_core_name};
use super::format::{FormatField, Word};
use super::generic;
use super::nearest;
use super::scan::syntax;
use super::{ABSENT_PMU, Event, Rate, pmu_types};

/// Aliases may not name each other deeper than this.
const ALIAS_DEPTH: u8 = 4;

/// Terms of an Intel core (arch/x86/events/intel/core.c, Linux 7.1). Which of them a CPU has only its own sysfs tells: `eq` and the second half of
/// `umask` came with version 6, `acr_mask` with automatic counter reload, `snoop_rsp` with Crestmont.
const INTEL_CORE: &[(&str, &str)] = &[
    ("event", "config:0-7"),
    ("umask", "config:8-15"),
    ("edge", "config:18"),
    ("pc", "config:19"),
    ("inv", "config:23"),
    ("cmask", "config:24-31"),
    ("in_tx", "config:32"),
    ("in_tx_cp", "config:33"),
    ("eq", "config:36"),
    ("offcore_rsp", "config1:0-63"),
    ("snoop_rsp", "config1:0-63"),
    ("ldlat", "config1:0-15"),
    ("frontend", "config1:0-23"),
    ("acr_mask", "config2:0-63"),
];

/// Formats of PMUs that a prediction for another machine may name while this one has none (arch/x86/events:
/// intel/core.c and amd/ibs.c, drivers/perf/arm_spe_pmu.c; Linux 7.1).
const ABSENT_FORMATS: &[(&str, &[(&str, &str)])] = &[
    ("cpu", INTEL_CORE),
    ("cpu_core", INTEL_CORE),
    ("cpu_atom", INTEL_CORE),
    ("cpu_lowpower", INTEL_CORE),
    (
        "ibs_op",
        &[
            ("cnt_ctl", "config:19"),
            ("l3missonly", "config:16"),
            ("ldlat", "config1:0-11"),
            ("strmst", "config1:12"),
            ("swfilt", "config2:0"),
        ],
    ),
    (
        "ibs_fetch",
        &[("rand_en", "config:57"), ("l3missonly", "config:59"), ("fetchlat", "config1:0-10"), ("swfilt", "config2:0")],
    ),
    (
        "arm_spe_0",
        &[
            ("ts_enable", "config:0"),
            ("pa_enable", "config:1"),
            ("pct_enable", "config:2"),
            ("jitter", "config:16"),
            ("branch_filter", "config:32"),
            ("load_filter", "config:33"),
            ("store_filter", "config:34"),
            ("discard", "config:35"),
            ("branch_filter_mask", "config:36"),
            ("load_filter_mask", "config:37"),
            ("store_filter_mask", "config:38"),
            ("simd_filter", "config:39"),
            ("simd_filter_mask", "config:40"),
            ("float_filter", "config:41"),
            ("float_filter_mask", "config:42"),
            ("event_filter", "config1:0-63"),
            ("min_latency", "config2:0-11"),
            ("inv_event_filter", "config3:0-63"),
            ("inv_data_src_filter", "config4:0-63"),
        ],
    ),
];

/// AMD's `event` has twelve bits in two pieces.
const AMD_EVENT_FORMAT: &str = "config:0-7,32-35";

/// Terms of perf that change what is recorded, not what is counted: perftax sets those itself.
const RECORDING_TERMS: &[&str] = &[
    "call-graph",
    "stack-size",
    "max-stack",
    "time",
    "branch_type",
    "inherit",
    "no-inherit",
    "overwrite",
    "no-overwrite",
    "percore",
    "aux-output",
    "aux-sample-size",
    "metric-id",
];

/// Resolves an event of the PMU `name` with the terms `text[open + 1..close]`.
///
/// # Errors
/// `UnknownEvent` for an unknown PMU or term name, `EventSyntax` for a term that cannot be read or does not fit.
pub(super) fn resolve(text: &str, name_at: usize, open: usize, close: usize, catalog: &Catalog) -> Result<(Event, String)> {
    let name = text[name_at..open].trim_end();
    let pmu = match catalog.pmu(name) {
        Some(pmu) => pmu.clone(),
        None => absent(name, catalog).ok_or_else(|| unknown_pmu(name, catalog))?,
    };
    if matches!(name, "uprobe" | "kprobe") {
        let why = "a probe needs a path or symbol: write uprobe:PATH:SYMBOL, uprobe:PATH+0xOFFSET or uretprobe:…";
        return Err(syntax(text, name_at, why));
    }
    let mut builder =
        Builder { text, pmu: &pmu, catalog, event: Event::bare(&text[name_at..=close], pmu.pmu_type, 0, Mechanism::Pmi) };
    let mut at = open + 1;
    for term in split_terms(&text[open + 1..close]) {
        builder.term(term, at, 0)?;
        at += term.len() + 1;
    }
    let mut event = builder.event;
    event.mechanism = mechanism(name, event.pmu_type, event.config);
    event.core = pmu.is_core.then(|| pmu.name.clone());
    Ok((event, pmu.name))
}

/// The event that a bare alias means, and its PMU: of a core PMU, or of the only other PMU that has it.
///
/// # Errors
/// `EventSyntax` where several PMUs have it; whatever its terms say.
pub(super) fn alias(text: &str, at: usize, name: &str, catalog: &Catalog) -> Result<Option<(Event, String)>> {
    let having: Vec<&Pmu> = catalog.pmus().iter().filter(|pmu| pmu.aliases.contains_key(name)).collect();
    let of_cores: Vec<&Pmu> = having.iter().copied().filter(|pmu| pmu.is_core).collect();
    let pmu = match (of_cores.as_slice(), having.as_slice()) {
        ([core], _) => core,
        ([], []) => return Ok(None),
        ([], [only]) => only,
        ([], several) | (several, _) => {
            let ways: Vec<String> = several.iter().take(6).map(|pmu| format!("{}/{name}/", pmu.name)).collect();
            return Err(syntax(text, at, &format!("several PMUs have an event '{name}': write one of {}", ways.join(", "))));
        }
    };
    let written = format!("{}/{name}/", pmu.name);
    let open = pmu.name.len();
    let (mut event, pmu) = resolve(&written, 0, open, written.len() - 1, catalog)?;
    event.name = name.into();
    Ok(Some((event, pmu)))
}

/// How an event of a PMU is sampled when no precise level is asked for.
pub(super) fn mechanism(pmu: &str, pmu_type: u32, config: u64) -> Mechanism {
    match pmu_type {
        pmu_types::SOFTWARE if matches!(config, generic::CPU_CLOCK | generic::TASK_CLOCK) => Mechanism::CpuClock,
        pmu_types::SOFTWARE => Mechanism::Software,
        pmu_types::TRACEPOINT => Mechanism::Tracepoint,
        pmu_types::BREAKPOINT => Mechanism::Breakpoint,
        _ if pmu.starts_with("ibs_op") => Mechanism::IbsOp,
        _ if pmu.starts_with("ibs_fetch") => Mechanism::IbsFetch,
        _ if pmu.starts_with("arm_spe") => Mechanism::Spe,
        _ => Mechanism::Pmi,
    }
}

/// A PMU that this machine lacks but whose terms are known.
fn absent(name: &str, catalog: &Catalog) -> Option<Pmu> {
    let known = if name.starts_with("arm_spe_") { "arm_spe_0" } else { name };
    let (_, fields) = ABSENT_FORMATS.iter().find(|(pmu, _)| *pmu == known)?;
    let read = |(field, bits): &(&str, &str)| {
        let bits = if *field == "event" && catalog.vendor() == Vendor::Amd { AMD_EVENT_FORMAT } else { bits };
        Some((field.to_string(), FormatField::parse(bits)?))
    };
    let is_core = is_core_name(name);
    // The core PMU of x86 has registered itself as PERF_TYPE_RAW ever since, and so does that of the performance cores; the others get a number at boot.
    let pmu_type = if matches!(name, "cpu" | "cpu_core") { pmu_types::RAW } else { ABSENT_PMU };
    Some(Pmu { name: name.into(), pmu_type, is_core, formats: fields.iter().filter_map(read).collect(), ..Pmu::default() })
}

fn unknown_pmu(name: &str, catalog: &Catalog) -> Error {
    let names = catalog.pmus().iter().map(|pmu| format!("{}//", pmu.name));
    Error::UnknownEvent { name: format!("{name}//"), nearest: nearest::among(&format!("{name}//"), names) }
}

struct Builder<'a> {
    text: &'a str,
    pmu: &'a Pmu,
    catalog: &'a Catalog,
    event: Event,
}

impl Builder<'_> {
    /// One term, which stands at `at`; terms of aliases all stand where the alias is named.
    fn term(&mut self, term: &str, at: usize, depth: u8) -> Result<()> {
        let at = at + (term.len() - term.trim_start().len());
        let term = term.trim();
        let (key, value) = match term.split_once('=') {
            Some((key, value)) => (key.trim_end(), Some(value.trim_start())),
            None => (term, None),
        };
        let value_at = if depth > 0 { at } else { at + value.map_or(0, |value| term.len() - value.len()) };
        if key.is_empty() {
            return if term.is_empty() { Ok(()) } else { Err(syntax(self.text, at, "a term needs a name before '='")) };
        }
        if let Some(field) = self.pmu.formats.get(key) {
            let number = value.map_or(Ok(1), |value| self.number(value, value_at))?;
            return self.deposit(key, field, number, value_at);
        }
        if let Some(bits) = self.pmu.unread_formats.get(key) {
            let why = format!("{key} stands in {bits} (sysfs), which is no word of perf_event_attr that is known here");
            return Err(syntax(self.text, at, &why));
        }
        match (key, value) {
            ("period", Some(value)) => self.event.rate = Some(Rate::Period(self.positive(value, value_at)?)),
            ("freq", Some(value)) => self.event.rate = Some(Rate::Frequency(self.positive(value, value_at)?)),
            ("name", Some(value)) => self.event.name = value.trim_matches(['\'', '"']).into(),
            (key, value) if Word::parse(key).is_some() => {
                let number = value.map_or(Ok(1), |value| self.number(value, value_at))?;
                if let Some(word) = Word::parse(key) {
                    *self.word(word) = number;
                }
            }
            (key, None) if self.pmu.aliases.contains_key(key) => self.alias(key, at, depth)?,
            (key, None) if self.generic(key) => {}
            (key, None) if raw_code(key).is_some() => self.event.config = raw_code(key).unwrap_or_default(),
            (key, _) if RECORDING_TERMS.contains(&key) => {
                let why = format!("'{key}' says what to record, which perftax decides; leave it out");
                return Err(syntax(self.text, at, &why));
            }
            (key, _) => return Err(self.unknown_term(key, at)),
        }
        Ok(())
    }

    fn alias(&mut self, key: &str, at: usize, depth: u8) -> Result<()> {
        if depth >= ALIAS_DEPTH {
            return Err(syntax(self.text, at, &format!("the alias '{key}' names itself")));
        }
        let terms = self.pmu.aliases.get(key).cloned().unwrap_or_default();
        for term in split_terms(&terms) {
            if let Some((field, _)) = term.split_once("=?") {
                let why = format!("'{key}' needs a value for {field}: write {field}=VALUE with its other terms ({terms})");
                return Err(syntax(self.text, at, &why));
            }
            self.term(term, at, depth + 1)?;
        }
        Ok(())
    }

    /// A generic name inside the slashes of a core PMU: `cpu_core/cycles/`, `cpu_atom/L1-dcache-loads/`.
    fn generic(&mut self, key: &str) -> bool {
        let hardware = generic::find(generic::HARDWARE, key).map(|found| (pmu_types::HARDWARE, found.config));
        let found = hardware.or_else(|| cache::config(key).map(|config| (pmu_types::HW_CACHE, config)));
        let Some((pmu_type, config)) = found.filter(|_| self.pmu.is_core) else { return false };
        // PERF_PMU_TYPE_SHIFT (linux/perf_event.h): on hybrid machines the upper half says which PMU is meant. Of a PMU that has no number here only the
        // event is known.
        (self.event.pmu_type, self.event.config) = match self.pmu.pmu_type {
            ABSENT_PMU => (ABSENT_PMU, config),
            _ if self.pmu.name == "cpu" => (pmu_type, config),
            number => (pmu_type, u64::from(number) << 32 | config),
        };
        true
    }

    fn deposit(&mut self, key: &str, field: &FormatField, value: u64, at: usize) -> Result<()> {
        if value > field.max() {
            let why = format!("{value:#x} does not fit: {key} has {} bits, at most {:#x}", field.width(), field.max());
            return Err(syntax(self.text, at, &why));
        }
        let word = self.word(field.word);
        *word = field.deposit(*word, value);
        Ok(())
    }

    fn word(&mut self, word: Word) -> &mut u64 {
        match word {
            Word::Config => &mut self.event.config,
            Word::Config1 => &mut self.event.config1,
            Word::Config2 => &mut self.event.config2,
            Word::Config3 => &mut self.event.config3,
            Word::Config4 => &mut self.event.config4,
        }
    }

    fn number(&self, value: &str, at: usize) -> Result<u64> {
        number(value)
            .ok_or_else(|| syntax(self.text, at, &format!("'{value}' is not a number (decimal, or hexadecimal with 0x)")))
    }

    fn positive(&self, value: &str, at: usize) -> Result<u64> {
        match self.number(value, at)? {
            0 => Err(syntax(self.text, at, "0 would never sample: at least 1")),
            number => Ok(number),
        }
    }

    fn unknown_term(&self, key: &str, at: usize) -> Error {
        let known = self.pmu.formats.keys().chain(self.pmu.aliases.keys()).cloned();
        let common = ["config", "config1", "config2", "config3", "config4", "period", "freq", "name"].map(String::from);
        let known: Vec<String> = known.chain(common).collect();
        let near = nearest::among(key, known.iter().cloned());
        let hint = if near.is_empty() { known.iter().take(12).cloned().collect::<Vec<_>>() } else { near };
        let missing = match self.catalog.pmu(&self.pmu.name) {
            Some(_) => String::new(),
            None => format!(" ({} is not on this machine; only common terms are known)", self.pmu.name),
        };
        syntax(self.text, at, &format!("{} has no term '{key}'{missing}; it has {}", self.pmu.name, hint.join(", ")))
    }
}

/// Terms between commas, commas in quotes excepted.
fn split_terms(terms: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    terms.split(move |c| {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(opened), c) if c == opened => quote = None,
            (None, ',') => return true,
            _ => {}
        }
        false
    })
}

/// perf's numbers: decimal, or hexadecimal behind 0x.
pub(super) fn number(text: &str) -> Option<u64> {
    let digits =
        |text: &str, radix| text.chars().all(|c| c.is_digit(radix)).then(|| u64::from_str_radix(text, radix).ok()).flatten();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => digits(hexadecimal, 16),
        None => digits(text, 10),
    }
}

/// `r1c2`: raw hexadecimal.
pub(super) fn raw_code(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    let is_hexadecimal = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    is_hexadecimal.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}
