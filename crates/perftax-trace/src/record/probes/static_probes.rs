//! A program's static probes.

use std::path::Path;

use perftax_doc::steps::Setting;
use perftax_pmu::event::fetch_text;
use perftax_pmu::{Error, Result};
use perftax_symbols::{StaticProbe, static_probes};
use perftax_target::Subject;

use super::{Plan, Says, TEXT, Wanted, file};
use crate::tag::TagProbes;

/// Where they stand, and what they fetch.
///
/// # Errors
/// Where the program has no such probes, or the argument is no address.
pub(super) fn plan(wanted: &TagProbes, subject: &Subject) -> Result<Plan> {
    let (binary, place) = file::find(wanted.binary.as_deref(), subject)?;
    let all = static_probes(&place)?;
    let mut probes = Vec::new();
    for (name, text, says) in [(&wanted.start, wanted.text, Says::Start), (&wanted.done, None, Says::Done)] {
        for probe in sites(&all, wanted, name, &binary)? {
            let fetch = text.map(|n| fetch(probe, n)).transpose()?;
            probes.push(Wanted {
                says,
                offset: probe.offset,
                is_return: false,
                semaphore: probe.semaphore,
                fetches: fetch.into_iter().collect(),
            });
        }
    }
    Ok(Plan { binary, place, probes })
}

/// The places of one probe.
fn sites<'a>(all: &'a [StaticProbe], wanted: &TagProbes, name: &str, binary: &Path) -> Result<Vec<&'a StaticProbe>> {
    let sites: Vec<&StaticProbe> = all.iter().filter(|probe| probe.provider == wanted.provider && probe.name == name).collect();
    if !sites.is_empty() {
        return Ok(sites);
    }
    let mut known: Vec<String> = all.iter().map(|probe| format!("{}:{}", probe.provider, probe.name)).collect();
    known.sort();
    known.dedup();
    let has = match known.as_slice() {
        [] => "that file has no static probes at all (usdt:/PATH/TO/BINARY:PROVIDER:START,DONE names another one)".into(),
        known => format!("it has {}", known.join(", ")),
    };
    let value = format!("usdt with {}:{name}", wanted.provider);
    Err(Error::Argument { argument: Setting::Tag.name(), value, needed: format!("a probe of {}: {has}", binary.display()) })
}

/// How the kernel fetches the text.
fn fetch(probe: &StaticProbe, n: usize) -> Result<String> {
    let wrong = |why: String| Error::Argument {
        argument: Setting::Tag.name(),
        value: format!("usdt with {}@{n}", probe.name),
        needed: format!("an argument that is the address of a text: {why}"),
    };
    let count = probe.arguments.len();
    let argument = probe.arguments.get(n - 1).ok_or_else(|| wrong(format!("{} has {count}", probe.name)))?;
    match fetch_text(argument) {
        Ok(fetch) => Ok(format!("{TEXT}={fetch}")),
        Err(why) => Err(wrong(format!("argument {n} is {argument}, which {why}"))),
    }
}
