//! The first line of a recording: all that the engine is made of, so that the same one can be made again.

use super::API_VERSION;
use crate::config::{ConfigError, Effective, Flags, Settings};
use crate::reload::decisive;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;
use supercargo_core::event::Event;
use supercargo_core::extender::Extender;
use supercargo_core::hash::HashSeed;
use supercargo_core::intern::Tables;
use supercargo_core::queue::QueueConfig;
use supercargo_core::rng::Seed;
use supercargo_core::scheduler::{Config, Profile, Scheduler};
use supercargo_core::time::Time;

/// `kind` of a recording.
pub(super) const KIND: &str = "Recording";

/// Who recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Mode {
    /// A scheduler, with its decisions.
    Scheduler,
    /// One who watched over the scheduler of this name, and decided nothing.
    Watcher {
        /// `schedulerName` of its pods.
        of: String,
    },
}

/// What the engine is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Beginning {
    /// Always the same of this version.
    pub api_version: String,
    /// Always the same.
    pub kind: String,
    /// The version of the program that recorded.
    pub version: String,
    /// When it began, RFC 3339.
    pub time: String,
    /// The same in nanoseconds since the Unix epoch; the times of all lines count from here.
    pub nanos: u64,
    /// The seed of every draw.
    pub seed: u64,
    /// The seed of the hashes of what users choose; of recordings made before there was one, none. It decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_seed: Option<u64>,
    /// Whether it has to be told that it leads.
    pub waits_for_lease: bool,
    /// How long a pod may wait among the unschedulable, in nanoseconds.
    pub unschedulable_nanos: u64,
    /// Of how many cached decisions one is compared with a full evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_every: Option<NonZeroU32>,
    /// In what time each live signature is compared, in nanoseconds. Recordings of versions that did not do that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_within_nanos: Option<u64>,
    /// Who recorded.
    pub mode: Mode,
    /// What decisions are made by of the configuration, with its defaults and without secrets.
    pub configuration: Value,
}

impl Beginning {
    /// Of a scheduler that begins `now`.
    pub fn new(
        mode: Mode,
        now: Time,
        seed: Seed,
        (effective, settings): (&Effective, &Settings),
        max_in_unschedulable: Duration,
    ) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: super::decision::text(now),
            nanos: now.as_nanos(),
            seed: seed.0,
            hash_seed: None,
            waits_for_lease: settings.election.is_some(),
            unschedulable_nanos: u64::try_from(max_in_unschedulable.as_nanos()).unwrap_or(u64::MAX),
            verify_every: None,
            verify_within_nanos: None,
            mode,
            configuration: decisive(effective),
        }
    }

    /// One of so many cached decisions is compared with a full evaluation, and each live signature in such a time.
    #[must_use]
    pub fn verifying(self, every: Option<NonZeroU32>, within: Option<Duration>) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self { verify_every: every, verify_within_nanos: within.map(nanos), ..self }
    }

    /// What users choose is hashed with this seed.
    #[must_use]
    pub fn hashing_with(self, seed: HashSeed) -> Self {
        Self { hash_seed: Some(seed.0), ..self }
    }

    /// Tables that hash so.
    pub(super) fn tables(&self) -> Tables {
        self.hash_seed.map_or_else(Tables::new, |seed| Tables::seeded(HashSeed(seed)))
    }

    /// As the first line.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("texts and numbers are JSON");
        line.push('\n');
        line
    }

    /// The time that all others count from.
    pub fn began(&self) -> Time {
        Time::from_nanos(self.nanos)
    }

    /// The engine, which knows nothing yet.
    pub fn engine(
        &self,
        settings: &Settings,
        extenders: impl FnOnce(&mut Tables) -> Vec<Extender>,
    ) -> Scheduler {
        let mut tables = self.tables();
        let profiles = profiles(settings, &mut tables);
        let config = Config {
            seed: Seed(self.seed),
            profiles,
            queue: QueueConfig {
                initial_backoff: settings.initial_backoff,
                max_backoff: settings.max_backoff,
                max_in_unschedulable: Duration::from_nanos(self.unschedulable_nanos),
            },
        };
        let now = self.began();
        let mut engine = Scheduler::with_tables(config, tables, now);
        if self.verify_every.is_some() {
            engine.verify_decisions(self.verify_every);
        }
        if let Some(nanos) = self.verify_within_nanos {
            engine.verify_within(now, Duration::from_nanos(nanos));
        }
        let extenders = extenders(engine.tables());
        engine.set_extenders(extenders);
        if self.waits_for_lease {
            engine.handle(now, Event::Leading(false));
        }
        engine
    }
}

/// The profiles of a configuration.
pub(super) fn profiles(settings: &Settings, tables: &mut Tables) -> Vec<Profile> {
    let profile = |profile: &crate::config::ProfileSettings| Profile {
        name: profile.name.clone(),
        framework: profile.framework(tables),
    };
    settings.profiles.iter().map(profile).collect()
}

/// The configuration that a line has.
pub(super) fn settings(configuration: &Value) -> Result<Settings, ConfigError> {
    // Who led, and under which lease, does not matter any more.
    let flags = Flags { allow_second_default_scheduler: true, ..Flags::without_election() };
    let path = Path::new("the recorded configuration");
    Settings::of(&Effective::parse(path, &configuration.to_string(), &flags)?)
}
