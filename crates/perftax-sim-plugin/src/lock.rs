// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock whose data are sound whoever panicked while holding it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
