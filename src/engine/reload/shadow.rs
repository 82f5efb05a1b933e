//! Reloads the configuration file of a shadow at runtime. Only the profile it compares with can change.

use crate::engine::Inbox;
use crate::engine::reload::InForce;
use crate::engine::reload::source::follow;
use crate::engine::shadow::Judging;
use crate::telemetry::metrics::{Metrics, ReloadResult};
use futures::StreamExt as _;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use supercargo_apiserver::watch::Ended;
use supercargo_config::{ConfigError, Difference, Effective, Flags, ProfileSettings, Settings};

/// Returns the profile with this name, to compare the scheduler with.
///
/// # Errors
/// A message if the configuration has no profile with this name.
pub fn profile_of<'s>(settings: &'s Settings, name: &str) -> Result<&'s ProfileSettings, String> {
    settings.profiles.iter().find(|profile| profile.name == name).ok_or_else(|| {
        let names: Vec<&str> = settings.profiles.iter().map(|it| it.name.as_str()).collect();
        format!(
            "--shadow-of {name}: the configuration has no profile with this name; its profiles are {}",
            names.join(", ")
        )
    })
}

/// Follows the configuration file of a shadow.
pub struct ShadowReload {
    path: PathBuf,
    flags: Flags,
    started: Effective,
    in_force: Effective,
    judged_by: ProfileSettings,
    inbox: Inbox<Judging>,
    metrics: Arc<Metrics>,
    shown: InForce,
    /// Whether the file was invalid when it was last read.
    is_rejected: bool,
}

impl ShadowReload {
    /// Follows `path`, from which `started` was read with `flags`. `judged_by` is the profile of the scheduler that
    /// the shadow compares with, and `shown` is where the active configuration is published.
    pub fn new(
        path: PathBuf,
        (flags, started): (Flags, Effective),
        judged_by: ProfileSettings,
        inbox: Inbox<Judging>,
        metrics: Arc<Metrics>,
        shown: InForce,
    ) -> Self {
        let in_force = started.clone();
        Self { path, flags, started, in_force, judged_by, inbox, metrics, shown, is_rejected: false }
    }

    /// Runs until the comparing thread ends.
    pub async fn run(mut self) {
        let mut texts = pin!(follow(self.path.clone()));
        while let Some(text) = texts.next().await {
            if self.changed(text).await == Err(Ended) {
                return;
            }
        }
    }

