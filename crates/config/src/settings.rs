//! Settings that this version runs with, taken from a configuration.

use crate::framework::Order;
use crate::lease_terms::LeaseTerms;
use crate::v1::{Args, Configuration, Extender, LeaderElection, Profile};
use crate::{ConfigError, Effective, Flags, GoDuration, build, refuse};
use supercargo_objects::api::Encoding;

use std::path::{Path, PathBuf};
use std::time::Duration;
use supercargo_core::cycle::{Framework, Sampling};
use supercargo_core::model::emulation::{EmulatedVersion, GroupGates};
use supercargo_core::model::extender::Extender as CoreExtender;
use supercargo_core::model::intern::Tables;
use supercargo_core::registry::{Plan, PluginArgs};
use supercargo_core::scheduler::Reconfiguration;

/// Settings of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Profiles, with distinct names.
    pub profiles: Vec<ProfileSettings>,
    /// First backoff of a failed pod.
    pub initial_backoff: Duration,
    /// Maximum backoff of a failed pod.
    pub max_backoff: Duration,
    /// Kubeconfig named in the file.
    pub kubeconfig: Option<PathBuf>,
    /// Encoding requested from the API server.
    pub encoding: Encoding,
    /// Leader election; `None` if disabled.
    pub election: Option<ElectionSettings>,
    /// Extenders with their defaults.
    pub extenders: Vec<Extender>,
    /// The version of kube-scheduler to behave as.
    pub emulated_version: EmulatedVersion,
    /// The feature gates of pod groups.
    pub groups: GroupGates,
}

/// Lease for leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Durations.
    pub terms: LeaseTerms,
}

impl Settings {
    /// Returns the engine's part of the settings, with the extenders it uses from then on.
    pub fn reconfiguration(&self, extenders: Vec<CoreExtender>, tables: &mut Tables) -> Reconfiguration {
        let framework =
            |profile: &ProfileSettings, tables: &mut Tables| supercargo_core::scheduler::Profile {
                name: profile.name.clone(),
                framework: profile.framework(tables),
            };
        Reconfiguration {
            emulated_version: self.emulated_version,
            profiles: self.profiles.iter().map(|profile| framework(profile, tables)).collect(),
            extenders,
            initial_backoff: self.initial_backoff,
            max_backoff: self.max_backoff,
        }
    }
}

impl ElectionSettings {
    fn new(election: &LeaderElection) -> Option<Self> {
        let duration =
            |duration: GoDuration| Duration::from_nanos(u64::try_from(duration.0).unwrap_or_default());
        (election.leader_elect == Some(true)).then(|| Self {
            namespace: election.resource_namespace.clone(),
            name: election.resource_name.clone(),
            terms: LeaseTerms {
                lease_duration: duration(election.lease_duration),
                renew_deadline: duration(election.renew_deadline),
                retry_period: duration(election.retry_period),
            },
        })
    }
}

/// A profile: its plugins at each extension point, and their arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileSettings {
    /// `schedulerName`.
    pub name: String,
    order: Order,
    args: Vec<Args>,
    /// Percentage of nodes to score as written; `None` for all nodes.
    percentage_of_nodes_to_score: Option<u8>,
}

impl ProfileSettings {
    /// `percentage` is the written value; upstream's default is not applied.
    fn new(profile: &Profile, order: &Order, percentage: Option<i32>) -> Self {
        Self {
            name: profile.scheduler_name.clone().unwrap_or_default(),
            order: order.clone(),
            args: profile.plugin_config.iter().map(|config| config.args.clone()).collect(),
            percentage_of_nodes_to_score: percentage.and_then(|percentage| u8::try_from(percentage).ok()),
        }
    }

    /// Returns the written `percentageOfNodesToScore`, of this profile or of all; `None` for all nodes.
    pub fn percentage_of_nodes_to_score(&self) -> Option<u8> {
        self.percentage_of_nodes_to_score
    }

    /// Builds the plugins. Strings in arguments are interned in the engine's tables.
    pub fn framework(&self, tables: &mut Tables) -> Framework {
        let sampling = self.percentage_of_nodes_to_score.map(Sampling::new);
        Framework::new(&self.plan(tables)).with_sampling(sampling)
    }

    /// Returns the enabled plugins and their arguments.
    pub(crate) fn plan(&self, tables: &mut Tables) -> Plan {
        let mut args = PluginArgs::default();
        tables.pinned(|tables| self.args.iter().for_each(|each| build::apply(each, &mut args, tables)));
        let Order { points, weights } = self.order.clone();
        Plan { points, weights, args }
    }
}

impl Default for Settings {
    /// Returns the settings without a file.
    fn default() -> Self {
        Self::new(&Effective::without_file(&Flags::default()).expect("the defaults are valid"))
    }
}

impl Settings {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a KubeSchedulerConfiguration, is invalid, or sets an
    /// unsupported field.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::of(&Effective::load(path, &Flags::default())?)
    }

    /// Returns the settings of a configuration.
    ///
    /// # Errors
    /// Fails if the configuration sets an unsupported field.
    pub fn of(effective: &Effective) -> Result<Self, ConfigError> {
        let problems = refuse::problems(effective);
        if problems.is_empty() {
            Ok(Self::new(effective))
        } else {
            Err(ConfigError::Invalid { path: effective.path.clone(), problems })
        }
    }

    fn new(effective: &Effective) -> Self {
        let Configuration {
            profiles,
            client_connection,
            pod_initial_backoff_seconds,
            pod_max_backoff_seconds,
            leader_election,
            extenders,
            ..
        } = &effective.configuration;
        let seconds =
            |n: &Option<i64>| Duration::from_secs(n.and_then(|n| u64::try_from(n).ok()).unwrap_or_default());
        let kubeconfig = client_connection.kubeconfig.as_str();
        let profiles = profiles.iter().zip(&effective.orders).enumerate();
        Self {
            profiles: profiles
                .map(|(at, (profile, order))| {
                    ProfileSettings::new(profile, order, effective.percentage_of_nodes_to_score(at))
                })
                .collect(),
            initial_backoff: seconds(pod_initial_backoff_seconds),
            max_backoff: seconds(pod_max_backoff_seconds),
            kubeconfig: (!kubeconfig.is_empty()).then(|| PathBuf::from(kubeconfig)),
            encoding: Encoding::wanted(
                &client_connection.accept_content_types,
                &client_connection.content_type,
            ),
            election: ElectionSettings::new(leader_election),
            extenders: extenders.clone(),
            emulated_version: effective.emulated_version,
            groups: effective.groups,
        }
    }
}
