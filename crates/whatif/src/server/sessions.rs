//! Uploaded snapshots and forks: who owns them, how many there may be, and when they expire.

use super::User;
use super::answer::Problem;
use super::base::{Base, Change, too_many};
use super::limits::Limits;
use super::messages::ForkAnswer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The id of the live cluster.
pub(super) const LIVE: &str = "live";

/// An uploaded snapshot.
pub(super) struct Upload {
    owner: User,
    /// `None` while a question is answered. It stays so if the answer panics; the snapshot is removed then.
    pub(super) base: Option<Base>,
    pub(super) bytes: usize,
    used: Duration,
}

/// A fork of the live cluster or of an uploaded snapshot.
pub(super) struct Fork {
    owner: User,
    /// The snapshot's id.
    pub(super) of: String,
    pub(super) changes: Vec<Arc<Change>>,
    used: Duration,
}

impl Fork {
    pub(super) fn added(&self) -> usize {
        self.changes.iter().map(|change| change.added).sum()
    }

    fn bytes(&self) -> usize {
        self.changes.iter().map(|change| change.bytes).sum()
    }
}

/// All sessions. Times are counted from any common start.
pub(super) struct Sessions {
    limits: Limits,
    uploads: BTreeMap<String, Upload>,
    forks: BTreeMap<String, Fork>,
    /// The number of ids given out so far.
    ids: u64,
    now: Duration,
}

fn no_snapshot(id: &str) -> Problem {
    Problem::NotFound(format!(
        "snapshot {id} not found; it does not exist, has expired, or is another user's"
    ))
}

fn no_fork(id: &str) -> Problem {
    Problem::NotFound(format!("fork {id} not found; it does not exist, has expired, or is another user's"))
}