    /// Handles a new text of the file.
    ///
    /// # Errors
    /// Fails if the comparing thread has ended.
    pub(super) async fn changed(&mut self, text: io::Result<String>) -> Result<(), Ended> {
        let (profile, effective) = match self.read(text) {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(
                    error,
                    "the configuration file is invalid; the shadow keeps the previous profile"
                );
                self.metrics.config_reloaded(ReloadResult::Invalid);
                self.is_rejected = true;
                return Ok(());
            }
        };
        if std::mem::take(&mut self.is_rejected) {
            tracing::info!(path = %self.path.display(), "the configuration file is valid again");
        }
        let restart = self.started.differences(&effective).into_iter().filter(Difference::needs_restart);
        let restart: Vec<String> = restart.map(|difference| difference.field).collect();
        if !restart.is_empty() {
            tracing::warn!(fields = ?restart, "changed fields of the configuration file need a restart");
        }
        let mut changed = self.in_force.differences(&effective);
        changed.retain(|difference| !difference.needs_restart());
        if changed.is_empty() && restart.is_empty() {
            self.metrics.config_read_again();
            return Ok(());
        }
        if profile != self.judged_by {
            self.judged_by = profile.clone();
            let judge = move |judging: &mut Judging, now| {
                judging.judge_by(now, |tables| profile.framework(tables));
            };
            // Shadow mode has no recorder.
            self.inbox.change(judge, Box::default).await?;
            let changed: Vec<&str> = changed.iter().map(|change| change.field.as_str()).collect();
            tracing::info!(?changed, "applied the changed profile; the shadow report starts again");
        }
        self.shown.changed(&effective);
        self.in_force = effective;
        let result = if restart.is_empty() { ReloadResult::Applied } else { ReloadResult::NeedsRestart };
        self.metrics.config_reloaded(result);
        Ok(())
    }

    fn read(&self, text: io::Result<String>) -> Result<(ProfileSettings, Effective), String> {
        let text = text.map_err(|source| ConfigError::Read { path: self.path.clone(), source });
        let effective = text.and_then(|text| Effective::parse(&self.path, &text, &self.flags));
        let effective = effective.map_err(|error| error.to_string())?;
        let settings = Settings::of(&effective).map_err(|error| error.to_string())?;
        let profile = profile_of(&settings, &self.judged_by.name)?;
        Ok((profile.clone(), effective))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::shadow::Results;
    use crate::engine::{Item, without_driver};
    use crate::telemetry::metrics::Exposition;
    use std::path::Path;
    use supercargo_core::compare::Agreement;
    use supercargo_core::model::effect::PodRef;
    use supercargo_core::model::intern::Tables;
    use supercargo_core::model::rng::Seed;
    use supercargo_core::model::time::Time;
    use supercargo_core::shadow::{Judgement, Shadow};
    use supercargo_whatif::shadow_report::ShadowReport;

    const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

    struct Followed {
        reload: ShadowReload,
        book: Arc<Results>,
        metrics: Arc<Metrics>,
        shown: InForce,
    }

    impl Followed {
        fn new(rest: &str) -> Self {
            let flags = Flags { allow_second_default_scheduler: true, ..Flags::without_election() };
            let path = Path::new("f.yaml");
            let started =
                Effective::parse(path, &format!("{HEAD}{rest}"), &flags).expect("the configuration is valid");
            let settings = Settings::of(&started).expect("the settings are valid");
            let profile = profile_of(&settings, "them").expect("the profile exists").clone();
            let (book, metrics) = (Arc::new(Results::new("them")), Arc::new(Metrics::new()));
            let mut tables = Tables::new();
            let framework = profile.framework(&mut tables);
            let shadow = Shadow::new("them", framework, Seed(1), tables, Time::default());
            let mut judging = Judging::new(shadow, Arc::clone(&book), Arc::clone(&metrics));
            let (inbox, mut items) = without_driver(8);
            tokio::spawn(async move {
                while let Some(item) = items.recv().await {
                    let Item::Change(change, _) = item else { panic!("only changes are sent here") };
                    change(&mut judging, Time::from_secs(5));
                }
            });
            let shown = InForce::new(&started);
            let of = (flags, started);
            let reload =
                ShadowReload::new(path.to_owned(), of, profile, inbox, Arc::clone(&metrics), shown.clone());
            Self { reload, book, metrics, shown }
        }

        /// Adds one result, changes the file, and returns the reload counters and the report's number of equal
        /// decisions.
        async fn after(&mut self, rest: &str) -> ([u64; 3], u64) {
            self.book.judged(&judgement(), Time::from_secs(2));
            let text = Ok(format!("{HEAD}{rest}"));
            self.reload.changed(text).await.expect("the engine is running");
            let shown = Exposition::new(Arc::clone(&self.metrics)).render().await;
            let reloads = |result: &str| {
                let series = format!("supercargo_config_reloads_total{{result=\"{result}\"}} ");
                let value = shown.lines().find_map(|line| line.strip_prefix(&series));
                value.and_then(|value| value.parse().ok()).expect("the counter exists")
            };
            let report: ShadowReport =
                serde_json::from_str(&self.book.to_json()).expect("the JSON is a report");
            (["applied", "needs_restart", "invalid"].map(reloads), report.decisions["same"])
        }
    }

    fn judgement() -> Judgement {
        let pod = PodRef { namespace: "default".to_owned(), name: "p".to_owned(), uid: "p".into() };
        let at = Time::from_secs(1);
        Judgement { pod, at, agreement: Agreement::Same, regret: Some(0), comparison: None }
    }

    #[tokio::test]
    async fn changed_profile_applies_at_once_and_restarts_the_report() {
        let mut file = Followed::new("profiles: [{schedulerName: them}]\n");
        let packing = "profiles:\n- schedulerName: them\n  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: \
                       {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n";
        assert_eq!(file.after(packing).await, ([1, 0, 0], 0));
        assert!(file.shown.json().to_string().contains("MostAllocated"), "the new profile is shown");
        assert_eq!(file.after(packing).await, ([1, 0, 0], 1), "nothing changed");
        assert_eq!(file.after(&format!("{packing}- schedulerName: other\n")).await, ([2, 0, 0], 2));
        assert_eq!(file.after(&format!("{packing}parallelism: 3\n")).await, ([2, 1, 0], 3));
    }

    #[tokio::test]
    async fn invalid_file_or_missing_profile_changes_nothing() {
        let mut file = Followed::new("profiles: [{schedulerName: them}]\n");
        assert_eq!(file.after("profiles: [{schedulerName: others}]\n").await, ([0, 0, 1], 1));
        assert_eq!(file.after("profiles: {}\n").await, ([0, 0, 2], 2));
        assert_eq!(file.reload.judged_by.name, "them");
    }
}
