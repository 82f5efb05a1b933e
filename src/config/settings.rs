//! What this version runs by, taken from a configuration.

use super::framework::Order;
use super::v1::{Args, Configuration, Extender, LeaderElection, Profile};
use super::{ConfigError, Effective, Flags, GoDuration, build, refuse};
use crate::api::Encoding;
use crate::lease::Terms;

use std::path::{Path, PathBuf};
use std::time::Duration;
use supercargo_core::cycle::{Framework, Sampling};
use supercargo_core::framework::registry::{Plan, PluginArgs};
use supercargo_core::intern::Tables;

/// The settings of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The profiles, none of them of the same name.
    pub profiles: Vec<ProfileSettings>,
    /// The first pause of a pod that failed.
    pub initial_backoff: Duration,
    /// The longest pause of a pod that failed.
    pub max_backoff: Duration,
    /// The kubeconfig the file names.
    pub kubeconfig: Option<PathBuf>,
    /// What the API server is asked to write objects in.
    pub encoding: Encoding,
    /// The lease to contend for; `None` to schedule without one.
    pub election: Option<ElectionSettings>,
    /// The extenders, as they are written and with their defaults.
    pub extenders: Vec<Extender>,
}

/// The lease to contend for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its times.
    pub terms: Terms,
}

impl ElectionSettings {
    fn new(election: &LeaderElection) -> Option<Self> {
        let duration =
            |duration: GoDuration| Duration::from_nanos(u64::try_from(duration.0).unwrap_or_default());
        (election.leader_elect == Some(true)).then(|| Self {
            namespace: election.resource_namespace.clone(),
            name: election.resource_name.clone(),
            terms: Terms {
                lease_duration: duration(election.lease_duration),
                renew_deadline: duration(election.renew_deadline),
                retry_period: duration(election.retry_period),
            },
        })
    }
}

/// A profile: which plugins run where, and by what.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileSettings {
    /// `schedulerName`.
    pub name: String,
    order: Order,
    args: Vec<Args>,
    /// As written, in percent; absent for all nodes.
    percentage_of_nodes_to_score: Option<u8>,
}

impl ProfileSettings {
    /// `percentage` is what is written, here or for all profiles: what upstream takes where nothing is, is not taken here.
    fn new(profile: &Profile, order: &Order, percentage: Option<i32>) -> Self {
        Self {
            name: profile.scheduler_name.clone().unwrap_or_default(),
            order: order.clone(),
            args: profile.plugin_config.iter().map(|config| config.args.clone()).collect(),
            percentage_of_nodes_to_score: percentage.and_then(|percentage| u8::try_from(percentage).ok()),
        }
    }

    /// `percentageOfNodesToScore` as it is written for this profile or for all; `None` for all nodes.
    pub fn percentage_of_nodes_to_score(&self) -> Option<u8> {
        self.percentage_of_nodes_to_score
    }

    /// The plugins, made with the engine's tables, in which the texts of arguments become ids.
    pub fn framework(&self, tables: &mut Tables) -> Framework {
        let mut args = PluginArgs::default();
        tables.pinned(|tables| self.args.iter().for_each(|each| build::apply(each, &mut args, tables)));
        let Order { points, weights } = self.order.clone();
        let sampling = self.percentage_of_nodes_to_score.map(Sampling::new);
        Framework::new(&Plan { points, weights, args }).with_sampling(sampling)
    }
}

impl Default for Settings {
    /// What holds without a file.
    fn default() -> Self {
        Self::new(&Effective::without_file(&Flags::default()).expect("the defaults are valid"))
    }
}

impl Settings {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// When the file cannot be read, is no KubeSchedulerConfiguration, is not valid, or asks for what this version does not
    /// do.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::of(&Effective::load(path, &Flags::default())?)
    }

    /// The settings of a configuration.
    ///
    /// # Errors
    /// When it asks for what this version does not do.
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
        }
    }
}
