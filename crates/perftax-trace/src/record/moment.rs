//! A recording at a moment, for whoever follows it while it runs.

use std::collections::VecDeque;

use perftax_doc::PriceChecked;
use perftax_pmu::Result;

use super::Row;
use super::identity::Identity;
use super::mappings::Mappings;
use crate::label::Labels;
use crate::marked::Relation;
use crate::names::Names;
use crate::rest::Rested;
use crate::store::Function;

/// Who hears what is recorded.
pub trait Audience {
    /// The next row, in order of time.
    ///
    /// # Errors
    /// Where it cannot be kept: the recording ends.
    fn row(&mut self, row: &Row) -> Result<()>;

    /// A look at the rings is over. Asked for in a recording that is live alone ([`super::Recording::is_live`]).
    ///
    /// # Errors
    /// Where nobody listens any more: the recording ends.
    fn looked(&mut self, _moment: &mut Moment<'_>) -> Result<()> {
        Ok(())
    }
}

/// Rows alone.
pub(super) struct Rows<'a>(pub &'a mut dyn FnMut(&Row) -> Result<()>);

impl Audience for Rows<'_> {
    fn row(&mut self, row: &Row) -> Result<()> {
        (self.0)(row)
    }
}

/// Threads, and processes, that have ended: when, the process, the thread.
pub(super) type Ended = VecDeque<(u64, u32, u32)>;

/// A recording at a moment.
pub struct Moment<'m> {
    pub(super) mappings: &'m mut Mappings,
    pub(super) names: &'m mut Names,
    pub(super) identity: &'m mut Identity,
    pub(super) ended: &'m mut Ended,
    /// When: CLOCK_MONOTONIC_RAW, ns.
    pub now_ns: u64,
    /// Samples and kernel records that had found no room a second ago; none where the kernel could not be asked.
    pub lost: Option<u64>,
    /// Marks that found no room so far.
    pub dropped: u64,
    /// Nothing more comes.
    pub is_over: bool,
    /// Whether recording is on: it is not while its price is checked, and while it rests.
    pub is_on: bool,
    /// What recording costs while it is on, as far as that was checked.
    pub checked: Option<PriceChecked>,
    /// How it keeps to its budget.
    pub rested: Option<Rested>,
}

/// So long after their end threads still have names, and addresses functions, ns: rows of theirs come later, and are asked about later still.
const AFTERLIFE_NS: u64 = 30_000_000_000;

impl Moment<'_> {
    /// What threads and interrupts are called.
    pub fn names(&self) -> &Names {
        self.names
    }

    /// The functions at addresses, by process (0: the kernel); those of which nothing is known are left out.
    pub fn functions(&mut self, addresses: &[(u32, u64)]) -> Vec<((u32, u64), Function)> {
        self.mappings.name(addresses, self.names)
    }

    /// Texts of messages since this was asked last.
    pub fn said(&mut self, each: &mut dyn FnMut(u64, &str)) {
        if let Some(labels) = self.identity.labels().filter(|labels| !labels.is_empty()) {
            std::mem::take::<Labels>(labels).iter().for_each(|(id, text)| each(id, text));
        }
    }

    /// What messages are part of, and what others call them, since this was asked last.
    pub fn related(&mut self, each: &mut dyn FnMut(u64, Relation)) {
        if let Some(relations) = self.identity.relations() {
            std::mem::take(relations).into_iter().for_each(|(id, relation)| each(id, relation));
        }
    }

    /// Threads that ended long ago: nothing is known of them any more.
    pub fn gone(&mut self, each: &mut dyn FnMut(u32)) {
        let long_ago = self.now_ns.saturating_sub(AFTERLIFE_NS);
        let over = self.ended.partition_point(|(time_ns, ..)| *time_ns < long_ago);
        for (_, pid, tid) in self.ended.drain(..over) {
            self.names.threads.remove(&tid);
            if pid == tid {
                self.mappings.gone(pid);
            }
            each(tid);
        }
    }
}

/// What a moment is of, where nothing is recorded.
#[cfg(test)]
pub(crate) struct Still {
    mappings: Mappings,
    pub names: Names,
    identity: Identity,
    pub ended: VecDeque<(u64, u32, u32)>,
}

#[cfg(test)]
impl Still {
    /// Of a program that marks its messages.
    pub fn marked() -> Self {
        Self {
            mappings: Mappings::default(),
            names: Names::default(),
            identity: Identity::Marks(Box::default()),
            ended: Ended::new(),
        }
    }

    /// The program calls a message so.
    pub fn say(&mut self, id: u64, text: &str) {
        if let Some(labels) = self.identity.labels() {
            labels.add(id, text);
        }
    }

    pub fn at(&mut self, now_ns: u64) -> Moment<'_> {
        Moment {
            now_ns,
            lost: Some(0),
            dropped: 0,
            is_over: false,
            is_on: true,
            checked: None,
            rested: None,
            mappings: &mut self.mappings,
            names: &mut self.names,
            identity: &mut self.identity,
            ended: &mut self.ended,
        }
    }
}
