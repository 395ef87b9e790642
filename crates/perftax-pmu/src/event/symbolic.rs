//! Symbolic names of any CPU, through libpfm: `skx::UOPS_RETIRED:ALL`.

use perftax_doc::Mechanism;

use crate::error::{Error, Result};
use crate::machine::Vendor;
use crate::sys::libpfm::{Encoded, Libpfm, PmuInfo, Refusal};

use super::catalog::Catalog;
use super::modifiers::MODIFIER_LETTERS;
use super::parse::Resolved;
use super::pmu_event::mechanism;
use super::scan::{Item, syntax};
use super::{Event, Modifiers, Rate, nearest};

/// Resolves `pmu::NAME[:MASK…][:modifiers]`, which stands at the item. Where libpfm takes the whole text, its own
/// modifiers count (`:u`, `:c=2`, `:precise=2`); else the last part is read as perf's letters.
///
/// # Errors
/// `Unsupported` where libpfm is not installed or cannot encode the event here, `UnknownEvent` with the nearest names,
/// `EventSyntax` in libpfm's words.
pub(super) fn resolve(text: &str, item: &Item, catalog: &Catalog) -> Result<Resolved> {
    let written = &text[item.start..item.end];
    let libpfm = catalog.libpfm().map_err(|why| missing(written, why))?;
    encode(text, item, written, libpfm, catalog)
}

/// Resolves the vendor's name of an event without a prefix, `inst_retired.any:u`, among those of the CPU that runs.
/// None where libpfm is not installed or this CPU has no such event.
pub(super) fn native(text: &str, item: &Item, catalog: &Catalog) -> Option<Resolved> {
    let written = &text[item.start..item.end];
    let libpfm = catalog.libpfm().ok()?;
    let present = libpfm.pmus().into_iter().filter(is_native);
    let with_prefix = |pmu: PmuInfo| format!("{}::{}", pmu.name, written.replace('.', ":"));
    present.map(with_prefix).find_map(|name| encode(text, item, &name, libpfm, catalog).ok())
}

/// Whether a PMU is that of this CPU's cores, under its own name (`ix86arch` is every Intel CPU's least common part).
pub(super) fn is_native(pmu: &PmuInfo) -> bool {
    pmu.is_present && pmu.is_core && !pmu.name.ends_with("arch")
}

/// Encodes `written`, which is the item's text, or that with a prefix.
fn encode(text: &str, item: &Item, written: &str, libpfm: &Libpfm, catalog: &Catalog) -> Result<Resolved> {
    let (encoded, name, modifiers) = match libpfm.encode(written) {
        Ok(encoded) => (encoded, written, (item.end, item.end)),
        Err(refusal) => {
            let tail = written.rsplit_once(':').filter(|(name, letters)| is_modifiers(name, letters));
            let Some((name, letters)) = tail else { return Err(refused(text, item, written, refusal, libpfm)) };
            let encoded = libpfm.encode(name).map_err(|refusal| refused(text, item, name, refusal, libpfm))?;
            (encoded, name, (item.end - letters.len(), item.end))
        }
    };
    let pmu = pmu_of(name, libpfm);
    let vendor = pmu.as_ref().and_then(|pmu| vendor_of(&pmu.description));
    let mut event = Event::bare(
        &text[item.start..item.end],
        encoded.pmu_type,
        encoded.config,
        mechanism("", encoded.pmu_type, encoded.config),
    );
    (event.config1, event.config2) = (encoded.config1, encoded.config2);
    event.core = catalog.pmu_of_type(encoded.pmu_type).filter(|pmu| pmu.is_core).map(|pmu| pmu.name.clone());
    event.mechanism = catalog.pmu_of_type(encoded.pmu_type).map_or(event.mechanism, |found| match found.name.as_str() {
        "cpu" => event.mechanism,
        other => mechanism(other, encoded.pmu_type, encoded.config),
    });
    event.rate = match (encoded.rate, encoded.is_frequency) {
        (0, _) => None,
        (rate, true) => Some(Rate::Frequency(rate)),
        (rate, false) => Some(Rate::Period(rate)),
    };
    let ibs = matches!(event.mechanism, Mechanism::IbsOp | Mechanism::IbsFetch)
        || (encoded.precise > 0 && vendor.unwrap_or(catalog.vendor()) == Vendor::Amd);
    let mut resolved = Resolved::of(event, "", modifiers);
    resolved.vendor = vendor;
    resolved.preset = Some(preset(&encoded, ibs));
    Ok(resolved)
}

