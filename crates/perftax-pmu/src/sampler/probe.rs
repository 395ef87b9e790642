//! Trying mechanisms out on the kernel: an event is opened on this very thread, and closed again.

use std::path::Path;

use perftax_cost::Mechanism;

use super::{DirectSampler, Sampling};
use crate::error::Error;
use crate::event::{Catalog, Event, parse};
use crate::machine::{Opening, Probe};
use crate::sys::{OpenEvent, Target};

/// Opens one sampling event of each mechanism asked about.
pub struct LiveProbe<'a> {
    catalog: &'a Catalog,
}

/// Period of the probing event: it never gets there.
const NEVER: u64 = 1 << 40;
/// More breakpoints than any CPU has.
const SLOTS_TRIED: u64 = 32;

impl<'a> LiveProbe<'a> {
    /// Probes with the names of this machine's catalog.
    pub fn new(catalog: &'a Catalog) -> Self {
        Self { catalog }
    }

    fn event(&self, text: &str) -> Result<Event, Error> {
        let mut events = parse(text, self.catalog)?;
        let event = events.pop().ok_or_else(|| Error::EventSyntax { text: text.into(), why: "names no event".into() })?;
        event.check_supported(self.catalog)?;
        Ok(event)
    }

    fn try_open(&self, text: &str) -> Result<OpenEvent, Error> {
        OpenEvent::open(&self.event(text)?, &Sampling { period: Some(NEVER), ..Sampling::COUNTING }, Target::ThisThread, None)
    }
}

impl Probe for LiveProbe<'_> {
    fn open(&self, mechanism: Mechanism) -> Opening {
        if mechanism == Mechanism::PebsDirect {
            return match DirectSampler::check(Path::new(DirectSampler::DEVICE)) {
                Ok(()) => Opening::Opened,
                Err(Error::Unsupported { why, remedy, .. }) => Opening::Obstacle { why, remedy },
                Err(error) => Opening::Obstacle { why: error.to_string(), remedy: String::new() },
            };
        }
        let watched = 0u64;
        let text = match mechanism {
            Mechanism::Pebs => "instructions:up".to_string(),
            Mechanism::Pmi => "instructions:u".into(),
            Mechanism::CpuClock => "cpu-clock".into(),
            Mechanism::Software => "page-faults".into(),
            Mechanism::Breakpoint => format!("mem:{:#x}/8:w:u", std::ptr::from_ref(&watched) as usize),
            Mechanism::Tracepoint => "sched:sched_switch".into(),
            // IBS and SPE events need their own arguments, a uprobe a program: what sysfs says stands.
            Mechanism::IbsOp | Mechanism::IbsFetch | Mechanism::Spe | Mechanism::Uprobe | Mechanism::PebsDirect => {
                return Opening::NotTried;
            }
        };
        match self.try_open(&text) {
            Ok(_) => Opening::Opened,
            Err(error) => Opening::Refused(error.headline()),
        }
    }

    fn breakpoint_slots(&self) -> Option<u32> {
        let variables = vec![0u64; SLOTS_TRIED as usize];
        let mut open = Vec::new();
        for variable in &variables {
            match self.try_open(&format!("mem:{:#x}/8:w:u", std::ptr::from_ref(variable) as usize)) {
                Ok(event) => open.push(event),
                Err(_) => break,
            }
        }
        Some(open.len() as u32)
    }
}
