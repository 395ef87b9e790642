// SPDX-License-Identifier: GPL-2.0-or-later
//! From the program's threads to the simulator: on a thread of its own, so that the program runs on meanwhile.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use crate::batch::Batch;
use crate::fork;
use crate::lock::lock;
use crate::simulator::Simulator;

/// Batches on their way at most: more would only fill the host's caches.
const IN_FLIGHT: usize = 4;

enum Message {
    Batch(Box<Batch>),
    End(u32),
}

/// The way to the simulator.
pub struct Pipeline {
    orders: Mutex<Option<SyncSender<Message>>>,
    /// Empty batches that come back.
    returned: Mutex<Receiver<Box<Batch>>>,
    worker: Mutex<Option<JoinHandle<Simulator>>>,
}

impl Pipeline {
    /// Starts the thread. No signal reaches it: QEMU takes every thread that one is delivered to for one of the program's.
    pub fn start(simulator: Simulator) -> Self {
        let (orders, todo) = sync_channel(IN_FLIGHT);
        let (give_back, returned) = channel();
        let worker = without_signals(|| std::thread::spawn(move || work(simulator, &todo, &give_back)));
        Self { orders: Mutex::new(Some(orders)), returned: Mutex::new(returned), worker: Mutex::new(Some(worker)) }
    }

    /// An empty batch: one that came back, if there is one.
    pub fn empty_batch(&self) -> Box<Batch> {
        lock(&self.returned).try_recv().unwrap_or_default()
    }

    /// Hands a batch over.
    pub fn hand_over(&self, batch: Box<Batch>) {
        self.send(Message::Batch(batch));
    }

    /// A thread has ended.
    pub fn end(&self, thread: u32) {
        self.send(Message::End(thread));
    }

    /// A fork of the program has no simulator: what it does is not simulated.
    fn send(&self, message: Message) {
        if fork::is_child() {
            return;
        }
        let orders = lock(&self.orders).clone();
        if let Some(orders) = orders {
            // It fails only where the simulator panicked; that shows when it is asked for its result.
            orders.send(message).ok();
        }
    }

    /// Everything is done: the simulator, once.
    pub fn finish(&self) -> Option<Simulator> {
        lock(&self.orders).take();
        let worker = lock(&self.worker).take()?;
        worker.join().ok()
    }
}

fn work(mut simulator: Simulator, todo: &Receiver<Message>, give_back: &Sender<Box<Batch>>) -> Simulator {
    for message in todo {
        match message {
            Message::Batch(mut batch) => {
                simulator.process(&batch);
                batch.clear();
                // Nobody wants it back at the end.
                give_back.send(batch).ok();
            }
            Message::End(thread) => simulator.end(thread),
        }
    }
    simulator
}

/// Does something with all signals blocked; threads begun meanwhile keep them so.
fn without_signals<T>(begin: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals on the stack, filled before they are read; a null set is not touched.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
        let begun = begin();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        begun
    }
}
