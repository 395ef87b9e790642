//! Reads what requests' parts spent their time on, trace by trace.

use std::sync::Arc;

use perftax_pmu::Result;
use rustc_hash::FxHashMap;

use super::account::Account;
use super::request::Request;
use crate::message::Message;
use crate::store::Store;
use crate::tracker::Tracker;

/// What is known of some requests.
#[derive(Debug)]
pub struct Gathered {
    /// What their parts spent their time on, by request and part; none where a message was not recorded whole.
    pub accounts: Vec<Vec<Option<Account>>>,
    /// The parts of the first ones themselves, likewise.
    pub messages: Vec<Vec<Option<Message>>>,
}

/// Reads all traces once; of the first `whole` requests the messages themselves are kept. `stores` are the services' in their order, and whether they hold
/// when threads waited.
///
/// # Errors
/// Where a trace cannot be read.
pub fn gather(requests: &[Request], whole: usize, stores: &[(&Store, bool)]) -> Result<Gathered> {
    let mut gathered = Gathered {
        accounts: requests.iter().map(|request| vec![None; request.parts.len()]).collect(),
        messages: requests.iter().take(whole).map(|request| vec![None; request.parts.len()]).collect(),
    };
    for (service, (store, knows_waiting)) in stores.iter().enumerate() {
        let mut wanted: FxHashMap<u64, (usize, usize)> = FxHashMap::default();
        for (at, request) in requests.iter().enumerate() {
            let own = request.parts.iter().enumerate().filter(|(_, part)| part.service == service);
            wanted.extend(own.map(|(part, of)| (of.id, (at, part))));
        }
        let mut over = |message: &Message| {
            let Some((at, part)) = wanted.get(&message.id).copied().filter(|_| message.is_watched) else { return };
            let request = &requests[at];
            if message.end_ns.is_none() {
                return;
            }
            let calls_ns: Vec<(u64, u64)> = request.calls_of(part).map(|call| request.calls[call].away_ns).collect();
            gathered.accounts[at][part] = Some(Account::of(message, &request.parts[part].own_ns, &calls_ns, *knows_waiting));
            if let Some(messages) = gathered.messages.get_mut(at) {
                messages[part] = Some(message.clone());
            }
        };
        let mut tracker = Tracker::knowing(Arc::clone(&store.kinds));
        store.records(|record| tracker.take(record, &mut over))?;
        tracker.finish(&mut over);
    }
    Ok(gathered)
}
