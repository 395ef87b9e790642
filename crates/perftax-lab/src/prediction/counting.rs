//! What of a program is counted before its sampling is priced, and whether that can be priced.

use perftax_doc::steps::{Operation, Setting};
use perftax_doc::{Estimate, Mechanism, WorkloadProfile};
use perftax_pmu::event::{Catalog, Event, parse_one};
use perftax_pmu::{Error, Result};

/// What is to be known of a program's events.
#[derive(Clone, Debug)]
pub struct Counting {
    /// The event that is sampled; none where this machine has none of that name.
    pub event: Option<Event>,
    /// Its name.
    pub event_name: String,
    /// Whether the user named it.
    pub is_named: bool,
    /// How it is sampled.
    pub mechanism: Mechanism,
    /// Whether it is sampled on another machine.
    pub is_elsewhere: bool,
    /// How often it comes in one run, where that is known.
    pub known: Option<f64>,
    /// An event that counts pieces of work.
    pub work: Option<Event>,
}

impl Counting {
    /// The events that have to be counted here.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where one of them cannot be; [`Error::Argument`] where pieces of work would be counted by a clock, or the known
    /// count is none.
    pub fn events(&self, catalog: &Catalog) -> Result<Vec<Event>> {
        if let Some(known) = self.known.filter(|known| !(*known > 0.0 && known.is_finite())) {
            let needed = "a positive number".into();
            return Err(Error::Argument { argument: Setting::CountOf.name(), value: known.to_string(), needed });
        }
        let mut counted = Vec::new();
        if !self.mechanism.is_time_driven() && self.known.is_none() {
            counted.push(self.sampled(catalog)?);
        }
        let Some(work) = &self.work else { return Ok(counted) };
        if work.mechanism.is_time_driven() {
            let needed = "an event that comes once in each piece of work, not a clock".into();
            return Err(Error::Argument { argument: Setting::Work.name(), value: work.name.clone(), needed });
        }
        if counted.iter().all(|event| event.name != work.name) {
            work.check_supported(catalog)?;
            counted.push(work.clone());
        }
        Ok(counted)
    }

    fn sampled(&self, catalog: &Catalog) -> Result<Event> {
        if matches!(self.mechanism, Mechanism::IbsOp | Mechanism::IbsFetch | Mechanism::Spe) {
            let why = format!("{} samples and does not count", self.mechanism);
            return Err(self.uncountable(why, "perf stat -e instructions is near the operations sampled"));
        }
        match &self.event {
            Some(event) => match event.check_supported(catalog) {
                Ok(()) => Ok(event.clone()),
                Err(error) if self.is_elsewhere => Err(self.not_here(error.headline())),
                Err(error) => Err(error),
            },
            None if self.is_named => Err(self.not_here("this machine has no event of that name".into())),
            None => parse_one(&self.event_name, catalog),
        }
    }

    /// What is sampled elsewhere cannot be counted here.
    fn not_here(&self, why: String) -> Error {
        self.uncountable(why, "perf stat tells on a machine that has the event")
    }

    fn uncountable(&self, why: String, hint: &str) -> Error {
        let remedy = format!("say how many there are in one run: {} N ({hint})", Setting::CountOf);
        Error::Unsupported { what: format!("count {}", self.event_name), why, remedy }
    }

    /// Adds the known count to those of a program that was measured, and checks that there is something to price.
    ///
    /// # Errors
    /// [`Error::Argument`] where it has no piece of work, [`Error::Discarded`] where it has none of the events.
    pub fn complete(&self, workload: &mut WorkloadProfile) -> Result<()> {
        let has_none = |workload: &WorkloadProfile, name: &str| workload.counts.get(name).map(|count| count.estimate == 0.0);
        if let Some(work) = self.work.as_ref().filter(|work| has_none(workload, &work.name).unwrap_or(true)) {
            let needed = "an event that the program has: it had none while it was counted".into();
            return Err(Error::Argument { argument: Setting::Work.name(), value: work.name.clone(), needed });
        }
        if let Some(known) = self.known {
            workload.counts.insert(self.event_name.clone(), Estimate::exact(known));
        }
        if !self.mechanism.is_time_driven() && has_none(workload, &self.event_name) == Some(true) {
            return Err(Error::Discarded {
                why: format!("the program had no {} at all in a whole run: nothing would be sampled", self.event_name),
                remedy: format!(
                    "choose another event ({}), or check its modifiers (:u leaves the kernel out)",
                    Operation::ListEvents
                ),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::super::samples::workload;
    use super::*;

    fn catalog() -> Catalog {
        Catalog::of_this_machine()
    }

    fn event(text: &str) -> Event {
        parse_one(text, &catalog()).unwrap()
    }

    fn counting(text: &str) -> Counting {
        let event = event(text);
        Counting {
            event_name: event.name.clone(),
            mechanism: event.mechanism,
            event: Some(event),
            is_named: true,
            is_elsewhere: false,
            known: None,
            work: None,
        }
    }

    fn names(counting: &Counting) -> Result<Vec<String>> {
        let events = counting.events(&catalog())?;
        Ok(events.into_iter().map(|event| event.name).collect())
    }

    #[test]
    fn clocks_and_what_is_known_are_not_counted() {
        assert_eq!(names(&counting("page-faults:u")).unwrap(), ["page-faults:u"]);
        assert!(names(&counting("cpu-clock:u")).unwrap().is_empty());
        assert!(names(&Counting { known: Some(7.0), ..counting("page-faults:u") }).unwrap().is_empty());
        let both = Counting { work: Some(event("context-switches:u")), ..counting("page-faults:u") };
        assert_eq!(names(&both).unwrap(), ["page-faults:u", "context-switches:u"]);
        let once = Counting { work: Some(event("page-faults:u")), ..counting("page-faults:u") };
        assert_eq!(names(&once).unwrap(), ["page-faults:u"]);
    }

    #[test]
    fn what_cannot_be_counted_says_how_to_give_the_count() {
        let sampling_alone = Counting { mechanism: Mechanism::IbsOp, ..counting("page-faults:u") };
        let elsewhere = Counting { event: None, is_elsewhere: true, ..counting("page-faults:u") };
        for counting in [sampling_alone, elsewhere] {
            let error = names(&counting).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains("'count' N"), "{error}");
        }
        for known in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = names(&Counting { known: Some(known), ..counting("page-faults:u") }).unwrap_err();
            assert!(matches!(error, Error::Argument { .. }), "{error}");
        }
        let clock = Counting { work: Some(event("cpu-clock:u")), ..counting("page-faults:u") };
        assert!(names(&clock).unwrap_err().to_string().contains("not a clock"));
    }

    #[test]
    fn nothing_is_not_priced() {
        let faults = counting("page-faults:u");
        assert!(matches!(faults.complete(&mut workload(&[("page-faults:u", 0.0)])), Err(Error::Discarded { .. })));
        faults.complete(&mut workload(&[("page-faults:u", 3.0)])).unwrap();
        let mut measured = workload(&[]);
        Counting { known: Some(7.0), ..faults.clone() }.complete(&mut measured).unwrap();
        assert_eq!(measured.counts["page-faults:u"].estimate, 7.0);
        let worked = Counting { work: Some(event("context-switches:u")), ..faults };
        for counts in [&[("page-faults:u", 3.0)][..], &[("page-faults:u", 3.0), ("context-switches:u", 0.0)]] {
            assert!(matches!(worked.complete(&mut workload(counts)), Err(Error::Argument { .. })));
        }
    }
}
