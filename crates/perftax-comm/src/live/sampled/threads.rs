//! Threads of a program, numbered as they are met.

use std::collections::{BTreeMap, HashMap};

use perftax_doc::CommThread;

use crate::document::core_of;

/// All of them.
#[derive(Debug, Default)]
pub struct Threads {
    numbers: HashMap<u32, u32>,
    /// Names by thread id, also of threads that did nothing so far.
    names: HashMap<u32, String>,
    met: Vec<Met>,
}

#[derive(Debug)]
struct Met {
    process: u32,
    tid: u32,
    name: String,
    /// When it was first seen, ns.
    first_ns: u64,
    /// Times that it was seen on each core.
    cores: BTreeMap<u32, u64>,
}

impl Threads {
    /// The number of a thread that was seen on a core.
    pub fn number(&mut self, process: u32, tid: u32, core: u32, time_ns: u64) -> u32 {
        let (met, names) = (&mut self.met, &self.names);
        let number = *self.numbers.entry(tid).or_insert_with(|| {
            met.push(Met {
                process,
                tid,
                name: names.get(&tid).cloned().unwrap_or_default(),
                first_ns: time_ns,
                cores: BTreeMap::new(),
            });
            met.len() as u32 - 1
        });
        *self.met[number as usize].cores.entry(core).or_default() += 1;
        number
    }

    /// A thread is called so.
    pub fn name(&mut self, tid: u32, name: String) {
        if let Some(&number) = self.numbers.get(&tid) {
            self.met[number as usize].name.clone_from(&name);
        }
        self.names.insert(tid, name);
    }

    /// A thread was created: it is called as its parent is, and whoever had its id before is somebody else. That may be told after it was
    /// seen: rings are read one after the other.
    pub fn created(&mut self, tid: u32, parent: u32, time_ns: u64) {
        let name = self.names.get(&parent).cloned().unwrap_or_default();
        let since = self.numbers.get(&tid).map(|number| &mut self.met[*number as usize]);
        match since.filter(|met| met.first_ns >= time_ns) {
            Some(met) if met.name.is_empty() => met.name.clone_from(&name),
            Some(_) => {}
            None => {
                self.numbers.remove(&tid);
            }
        }
        self.names.insert(tid, name);
    }

    /// As the document has them.
    pub fn document(&self) -> Vec<CommThread> {
        let thread = |(number, met): (usize, &Met)| CommThread {
            number: number as u32,
            process: Some(met.process as i32),
            tid: Some(met.tid as i32),
            name: met.name.clone(),
            core: core_of(&met.cores),
        };
        self.met.iter().enumerate().map(thread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_id_that_is_used_again_is_another_thread() {
        let mut threads = Threads::default();
        threads.name(10, "server".into());
        assert_eq!((threads.number(10, 11, 0, 5), threads.number(10, 11, 2, 6), threads.number(10, 11, 2, 7)), (0, 0, 0));
        threads.created(11, 10, 4);
        assert_eq!(threads.number(10, 11, 2, 8), 0, "told late");
        threads.name(11, "worker".into());
        threads.created(11, 10, 9);
        assert_eq!(threads.number(10, 11, 1, 10), 1);
        let all = threads.document();
        let seen: Vec<_> = all.iter().map(|thread| (thread.name.as_str(), thread.core)).collect();
        assert_eq!(seen, [("worker", Some(2)), ("server", Some(1))]);
    }
}
