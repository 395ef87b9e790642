//! What samples carry beside the basic record, and what that costs on top of α.

use std::collections::BTreeMap;

use perftax_cost::payload::{of_chain, of_stack};
use perftax_cost::prediction::RAW_TERM;
use perftax_doc::{Estimate, PayloadTerm};

use crate::recording::attribute::sample_type;
use crate::recording::{Attribute, Carried};

/// The price of a sample's payload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Payload {
    /// All that has a price, ns a sample.
    pub(super) cost_ns: Option<Estimate>,
    /// Terms of the profile that are part of it.
    pub(super) priced: Vec<String>,
    /// Terms that the profile lacks.
    pub(super) unpriced: Vec<&'static str>,
    /// What no calibration has a term for, and how to record without it.
    pub(super) unknown: Vec<(&'static str, &'static str)>,
}

/// What is calibrated, by the name of the profile's term.
const CALIBRATED: [(u64, &str); 5] = [
    (sample_type::CALLCHAIN, PayloadTerm::Callchain.name()),
    (sample_type::REGS_USER, PayloadTerm::UserRegisters.name()),
    (sample_type::STACK_USER, PayloadTerm::UserStack.name()),
    (sample_type::BRANCH_STACK, PayloadTerm::Branches.name()),
    (sample_type::RAW, RAW_TERM),
];

/// What is not, and the option of `perf record` that asks for it.
const UNKNOWN: [(u64, &str, &str); 8] = [
    (sample_type::REGS_INTR, "registers at the interrupt", "--intr-regs"),
    (sample_type::PHYS_ADDR, "physical addresses", "--phys-data"),
    (sample_type::DATA_PAGE_SIZE, "sizes of data pages", "--data-page-size"),
    (sample_type::CODE_PAGE_SIZE, "sizes of code pages", "--code-page-size"),
    (sample_type::CGROUP, "cgroups", "--all-cgroups"),
    (sample_type::WEIGHT | sample_type::WEIGHT_STRUCT, "weights", "-W"),
    (sample_type::TRANSACTION, "transactions", "--transaction"),
    (sample_type::AUX, "AUX data", "--aux-sample"),
];

impl Payload {
    /// Of an event's samples, by the terms of a calibration.
    pub(super) fn of(attribute: &Attribute, carried: Carried, terms: &BTreeMap<String, Estimate>) -> Self {
        let mut payload = Self { cost_ns: None, priced: Vec::new(), unpriced: Vec::new(), unknown: Vec::new() };
        for (bit, term) in CALIBRATED.into_iter().filter(|(bit, _)| attribute.samples(*bit)) {
            let Some(term_ns) = terms.get(term) else {
                payload.unpriced.push(term);
                continue;
            };
            let cost_ns = match bit {
                sample_type::STACK_USER => of_stack(term_ns, attribute.stack_user_bytes, carried.stack_bytes),
                sample_type::CALLCHAIN => of_chain(term_ns, attribute.exclude_callchain_user, carried.chain_entries),
                _ => *term_ns,
            };
            payload.cost_ns = Some(payload.cost_ns.map_or(cost_ns, |sum: Estimate| sum.plus(&cost_ns)));
            payload.priced.push(term.into());
        }
        let carried = UNKNOWN.into_iter().filter(|(bits, ..)| attribute.sample_type & bits != 0);
        payload.unknown = carried.map(|(_, what, option)| (what, option)).collect();
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_costs_by_its_size() {
        let terms = BTreeMap::from([("user-stack".to_string(), Estimate::new(4700.0, 4500.0, 4900.0))]);
        let of_copied = |bytes, stack_bytes| {
            let attribute = Attribute { sample_type: sample_type::STACK_USER, stack_user_bytes: bytes, ..Attribute::default() };
            Payload::of(&attribute, Carried { stack_bytes, ..Carried::default() }, &terms).cost_ns.unwrap_or(Estimate::exact(0.0))
        };
        let of = |bytes| of_copied(bytes, None);
        assert_eq!(of(8192), terms["user-stack"]);
        // A shallow program has less than was asked for.
        assert_eq!(of_copied(8192, Some(1024.0)).estimate, of(1024).estimate);
        assert!(
            (of(1024).estimate - 1750.0).abs() < 30.0 && of(1024).contains(600.0) && of(1024).contains(4700.0),
            "{:?}",
            of(1024)
        );
        assert!(of(65528).estimate > 25_000.0 && of(65528).high < 8.0 * 4900.0 && of(65528).low >= 4500.0, "{:?}", of(65528));
    }

    #[test]
    fn a_chain_costs_by_its_entries_and_little_without_the_program() {
        let terms = BTreeMap::from([("callchain".to_string(), Estimate::new(2200.0, 2100.0, 2300.0))]);
        let of = |exclude_callchain_user, entries| {
            let attribute = Attribute { sample_type: sample_type::CALLCHAIN, exclude_callchain_user, ..Attribute::default() };
            Payload::of(&attribute, Carried { chain_entries: entries, ..Carried::default() }, &terms)
                .cost_ns
                .unwrap_or(Estimate::exact(0.0))
        };
        assert!(of(false, None) == of(false, Some(12.0)) && of(false, None).contains(terms["callchain"].estimate));
        for (entries, took_ns) in [(5.0, 1230.0), (13.0, 2030.0), (21.0, 2640.0), (65.0, 6850.0)] {
            let cost_ns = of(false, Some(entries));
            assert!(cost_ns.contains(took_ns) && (cost_ns.estimate - took_ns).abs() < 0.1 * took_ns, "{entries}: {cost_ns:?}");
        }
        let at_once = of(false, Some(0.0));
        assert!(at_once.low > 0.0 && at_once.low <= at_once.estimate && at_once.high < of(false, Some(5.0)).high, "{at_once:?}");
        let of_kernel = of(true, Some(24.0));
        assert!(of_kernel.contains(0.0) && of_kernel.contains(400.0) && of_kernel.high < 500.0, "{of_kernel:?}");
    }

    #[test]
    fn what_has_no_price_is_named() {
        let sample_type =
            sample_type::CALLCHAIN | sample_type::BRANCH_STACK | sample_type::REGS_INTR | sample_type::WEIGHT_STRUCT;
        let terms = BTreeMap::from([("branch-stack".to_string(), Estimate::new(1700.0, 1600.0, 1800.0))]);
        let payload = Payload::of(&Attribute { sample_type, ..Attribute::default() }, Carried::default(), &terms);
        let unknown: Vec<&str> = payload.unknown.iter().map(|(what, _)| *what).collect();
        assert_eq!((payload.unpriced, unknown), (vec!["callchain"], vec!["registers at the interrupt", "weights"]));
        assert_eq!((payload.cost_ns, payload.priced), (Some(terms["branch-stack"]), vec!["branch-stack".to_string()]));
    }
}
