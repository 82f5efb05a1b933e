//! The configuration file while the process runs: what of a change can be taken over is, between two decisions.
//!
//! A file that is not valid changes nothing: the last good one stays, and log and metrics say so. What a running process
//! cannot take over is told, and waits for a restart. Upstream reads its file once.

mod in_force;
mod shadow;
mod source;

pub(crate) use in_force::decisive;
pub use in_force::{InForce, without_password};
pub use shadow::{ShadowReload, profile_of};

use crate::config::{ConfigError, Difference, Effective, Flags, Settings};
use crate::driver::{Ended, Inbox};
use crate::extender::{Extenders, Prepared};
use crate::journal;
use crate::metrics::{Metrics, ReloadResult};
use crate::watch::Relist;
use futures::StreamExt as _;
use source::follow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use supercargo_core::event::Kind;
use supercargo_core::extender::Extender;
use supercargo_core::scheduler::{Profile, Reconfiguration, Scheduler};

/// Follows the configuration file.
pub struct Reload {
    path: PathBuf,
    flags: Flags,
    /// What the process was started with.
    started: Effective,
    /// What is in force of what can be taken over.
    in_force: Effective,
    inbox: Inbox<Scheduler>,
    /// Who is asked for lists anew: of pods and of nodes.
    relist: (Relist, Relist),
    extenders: Extenders,
    metrics: Arc<Metrics>,
    shown: InForce,
    /// The file could not be used when it was read last.
    is_rejected: bool,
}

/// What became of a change.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It is in force.
    Applied(Vec<Difference>),
    /// It comes to the same.
    Same,
}

impl Reload {
    /// Follows `path`, of which `started` was read with `flags`.
    pub fn new(
        path: PathBuf,
        flags: Flags,
        started: Effective,
        inbox: Inbox<Scheduler>,
        relist: (Relist, Relist),
        extenders: Extenders,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (in_force, shown) = (started.clone(), InForce::new(&started));
        Self { path, flags, started, in_force, inbox, relist, extenders, metrics, shown, is_rejected: false }
    }

    /// Whoever shows the configuration in force is told of changes.
    #[must_use]
    pub fn shown_in(mut self, shown: InForce) -> Self {
        self.shown = shown;
        self
    }

    /// Runs until the engine ends.
    pub async fn run(mut self) {
        let mut texts = pin!(follow(self.path.clone()));
        while let Some(text) = texts.next().await {
            if self.changed(text).await == Err(Ended) {
                return;
            }
        }
    }

    /// The file has another text than before.
    async fn changed(&mut self, text: std::io::Result<String>) -> Result<(), Ended> {
        let read = text.map_err(|source| ConfigError::Read { path: self.path.clone(), source });
        let read = read.and_then(|text| Effective::parse(&self.path, &text, &self.flags));
        let read = read.and_then(|effective| Ok((Settings::of(&effective)?, effective)));
        let read = read.and_then(|(settings, effective)| {
            let extenders = self.extenders.prepare(&settings.extenders);
            let extenders = extenders.map_err(|why| ConfigError::of_field(&effective, "extenders", why))?;
            Ok(((settings, extenders), effective))
        });
        let (settings, effective) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(%error, "the configuration file changed and cannot be taken; the last good one stays in force");
                self.metrics.config_reloaded(ReloadResult::Invalid);
                self.is_rejected = true;
                return Ok(());
            }
        };
        let is_repaired = std::mem::take(&mut self.is_rejected);
        let restart = self.needs_restart(&effective);
        let outcome = self.apply(settings, effective).await?;
        if is_repaired {
            tracing::info!(path = %self.path.display(), "the configuration file is valid again and in use");
        }
        match outcome {
            Outcome::Same if restart.is_empty() => self.metrics.config_read_again(),
            Outcome::Same => self.metrics.config_reloaded(ReloadResult::NeedsRestart),
            Outcome::Applied(changed) => {
                let changed: Vec<&str> = changed.iter().map(|change| change.field.as_str()).collect();
                tracing::info!(?changed, "the configuration file changed, and is in force from now on");
                let result =
                    if restart.is_empty() { ReloadResult::Applied } else { ReloadResult::NeedsRestart };
                self.metrics.config_reloaded(result);
            }
        }
        Ok(())
    }

    /// The fields that a restart would change.
    fn needs_restart(&self, effective: &Effective) -> Vec<String> {
        let differences = self.started.differences(effective);
        let restart = differences.into_iter().filter(Difference::needs_restart);
        let fields: Vec<String> = restart.map(|difference| difference.field).collect();
        if !fields.is_empty() {
            tracing::warn!(?fields, "the configuration file changed in fields that need a restart");
        }
        fields
    }

    /// Hands the engine what it can take over.
    async fn apply(
        &mut self,
        (settings, extenders): (Settings, Prepared),
        effective: Effective,
    ) -> Result<Outcome, Ended> {
        let mut changed = self.in_force.differences(&effective);
        changed.retain(|difference| !difference.needs_restart());
        if changed.is_empty() {
            return Ok(Outcome::Same);
        }
        // Those that are the same as before are as good as new ones.
        let relist = self.extenders.add(&extenders);
        let text = || journal::configured(&decisive(&effective));
        let change = move |engine: &mut Scheduler, now| {
            let known = extenders.for_engine(engine.tables());
            let to = reconfiguration(&settings, known, engine);
            (engine.reconfigure(now, to), extenders)
        };
        let (any_is_new, extenders) = self.inbox.change(change, text).await?;
        self.extenders.keep_only(&extenders);
        self.shown.changed(&effective);
        self.in_force = effective;
        // After the engine has the new profile: their pods come by this list.
        if any_is_new || relist.contains(&Kind::Pod) {
            self.relist.0.request();
        }
        if relist.contains(&Kind::Node) {
            self.relist.1.request();
        }
        Ok(Outcome::Applied(changed))
    }
}

/// What the engine takes over of a configuration, with the extenders it knows from then on.
pub(crate) fn reconfiguration(
    settings: &Settings,
    extenders: Vec<Extender>,
    engine: &mut Scheduler,
) -> Reconfiguration {
    let profiles = settings
        .profiles
        .iter()
        .map(|profile| Profile { name: profile.name.clone(), framework: profile.framework(engine.tables()) });
    let profiles = profiles.collect();
    Reconfiguration {
        profiles,
        extenders,
        initial_backoff: settings.initial_backoff,
        max_backoff: settings.max_backoff,
    }
}

#[cfg(test)]
mod tests;
