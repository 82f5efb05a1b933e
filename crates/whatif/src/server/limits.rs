//! Limits of users: sizes, numbers and times. Each bounds memory or waiting.

use super::User;
use super::answer::Problem;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Uploaded snapshots of one user. A cluster of 5,000 nodes and 50,000 pods takes about 500 MB.
    pub snapshots_per_user: usize,
    /// Uploaded snapshots of all users.
    pub snapshots: usize,
    /// Size of an uploaded text in bytes, after decompression.
    pub upload_bytes: usize,
    /// Size of the body of any other request, in bytes: 1,000 pods with 4 KiB each, twice.
    pub request_bytes: usize,
    /// Forks of one user.
    pub forks_per_user: usize,
    /// Forks of all users. Each holds at most [`Self::fork_bytes`].
    pub forks: usize,
    /// Changes of one fork; each question about another fork repeats them.
    pub changes: usize,
    /// Size of a fork's changes in bytes, as they were sent.
    pub fork_bytes: usize,
    /// Number of pods and nodes that the changes of a fork, or one question, may add.
    pub added: usize,
    /// Size of a fork's KubeSchedulerConfiguration in bytes, with its aliases expanded: 32 profiles as kube-scheduler
    /// writes them, with all their defaults. The engine takes about 20 bytes for each.
    pub config_bytes: usize,
    /// Number of profiles of a fork's configuration. A profile of a few bytes takes about 7 KiB in the engine, so that
    /// [`Self::changes`] configurations of so many profiles take less than 64 MiB.
    pub profiles: usize,
    /// Number of new ids, about 150 bytes each, that questions may leave in a cluster. Then the live one is built
    /// again, and an uploaded one is removed.
    pub ids: usize,
    /// Time after which an uploaded snapshot or a fork expires that no request was about.
    pub idle: Duration,
    /// Time within which a request is answered, the wait for its turn included.
    pub deadline: Duration,
    /// Waiting requests of one user.
    pub waiting_per_user: usize,
    /// Waiting requests of all users.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            snapshots_per_user: 2,
            snapshots: 4,
            upload_bytes: 256 << 20,
            request_bytes: 8 << 20,
            forks_per_user: 16,
            forks: 128,
            changes: 256,
            fork_bytes: 16 << 20,
            added: 50_000,
            config_bytes: 256 << 10,
            profiles: 32,
            ids: 1_000_000,
            idle: Duration::from_secs(900),
            deadline: Duration::from_secs(30),
            waiting_per_user: 16,
            waiting: 256,
        }
    }
}

/// The bodies of requests in memory: counts their bytes until they are answered.
#[derive(Clone, Debug)]
pub struct Bodies(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Limits,
    held: Mutex<BTreeMap<User, usize>>,
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub struct Reserved {
    shared: Arc<Shared>,
    user: User,
    bytes: usize,
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, BTreeMap<User, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bodies {
    /// Returns an account without bodies. A user may hold one upload or many small bodies; all users together may hold
    /// four times as much.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared { limits, held: Mutex::default() }))
    }

    /// Counts the bytes of a body before it is read.
    ///
    /// # Errors
    /// Fails if the body is larger than one may be, or if too many bytes are held already.
    pub fn reserve(&self, user: &User, bytes: usize, is_upload: bool) -> Result<Reserved, Problem> {
        let limits = self.0.limits;
        let max = if is_upload { limits.upload_bytes } else { limits.request_bytes };
        if bytes > max {
            let what = if is_upload { "an upload" } else { "a request" };
            return Err(Problem::TooLarge(format!("{what} may have {max} bytes, and this one has {bytes}")));
        }
        let per_user = limits.upload_bytes.max(limits.request_bytes);
        let mut held = self.0.held();
        let (own, all) = (held.get(user).copied().unwrap_or(0), held.values().sum::<usize>());
        if own + bytes > per_user || all + bytes > 4 * per_user {
            return Err(Problem::Busy("too many request bodies are being answered; retry".to_owned()));
        }
        *held.entry(user.clone()).or_default() += bytes;
        drop(held);
        Ok(Reserved { shared: Arc::clone(&self.0), user: user.clone(), bytes })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut held = self.shared.held();
        if let Some(own) = held.get_mut(&self.user) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                held.remove(&self.user);
            }
        }
    }
}
