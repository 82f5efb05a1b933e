//! The first line of a recording: everything needed to build an identical engine.

use crate::recording::decision::API_VERSION;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;
use supercargo_config::flags::parse_emulated_version;
use supercargo_config::redacted::decisive;
use supercargo_config::{ConfigError, Effective, Flags, Settings};
use supercargo_core::collections::hash::HashSeed;
use supercargo_core::model::emulation::{Compat, EmulatedVersion, GroupGates};
use supercargo_core::model::event::{Event, Kind};
use supercargo_core::model::extender::Extender;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::scheduler::{Config, Profile, Scheduler};

/// `kind` of a recording.
pub const KIND: &str = "Recording";

/// The recorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Mode {
    /// A scheduler; its decisions are recorded too.
    Scheduler,
    /// An observer of the scheduler with this name, which made no decisions.
    Watcher {
        /// `schedulerName` of its pods.
        of: String,
    },
}

/// Parameters of the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// API version of this kind.
    pub api_version: String,
    /// Kind of this object.
    pub kind: String,
    /// Version of the program that recorded.
    pub version: String,
    /// Start time, RFC 3339.
    pub time: String,
    /// Start time in nanoseconds since the Unix epoch. Times of all lines are relative to it.
    pub nanos: u64,
    /// Seed of tie-breaks.
    pub seed: u64,
    /// Seed of hash tables with user-chosen keys; it affects no decision. Absent in recordings of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_seed: Option<u64>,
    /// Whether the engine starts as a standby and waits for leadership.
    pub waits_for_lease: bool,
    /// Maximum time a pod stays in unschedulablePods, in nanoseconds.
    pub unschedulable_nanos: u64,
    /// Interval of verification: every Nth cached decision is compared with a full evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_every: Option<NonZeroU32>,
    /// Maximum time until each live signature is verified, in nanoseconds. Absent in recordings of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify_within_nanos: Option<u64>,
    /// The recorder.
    pub mode: Mode,
    /// The version of kube-scheduler to behave as; 1.36 if absent, as in recordings of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated_version: Option<String>,
    /// Whether ResourceClaims and ResourceSlices are recorded. They are not in recordings of older versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub records_devices: bool,
    /// Whether defects of kube-scheduler are reproduced: `upstream`, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compat: Option<String>,
    /// Feature gates of pod groups that are on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<String>,
    /// Fields of the configuration that affect decisions, with defaults and without secrets.
    pub configuration: Value,
}

impl Header {
    /// Describes an engine that starts `now`.
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
            time: crate::recording::decision::text(now),
            nanos: now.as_nanos(),
            seed: seed.0,
            hash_seed: None,
            waits_for_lease: settings.election.is_some(),
            unschedulable_nanos: u64::try_from(max_in_unschedulable.as_nanos()).unwrap_or(u64::MAX),
            verify_every: None,
            verify_within_nanos: None,
            mode,
            emulated_version: Some(effective.emulated_version.to_string()),
            records_devices: true,
            compat: None,
            feature_gates: effective.groups.names().map(str::to_owned).collect(),
            configuration: decisive(effective),
        }
    }

    /// Adds whether defects of kube-scheduler are reproduced.
    #[must_use]
    pub fn compatible(self, compat: Compat) -> Self {
        let compat = (compat != Compat::default()).then(|| compat.as_str().to_owned());
        Self { compat, ..self }
    }

    /// Adds verification: of every Nth cached decision, and of each live signature within a time.
    #[must_use]
    pub fn verifying(self, every: Option<NonZeroU32>, within: Option<Duration>) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self { verify_every: every, verify_within_nanos: within.map(nanos), ..self }
    }

    /// Adds the seed of hash tables with user-chosen keys.
    #[must_use]
    pub fn hashing_with(self, seed: HashSeed) -> Self {
        Self { hash_seed: Some(seed.0), ..self }
    }

    /// Returns the version to behave as.
    ///
    /// # Errors
    /// If this program does not know the version.
    pub fn emulated_version(&self) -> Result<EmulatedVersion, String> {
        let Some(version) = &self.emulated_version else { return Ok(EmulatedVersion::V1_36) };
        parse_emulated_version(version).map_err(|error| format!("emulatedVersion: {error}"))
    }

    /// Returns the feature gates of pod groups. A name that this program does not know has no effect.
    pub fn groups(&self) -> GroupGates {
        let mut gates = GroupGates::OFF;
        for name in &self.feature_gates {
            gates.set(name, true);
        }
        gates
    }

    /// Returns empty tables with the recorded hash seed.
    pub fn tables(&self) -> Tables {
        let mut tables = self.hash_seed.map_or_else(Tables::new, |seed| Tables::seeded(HashSeed(seed)));
        // An unknown value is that of a newer version, which had another reason for it.
        tables.set_compat(self.compat.as_deref().and_then(|it| it.parse().ok()).unwrap_or_default());
        tables.set_group_gates(self.groups());
        tables
    }

    /// Formats the first line.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("texts and numbers are JSON");
        line.push('\n');
        line
    }

    /// Returns the start time, to which all times are relative.
    pub fn began(&self) -> Time {
        Time::from_nanos(self.nanos)
    }

    /// Returns empty lists of the kinds that the recording does not have.
    pub fn unrecorded_lists(&self) -> impl Iterator<Item = Event> {
        let kinds = [Kind::ResourceClaim, Kind::ResourceSlice];
        let kinds = kinds.into_iter().filter(|_| !self.records_devices);
        kinds.flat_map(|kind| [Event::ListBegan(kind), Event::ListEnded(kind)])
    }

    /// Returns a new engine with these parameters.
    pub fn engine(
        &self,
        settings: &Settings,
        extenders: impl FnOnce(&mut Tables) -> Vec<Extender>,
    ) -> Scheduler {
        let mut tables = self.tables();
        tables.emulate(settings.emulated_version);
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
        self.unrecorded_lists().for_each(|event| engine.handle(now, event));
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

/// Returns the profiles of a configuration.
pub fn profiles(settings: &Settings, tables: &mut Tables) -> Vec<Profile> {
    let profile = |profile: &supercargo_config::ProfileSettings| Profile {
        name: profile.name.clone(),
        framework: profile.framework(tables),
    };
    settings.profiles.iter().map(profile).collect()
}

/// Parses a recorded configuration for a version and the feature gates of pod groups.
pub fn settings(
    configuration: &Value,
    emulated_version: EmulatedVersion,
    groups: GroupGates,
) -> Result<Settings, ConfigError> {
    // Leader election does not affect a replay, so its settings are not checked.
    let flags =
        Flags { allow_second_default_scheduler: true, emulated_version, groups, ..Flags::without_election() };
    let path = Path::new("the recorded configuration");
    Settings::of(&Effective::parse(path, &configuration.to_string(), &flags)?)
}
