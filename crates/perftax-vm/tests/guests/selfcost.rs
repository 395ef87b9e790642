//! `perftax selfcost` in the emulated machine, on the distribution's kernel: what hardware events cost, counted in instructions. Needs the machine
//! and perftax built (`make machine build`) and PAPI (`scripts/setup`); `make test` sees to that.

use crate::common;
use std::path::Path;

use perftax_doc::{CostUnit, Price, PriceSection, Selfcost};

/// PAPI as the host has it, brought along with the libraries that it needs.
fn papi() -> String {
    let folder = Path::new("/usr/lib/x86_64-linux-gnu");
    let found = perftax_pmu::sys::libpapi::LIBRARIES.iter().map(|file| folder.join(file)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("no PAPI in {}: scripts/setup", folder.display())).display().to_string()
}

/// The list, twice in one boot.
fn twice(only: &str) -> [Selfcost; 2] {
    let perftax = common::perftax();
    let folder = tempfile::tempdir().unwrap();
    let script = format!("for run in a b; do perftax selfcost --quick --only {only} --json $run.json || exit 9; done");
    let (output, errors, _) = common::boot_with(&["sh", "-c", &script].map(String::from), &perftax, |guest| {
        guest.with = vec![papi()];
        guest.outputs = vec!["a.json".into(), "b.json".into()];
        guest.output_folder = folder.path().into();
    });
    ["a.json", "b.json"].map(|name| {
        let file = std::fs::read(folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}\n{output}{errors}"));
        serde_json::from_slice(&file).unwrap_or_else(|error| panic!("{name}: {error}"))
    })
}

fn price<'a>(doc: &'a Selfcost, set: &str, operation: &str, method: &str, events: u32) -> &'a Price {
    let is_it =
        |p: &&Price| (p.set.as_str(), p.operation.as_str(), p.method.as_str(), p.events) == (set, operation, method, events);
    let names = || doc.prices.iter().map(|p| format!("{} {}", p.set, p.name())).collect::<Vec<_>>().join("\n");
    doc.prices.iter().find(is_it).unwrap_or_else(|| panic!("no {operation} by {method} of {events} {set} in\n{}", names()))
}

fn cost(doc: &Selfcost, set: &str, operation: &str, method: &str, events: u32) -> f64 {
    let price = price(doc, set, operation, method, events);
    price.cost.unwrap_or_else(|| panic!("{}: {:?}", price.name(), price.remark)).median.estimate
}

#[test]
fn hardware_events_are_counted_in_instructions_and_to_the_instruction() {
    let [first, second] = twice("measuring");
    let [a, b] = [&first, &second];
    assert_eq!((a.unit, a.ticks_per_unit), (CostUnit::Instructions, 1.0));
    // One run like the other, one round like the other, to the instruction.
    let measured: Vec<&Price> = a.of(PriceSection::Measuring).filter(|price| price.cost.is_some()).collect();
    assert!(measured.len() > 100, "{}", measured.len());
    for price in measured {
        let (here, there) = (price.cost.unwrap().median, b.same(price).and_then(|same| same.cost).map(|cost| cost.median));
        if price.remark.as_ref().is_some_and(|remark| remark.contains("multiplexed")) {
            continue;
        }
        // In turns it matters which one had the counter before: the kernel spares itself a write where it is the same. The order is the seed's.
        if !price.method.starts_with("in turns") {
            assert_eq!((here.low, here.high), (here.estimate, here.estimate), "{} of {}", price.name(), price.set);
        }
        assert_eq!(Some(here), there, "{} of {}", price.name(), price.set);
    }
    // The ways to read a counter, by what they cost.
    let hardware = |operation: &str, method: &str, events| cost(a, "hardware", operation, method, events);
    let [rdpmc, call] = ["rdpmc", "read(), singles"].map(|method| hardware("read", method, 1));
    assert!(rdpmc < 100.0 && call > 10.0 * rdpmc, "rdpmc {rdpmc}, read() {call}");
    // A counter that is never started by its reader starts at no zero: what was counted between is the difference of two readings.
    let twice = hardware("start, stop, read", "rdpmc, twice", 1);
    // An instruction or two around the reading are there once: how many is the compiler's choice.
    assert!((2.0 * rdpmc - 2.0..2.5 * rdpmc).contains(&twice), "{rdpmc} once, {twice} twice");
    assert!(twice < 0.1 * hardware("start, stop, read", "ioctl and read(), singles", 1));
    // Starting a group grows by the same for each event.
    let fit =
        |method: &str| a.fits.iter().find(|f| (&*f.set, &*f.operation, &*f.method) == ("hardware", "start", method)).unwrap();
    let group = fit("ioctl, group");
    assert!(group.events == [1, 2, 3, 4, 6] && group.per_event.estimate > 100.0 && group.worst_residual < 0.02, "{group:?}");
    let reading = a.fits.iter().find(|f| (&*f.set, &*f.method) == ("hardware", "rdpmc")).unwrap();
    // To the instruction, but for the arithmetic of floating point.
    let width = reading.per_event.high - reading.per_event.low;
    assert!(reading.worst_residual < 1e-9 && width.abs() < 1e-9, "{reading:?}");
    // Singles are no line: each ENABLE schedules all of them anew, so that the increments grow by the same.
    assert!(!fit("ioctl, singles").is_line(), "{:?}", fit("ioctl, singles"));
    let software = |events| cost(a, "software", "start", "ioctl, singles", events) / f64::from(events);
    let [from_4, from_8] = [(4, 8), (8, 16)].map(|(less, more)| (software(more) - software(less)) / f64::from(more - less));
    assert!((from_8 / from_4 - 1.0).abs() < 0.05, "{from_4} and {from_8} for each event and each other one");
    // What there are no counters for is said, and not measured.
    let crowd = price(a, "hardware", "start, stop, read", "ioctl and read(), group", 16);
    assert!(crowd.cost.is_none() && crowd.remark.is_some(), "{crowd:?}");
    // What was promised of our library, counted.
    let promised: Vec<_> = a.ratios.iter().filter(|ratio| ratio.bound.is_some()).collect();
    assert_eq!(promised.len(), 10, "{promised:#?}");
    assert!(promised.iter().all(|ratio| ratio.is_kept() == Some(true)), "{promised:#?}");
}
