//! Reloads the configuration at runtime: applies reloadable changes of its file, and another version of kube-scheduler,
//! between two decisions.
//!
//! An invalid file is rejected and the previous configuration stays active; log and metrics report it. Changes that
//! need a restart are logged. Upstream reads its file only at startup.

mod in_force;
mod shadow;
mod source;

pub use in_force::InForce;
pub use shadow::{ShadowReload, profile_of};

use crate::engine::Inbox;
use crate::extenders::{Extenders, Prepared};
use crate::telemetry::metrics::{Metrics, ReloadResult};
use futures::{StreamExt as _, stream};
use source::follow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use supercargo_apiserver::watch::Ended;
use supercargo_apiserver::watch::Relist;
use supercargo_config::redacted::decisive;
use supercargo_config::{ConfigError, Difference, Effective, Flags, Settings};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::event::Kind;
use supercargo_core::scheduler::Scheduler;
use supercargo_objects::input_text;
use tokio::sync::watch;

/// Follows the configuration file, if there is one, and the version to behave as, and applies their changes.
pub struct Reload {
    path: Option<PathBuf>,
    flags: Flags,
    /// The configuration at startup.
    started: Effective,
    /// The active configuration; only its reloadable fields matter.
    in_force: Effective,
    inbox: Inbox<Scheduler>,
    /// Triggers a relist of pods and of nodes.
    relist: (Relist, Relist),
    extenders: Extenders,
    metrics: Arc<Metrics>,
    shown: InForce,
    /// Whether the file was invalid when it was last read.
    is_rejected: bool,
}

/// The version to behave as, shared with the one who finds it.
pub struct Versions {
    /// The version; changes are applied.
    pub wanted: watch::Receiver<EmulatedVersion>,
    /// The version that was applied last, or refused because the configuration is invalid for it.
    pub taken: watch::Sender<Option<EmulatedVersion>>,
}

/// The result of a reload.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The change is active.
    Applied(Vec<Difference>),
    /// No reloadable field changed.
    Same,
}

