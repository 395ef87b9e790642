//! `perftax selfcost` on this machine: what it writes, not how fast the machine is. Needs PAPI and perf (`scripts/setup`), and root, or
//! kernel.perf_event_paranoid of -1, for events on a CPU.

use perftax_doc::{Price, PriceSection, Selfcost};

use crate::common::perftax;

fn priced(arguments: &[&str]) -> Selfcost {
    let output = perftax(&[&["selfcost", "--quick", "--json", "-"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}"))
}

#[test]
fn every_price_that_software_events_allow_is_there() {
    let doc = priced(&[]);
    let runs = doc.rounds as usize * doc.runs_per_round as usize;
    assert_eq!((doc.rounds, doc.runs_per_round, doc.is_quick), (6, 16, true));
    let software = |operation: &str, method: &str, events: u32| {
        let is_it = |p: &&Price| (&*p.set, &*p.operation, &*p.method, p.events) == ("software", operation, method, events);
        doc.prices.iter().find(is_it).unwrap_or_else(|| panic!("no {operation}, {method}, {events}"))
    };
    for events in [1, 2, 4, 8, 16] {
        for (operation, method) in [
            ("start", "ioctl, group"),
            ("start", "ioctl, singles"),
            ("start", "prctl"),
            ("stop", "ioctl, group"),
            ("stop", "prctl"),
            ("read", "read(), group"),
            ("read", "read(), singles"),
            ("start, stop, read", "ioctl and read(), group"),
            ("start, stop, read", "ioctl and read(), singles"),
            ("start, stop, read", "prctl and read()"),
        ] {
            let price = software(operation, method, events);
            let cost = price.cost.unwrap_or_else(|| panic!("{}: {:?}", price.name(), price.remark));
            assert_eq!((price.runs_ticks.len(), price.first_ticks.len()), (runs, 6), "{}", price.name());
            assert!(cost.median.low <= cost.median.estimate && cost.median.estimate <= cost.median.high, "{price:?}");
            assert!(cost.median.estimate > 0.0 && cost.first.is_some(), "{price:?}");
        }
    }
    // What there is no counter for is said, with the reason, and what is done instead is a price of its own.
    let rdpmc = software("read", "rdpmc", 1);
    assert!(rdpmc.cost.is_none() && rdpmc.remark.as_ref().unwrap().contains("page-faults"), "{rdpmc:?}");
    assert!(software("read", "in turns: the page, then read()", 1).cost.is_some());
    // Our library, the bare call and PAPI, in turns.
    for method in ["in turns: our library", "in turns: bare system call", "in turns: PAPI"] {
        assert!(software("read", method, 1).cost.is_some(), "{:?}", software("read", method, 1));
    }
    assert_eq!(doc.ratios.iter().filter(|ratio| ratio.bound.is_some()).count() % 5, 0);
    for section in PriceSection::ALL {
        assert!(doc.of(section).any(|price| price.cost.is_some()), "{section:?}");
    }
    // Every condition of a switch, in every shape, against none.
    let switches: Vec<&Price> =
        doc.of(PriceSection::Switch).filter(|price| price.cost.is_some() && price.set != "hardware").collect();
    assert_eq!(switches.len(), 4 * 8, "{:#?}", doc.of(PriceSection::Switch).collect::<Vec<_>>());
    let compared = switches.iter().filter(|price| doc.ratios.iter().any(|ratio| ratio.of == price.name()));
    assert_eq!(compared.count(), 4 * 7);
    // A thread that comes and goes, too.
    let tasks = doc.of(PriceSection::Task).filter(|price| price.cost.is_some() && price.set != "hardware");
    let against_none = |price: &&Price| doc.ratios.iter().any(|ratio| ratio.of == price.name());
    assert_eq!(tasks.filter(against_none).count(), 4, "{:#?}", doc.of(PriceSection::Task).collect::<Vec<_>>());
    assert!(doc.fits.iter().any(|fit| fit.operation == "start" && fit.events == [1, 2, 4, 8, 16]), "{:#?}", doc.fits);
}

#[test]
fn a_part_alone_and_the_report_of_two() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.json", "b.json"].map(|name| folder.path().join(name).display().to_string());
    for file in &files {
        assert!(perftax(&["selfcost", "--quick", "--only", "call", "--json", file]).status.success());
    }
    let output = perftax(&["report", &files[0], &files[1]]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("B/A") && said.contains("getppid()") && said.contains("MODIFY_ATTRIBUTES"),
        "{said}"
    );
    assert!(!said.contains("NaN") && !said.contains("Starting"), "{said}");
    let one = perftax(&["report", &files[0]]);
    assert!(String::from_utf8_lossy(&one.stdout).contains("Other calls"));
}

#[test]
fn what_is_asked_wrongly_is_said() {
    let output = perftax(&["selfcost", "--only", "everything"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("--only is everything, needs one or more of measuring"),
        "{output:?}"
    );
    let output = perftax(&["selfcost", "--cpu", "9999", "--quick"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--cpu is 9999"), "{output:?}");
}