impl Sessions {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, uploads: BTreeMap::new(), forks: BTreeMap::new(), ids: 0, now: Duration::ZERO }
    }

    /// Advances the time, and removes what has expired: uploaded snapshots with their forks, and forks.
    pub(super) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
        let is_alive = |used: Duration| self.now.saturating_sub(used) < self.limits.idle;
        self.uploads.retain(|_, upload| is_alive(upload.used) && upload.base.is_some());
        self.forks.retain(|_, fork| is_alive(fork.used));
        let uploads = &self.uploads;
        self.forks.retain(|_, fork| fork.of == LIVE || uploads.contains_key(&fork.of));
    }

    /// Returns the number of uploaded snapshots, and of forks.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.uploads.len(), self.forks.len())
    }

    pub(super) fn expires_in(&self, used: Duration) -> u64 {
        (self.limits.idle.saturating_sub(self.now.saturating_sub(used))).as_secs()
    }

    /// Checks that a user may upload another snapshot.
    pub(super) fn may_upload(&self, user: &User) -> Result<(), Problem> {
        let Limits { snapshots, snapshots_per_user, .. } = self.limits;
        let own = self.uploads.values().filter(|upload| upload.owner == *user).count();
        if own >= snapshots_per_user {
            let text = format!(
                "a user may have {snapshots_per_user} uploaded snapshots; delete one, or wait until it expires"
            );
            return Err(Problem::Limit(text));
        }
        if self.uploads.len() >= snapshots {
            let text =
                format!("the server holds at most {snapshots} uploaded snapshots; retry when one expires");
            return Err(Problem::Limit(text));
        }
        Ok(())
    }

    /// Keeps an uploaded snapshot, and returns its id.
    pub(super) fn upload(&mut self, owner: &User, base: Base, bytes: usize) -> String {
        self.ids += 1;
        let id = format!("upload-{}", self.ids);
        let upload = Upload { owner: owner.clone(), base: Some(base), bytes, used: self.now };
        self.uploads.insert(id.clone(), upload);
        id
    }

    /// Returns a user's uploaded snapshot, which counts as used now.
    pub(super) fn snapshot(&mut self, user: &User, id: &str) -> Result<&mut Upload, Problem> {
        let now = self.now;
        let upload = self.uploads.get_mut(id).filter(|upload| upload.owner == *user);
        let upload = upload.ok_or_else(|| no_snapshot(id))?;
        upload.used = now;
        Ok(upload)
    }

    /// Returns the ids of a user's uploaded snapshots.
    pub(super) fn snapshots_of(&self, user: &User) -> Vec<String> {
        let own = self.uploads.iter().filter(|(_, upload)| upload.owner == *user);
        own.map(|(id, _)| id.clone()).collect()
    }

    /// Removes a user's uploaded snapshot and its forks.
    pub(super) fn remove_snapshot(&mut self, user: &User, id: &str) -> Result<(), Problem> {
        self.snapshot(user, id)?;
        self.uploads.remove(id);
        self.forks.retain(|_, fork| fork.of != id);
        Ok(())
    }

    /// Makes a fork of a snapshot or another fork, and returns its id. `of` exists.
    pub(super) fn fork(&mut self, owner: &User, of: &str) -> Result<String, Problem> {
        let Limits { forks, forks_per_user, .. } = self.limits;
        if self.forks_of(owner).len() >= forks_per_user {
            let text =
                format!("a user may have {forks_per_user} forks; delete one, or wait until it expires");
            return Err(Problem::Limit(text));
        }
        if self.forks.len() >= forks {
            return Err(Problem::Limit(format!(
                "the server holds at most {forks} forks; retry when one expires"
            )));
        }
        let (of, changes) = match self.forks.get(of).filter(|fork| fork.owner == *owner) {
            Some(fork) => (fork.of.clone(), fork.changes.clone()),
            None if of == LIVE => (of.to_owned(), Vec::new()),
            None => {
                self.snapshot(owner, of)?;
                (of.to_owned(), Vec::new())
            }
        };
        self.ids += 1;
        let prefix = if of == LIVE { LIVE_FORK } else { "fork-" };
        let id = format!("{prefix}{}", self.ids);
        self.forks.insert(id.clone(), Fork { owner: owner.clone(), of, changes, used: self.now });
        Ok(id)
    }

    /// Returns a user's fork, which counts as used now, and so does its snapshot.
    pub(super) fn of_fork(&mut self, user: &User, id: &str) -> Result<&mut Fork, Problem> {
        let now = self.now;
        let fork = self.forks.get_mut(id).filter(|fork| fork.owner == *user).ok_or_else(|| no_fork(id))?;
        fork.used = now;
        if let Some(upload) = self.uploads.get_mut(&fork.of) {
            upload.used = now;
        }
        Ok(fork)
    }

    pub(super) fn forks_of(&self, user: &User) -> Vec<String> {
        self.forks.iter().filter(|(_, fork)| fork.owner == *user).map(|(id, _)| id.clone()).collect()
    }

    /// Describes a fork that exists.
    pub(super) fn describe(&self, id: &str) -> Result<ForkAnswer, Problem> {
        let fork = self.forks.get(id).ok_or_else(|| no_fork(id))?;
        Ok(ForkAnswer {
            id: id.to_owned(),
            snapshot: fork.of.clone(),
            changes: fork.changes.len(),
            expires_in_seconds: self.expires_in(fork.used),
        })
    }

    pub(super) fn remove_fork(&mut self, user: &User, id: &str) -> Result<(), Problem> {
        self.of_fork(user, id)?;
        self.forks.remove(id);
        Ok(())
    }

    /// Checks that a fork may get another change of so many bytes, and returns how many pods and nodes it may add.
    /// `expected` is how many it adds at least.
    pub(super) fn may_change(
        &mut self,
        user: &User,
        id: &str,
        bytes: usize,
        expected: usize,
    ) -> Result<usize, Problem> {
        let Limits { changes, fork_bytes, added, .. } = self.limits;
        let fork = self.of_fork(user, id)?;
        if fork.changes.len() >= changes {
            return Err(Problem::Limit(format!(
                "a fork may have {changes} changes; undo some, or make a new fork"
            )));
        }
        if fork.bytes() + bytes > fork_bytes {
            return Err(Problem::Limit(format!(
                "the changes of a fork may have {fork_bytes} bytes; make a new fork"
            )));
        }
        let room = added.saturating_sub(fork.added());
        if expected > room { Err(too_many(room)) } else { Ok(room) }
    }
}

/// The prefix of the ids of the live cluster's forks, by which requests about it are recognized.
pub(super) const LIVE_FORK: &str = "live-";

/// Returns whether an id is that of the live cluster or of one of its forks.
pub(super) fn is_live(id: &str) -> bool {
    id == LIVE || id.starts_with(LIVE_FORK)
}
