//! A thread that waits for records as `perf record` does.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::LiveSampler;
use crate::error::{Error, Result};
use crate::sys::{OpenEvent, own_thread_cpu_ns};

/// Waits on the descriptors of all events of a sampler, and does nothing else; dropped, it ends.
///
/// When a task ends that inherited an event, the kernel wakes whoever waits for that event or for another that writes into its ring, and it is the
/// task that pays for it (`perf_event_exit_event`, kernel/events/core.c; Linux 6.1). `perf record` waits for all of them.
pub struct WaitingThread {
    watch: Option<Sender<Vec<OwnedFd>>>,
    stop: OwnedFd,
    thread_id: i32,
    thread: Option<JoinHandle<()>>,
}

impl WaitingThread {
    /// Starts it, which waits for nothing yet: what is opened on the calling thread afterwards it does not inherit.
    ///
    /// # Errors
    /// Where no event descriptor can be had to stop the thread with.
    pub fn start() -> Result<Self> {
        let system = |call: &'static str| move |e: rustix::io::Errno| Error::System { call: call.into(), source: e.into() };
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system("eventfd"))?;
        let told = rustix::io::fcntl_dupfd_cloexec(&stop, 0).map_err(system("fcntl(F_DUPFD_CLOEXEC)"))?;
        let (watch, watched) = channel::<Vec<OwnedFd>>();
        let (tell_id, id) = channel();
        let thread = std::thread::spawn(move || {
            tell_id.send(rustix::thread::gettid().as_raw_nonzero().get()).ok();
            let Ok(watched) = watched.recv() else { return };
            let all = || std::iter::once(&told).chain(&watched);
            let mut fds: Vec<PollFd> = all().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            loop {
                match poll(&mut fds, None) {
                    // An interrupted call only looks once more.
                    Err(rustix::io::Errno::INTR) => continue,
                    // Without anybody who waits, tasks are only cheaper.
                    Err(_) => break,
                    Ok(_) => {}
                }
                if fds[0].revents().contains(PollFlags::IN) {
                    break;
                }
                // Whoever was watched has ended, and is always "ready".
                let is_over = |fd: &PollFd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
                if fds.iter().any(is_over) {
                    fds.truncate(1);
                }
            }
        });
        let thread_id = id.recv().map_err(|_| ended_early())?;
        Ok(Self { watch: Some(watch), stop, thread_id, thread: Some(thread) })
    }

    /// From here on it waits for these; once.
    ///
    /// # Errors
    /// Where there is no room for as many descriptors again.
    pub fn wait_for(&self, sampler: &LiveSampler) -> Result<()> {
        let duplicate = |event: &OpenEvent| {
            let duplicated = rustix::io::fcntl_dupfd_cloexec(event.as_fd(), 0);
            duplicated.map_err(|e| Error::System { call: "fcntl(F_DUPFD_CLOEXEC)".into(), source: e.into() })
        };
        let watched = sampler.events().iter().map(duplicate).collect::<Result<_>>()?;
        self.watch.as_ref().and_then(|watch| watch.send(watched).ok()).ok_or_else(ended_early)
    }

    /// CPU time that it took so far, ns.
    pub fn cpu_ns(&self) -> u64 {
        own_thread_cpu_ns(self.thread_id).unwrap_or(0)
    }
}

impl Drop for WaitingThread {
    fn drop(&mut self) {
        // Whatever it waits for: its descriptors, or to be given any.
        self.watch = None;
        rustix::io::write(&self.stop, &1u64.to_ne_bytes()).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn ended_early() -> Error {
    Error::System { call: "the thread that waits for records".into(), source: std::io::Error::other("ended early") }
}