/// Why an event of this name is not of the CPU that runs, where libpfm can tell: its code means something else here.
pub(super) fn foreign(name: &str, catalog: &Catalog) -> Option<String> {
    let pmu = pmu_of(name, catalog.libpfm().ok()?)?;
    let foreign = pmu.is_core && !pmu.is_present;
    foreign.then(|| format!("{}:: are events of {}, which this CPU is not", pmu.name, pmu.description))
}

/// The PMU whose prefix the name has.
pub(super) fn pmu_of(name: &str, libpfm: &Libpfm) -> Option<PmuInfo> {
    let (prefix, _) = name.split_once("::")?;
    libpfm.pmus().into_iter().find(|pmu| pmu.name.eq_ignore_ascii_case(prefix))
}

fn preset(encoded: &Encoded, guests_by_default: bool) -> Modifiers {
    Modifiers {
        exclude_user: encoded.exclude_user,
        exclude_kernel: encoded.exclude_kernel,
        // One level alone leaves the hypervisor out too, as in perf; neither means that it alone is wanted.
        exclude_hv: encoded.exclude_user != encoded.exclude_kernel,
        exclude_host: encoded.exclude_host,
        exclude_guest: encoded.exclude_guest || !(encoded.exclude_host || guests_by_default),
        precise: encoded.precise,
        precise_max: false,
        pinned: encoded.pinned,
        exclusive: encoded.exclusive,
    }
}

fn is_modifiers(name: &str, letters: &str) -> bool {
    !name.ends_with(':') && !letters.is_empty() && letters.chars().all(|c| MODIFIER_LETTERS.contains(c))
}

fn vendor_of(description: &str) -> Option<Vendor> {
    let makers = [("Intel", Vendor::Intel), ("AMD", Vendor::Amd), ("ARM", Vendor::Arm)];
    makers.into_iter().find(|(maker, _)| description.starts_with(maker)).map(|(_, vendor)| vendor)
}

fn missing(written: &str, why: &str) -> Error {
    Error::Unsupported {
        what: format!("look up {written}"),
        why: format!("names with '::' come from libpfm, which cannot be loaded ({why})"),
        remedy: "sudo apt-get install libpfm4".into(),
    }
}

fn refused(text: &str, item: &Item, name: &str, refusal: Refusal, libpfm: &Libpfm) -> Error {
    let Some(pmu) = pmu_of(name, libpfm) else {
        let prefix = name.split("::").next().unwrap_or_default();
        let names = libpfm.pmus().into_iter().map(|pmu| format!("{}::", pmu.name));
        return Error::UnknownEvent { name: name.into(), nearest: nearest::among(&format!("{prefix}::"), names) };
    };
    // The part of an event's name, or its masks, is what was mistyped: suggest whole names either way.
    let events = libpfm.events(&pmu);
    let head = name.split_once("::").map_or(name, |(_, rest)| rest).split(':').next().unwrap_or_default();
    let of_head = format!("{}::{head}", pmu.name);
    let is_known = |full: &str| full.eq_ignore_ascii_case(&of_head);
    let known =
        events.iter().any(|event| is_known(&event.name) || event.name.rsplit_once(':').is_some_and(|(left, _)| is_known(left)));
    match refusal {
        Refusal::NotFound => {
            Error::UnknownEvent { name: name.into(), nearest: nearest::among(name, events.into_iter().map(|e| e.name)) }
        }
        Refusal::Other(why) if known => {
            let masks: Vec<String> = events
                .iter()
                .filter_map(|event| {
                    event.name.rsplit_once(':').filter(|(left, _)| is_known(left)).map(|(_, mask)| mask.to_string())
                })
                .collect();
            let wanted = name.rsplit(':').next().unwrap_or_default();
            let near = nearest::among(wanted, masks.iter().cloned());
            let masks = if near.is_empty() { masks.into_iter().take(8).collect() } else { near };
            let hint = if masks.is_empty() { String::new() } else { format!("; {head} has {}", masks.join(", ")) };
            let at = item.start + name.rfind(':').map_or(0, |colon| colon + 1);
            let where_ = if pmu.is_core { String::new() } else { format!(" ({} is not on this machine)", pmu.description) };
            syntax(text, at, &format!("libpfm says: {why}{where_}{hint}"))
        }
        Refusal::Other(why) => syntax(text, item.start, &format!("libpfm says: {why}")),
    }
}