impl Reload {
    /// Follows `path`, from which `started` was read with `flags`. Without a file, `started` has the defaults.
    pub fn new(
        path: Option<PathBuf>,
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

    /// Sets where to publish the active configuration.
    #[must_use]
    pub fn shown_in(mut self, shown: InForce) -> Self {
        self.shown = shown;
        self
    }

    /// Runs until the engine ends.
    pub async fn run(mut self, versions: Versions) {
        let Versions { wanted: mut versions, taken } = versions;
        let texts = self.path.clone().map(follow);
        let mut texts = pin!(stream::iter(texts).flatten());
        let mut version_changes = true;
        loop {
            let applied = tokio::select! {
                Some(text) = texts.next() => self.changed(text).await,
                changed = versions.changed(), if version_changes => match changed {
                    Ok(()) => {
                        let version = *versions.borrow_and_update();
                        let applied = self.emulate(version).await;
                        taken.send_replace(Some(version));
                        applied
                    }
                    // No task changes it any more.
                    Err(_) => {
                        version_changes = false;
                        Ok(())
                    }
                },
                else => return,
            };
            if applied == Err(Ended) {
                return;
            }
        }
    }

    /// Behaves as another version of kube-scheduler from now on, unless the configuration is invalid for it.
    ///
    /// # Errors
    /// Fails if the engine has ended.
    async fn emulate(&mut self, version: EmulatedVersion) -> Result<(), Ended> {
        let before = std::mem::replace(&mut self.flags.emulated_version, version);
        let text = match &self.path {
            // The file system may be remote and slow.
            Some(path) => tokio::fs::read_to_string(path).await,
            None => Ok(String::new()),
        };
        self.take(text, false).await?;
        let current = self.in_force.emulated_version;
        if current != version {
            tracing::error!(%current, %version, "the configuration is invalid for the new version of kube-scheduler; the previous version stays");
            self.flags.emulated_version = before;
        } else if before != version {
            tracing::info!(%version, %before, "behaving as another version of kube-scheduler from now on");
            self.metrics.emulates(version);
        }
        Ok(())
    }

    /// Reads the configuration from a text of the file.
    fn parse(&self, text: std::io::Result<String>) -> Result<Effective, ConfigError> {
        let Some(path) = &self.path else { return Effective::without_file(&self.flags) };
        let text = text.map_err(|source| ConfigError::Read { path: path.clone(), source })?;
        Effective::parse(path, &text, &self.flags)
    }

    /// Handles a new text of the file.
    ///
    /// # Errors
    /// Fails if the engine has ended.
    async fn changed(&mut self, text: std::io::Result<String>) -> Result<(), Ended> {
        self.take(text, true).await
    }

    /// Applies a text of the file, because the file changed or because the version did.
    async fn take(&mut self, text: std::io::Result<String>, is_file_change: bool) -> Result<(), Ended> {
        let read = self.parse(text);
        let read = read.and_then(|effective| Ok((Settings::of(&effective)?, effective)));
        let read = read.and_then(|(settings, effective)| {
            let extenders = self.extenders.prepare(&settings.extenders);
            let extenders = extenders.map_err(|why| ConfigError::of_field(&effective, "extenders", why))?;
            Ok(((settings, extenders), effective))
        });
        let (settings, effective) = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(%error, "the configuration file is invalid; the previous configuration stays active");
                if is_file_change {
                    self.metrics.config_reloaded(ReloadResult::Invalid);
                    self.is_rejected = true;
                }
                return Ok(());
            }
        };
        let is_repaired = std::mem::take(&mut self.is_rejected);
        let restart = self.needs_restart(&effective);
        let outcome = self.apply(settings, effective).await?;
        if is_repaired {
            tracing::info!(path = ?self.path, "the configuration file is valid again");
        }
        match outcome {
            Outcome::Same if restart.is_empty() => self.metrics.config_read_again(),
            Outcome::Same => self.metrics.config_reloaded(ReloadResult::NeedsRestart),
            // The caller reports a new version.
            Outcome::Applied(_) if !is_file_change => {}
            Outcome::Applied(changed) => {
                let changed: Vec<&str> = changed.iter().map(|change| change.field.as_str()).collect();
                tracing::info!(?changed, "applied the changed configuration file");
                let result =
                    if restart.is_empty() { ReloadResult::Applied } else { ReloadResult::NeedsRestart };
                self.metrics.config_reloaded(result);
            }
        }
        Ok(())
    }

    /// Returns the changed fields that need a restart, and logs them.
    fn needs_restart(&self, effective: &Effective) -> Vec<String> {
        let differences = self.started.differences(effective);
        let restart = differences.into_iter().filter(Difference::needs_restart);
        let fields: Vec<String> = restart.map(|difference| difference.field).collect();
        if !fields.is_empty() {
            tracing::warn!(?fields, "changed fields of the configuration file need a restart");
        }
        fields
    }

    /// Applies the reloadable changes to the engine.
    async fn apply(
        &mut self,
        (settings, extenders): (Settings, Prepared),
        effective: Effective,
    ) -> Result<Outcome, Ended> {
        let mut changed = self.in_force.differences(&effective);
        changed.retain(|difference| !difference.needs_restart());
        if changed.is_empty() && self.in_force.emulated_version == effective.emulated_version {
            return Ok(Outcome::Same);
        }
        // All extenders get new clients, also unchanged ones; the old clients are dropped below.
        let relist = self.extenders.add(&extenders);
        let text = || input_text::configured(&decisive(&effective), effective.emulated_version);
        let change = move |engine: &mut Scheduler, now| {
            let known = extenders.for_engine(engine.tables());
            let to = settings.reconfiguration(known, engine.tables());
            (engine.reconfigure(now, to), extenders)
        };
        let (any_is_new, extenders) = self.inbox.change(change, text).await?;
        self.extenders.keep_only(&extenders);
        self.shown.changed(&effective);
        self.in_force = effective;
        // After the engine has the new profile, the relist delivers the pods of that profile.
        if any_is_new || relist.contains(&Kind::Pod) {
            self.relist.0.request();
        }
        if relist.contains(&Kind::Node) {
            self.relist.1.request();
        }
        Ok(Outcome::Applied(changed))
    }
}

#[cfg(test)]
mod tests;
