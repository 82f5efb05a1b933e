//! Default values of each version. Upstream: `pkg/scheduler/apis/config/v1/defaults.go`, with default feature gates.

use crate::DEFAULT_NAME;
use crate::v1::args::{Args, ResourceSpec, ScoringStrategy, UtilizationShapePoint};
use crate::v1::duration::GoDuration;
use crate::v1::plugins;
use crate::v1::{ClientConnection, Configuration, LeaderElection, PluginConfig, Profile};
use supercargo_core::model::emulation::VersionRules;

pub(crate) const LEASE_NAMESPACE: &str = "kube-system";
pub(crate) const LEASE_NAME: &str = "kube-scheduler";

fn default_to<T: Default + PartialEq>(field: &mut T, value: T) {
    if *field == T::default() {
        *field = value;
    }
}

impl Configuration {
    /// Fills in all defaults, including plugins and their arguments.
    pub(crate) fn set_defaults(&mut self, rules: VersionRules) {
        self.parallelism.get_or_insert(16);
        if self.profiles.is_empty() {
            self.profiles.push(Profile::default());
        }
        if let [only] = self.profiles.as_mut_slice() {
            only.scheduler_name.get_or_insert_with(|| DEFAULT_NAME.to_owned());
        }
        self.profiles.iter_mut().for_each(|profile| profile.set_defaults(rules));
        self.percentage_of_nodes_to_score.get_or_insert(0);
        self.leader_election.set_defaults();
        self.client_connection.set_defaults();
        self.pod_initial_backoff_seconds.get_or_insert(1);
        self.pod_max_backoff_seconds.get_or_insert(10);
        let profiling = *self.enable_profiling.get_or_insert(true);
        self.enable_contention_profiling.get_or_insert(profiling);
    }
}

impl LeaderElection {
    fn set_defaults(&mut self) {
        self.leader_elect.get_or_insert(true);
        default_to(&mut self.lease_duration, GoDuration::seconds(15));
        default_to(&mut self.renew_deadline, GoDuration::seconds(10));
        default_to(&mut self.retry_period, GoDuration::seconds(2));
        default_to(&mut self.resource_lock, "leases".to_owned());
        default_to(&mut self.resource_name, LEASE_NAME.to_owned());
        default_to(&mut self.resource_namespace, LEASE_NAMESPACE.to_owned());
    }
}

impl ClientConnection {
    fn set_defaults(&mut self) {
        default_to(&mut self.content_type, "application/vnd.kubernetes.protobuf".to_owned());
        default_to(&mut self.qps, 50.0);
        default_to(&mut self.burst, 100);
    }
}

impl Profile {
    fn set_defaults(&mut self, rules: VersionRules) {
        let plugins = plugins::merged_with_defaults(self.plugins.take(), rules);
        self.plugin_config.iter_mut().for_each(|config| config.args.set_defaults(rules));
        for name in plugins.names() {
            if self.plugin_config.iter().any(|config| config.name == name) {
                continue;
            }
            if let Some(mut args) = Args::empty(&name) {
                args.set_defaults(rules);
                self.plugin_config.push(PluginConfig { name, args });
            }
        }
        self.plugins = Some(plugins);
    }
}

fn cpu_and_memory() -> Vec<ResourceSpec> {
    ["cpu", "memory"].map(|name| ResourceSpec { name: name.to_owned(), weight: 1 }).into()
}

fn set_weights(resources: &mut Vec<ResourceSpec>) {
    if resources.is_empty() {
        *resources = cpu_and_memory();
    }
    resources.iter_mut().for_each(|resource| default_to(&mut resource.weight, 1));
}

impl Args {
    pub(crate) fn set_defaults(&mut self, rules: VersionRules) {
        match self {
            Self::DefaultPreemption(args) => {
                args.min_candidate_nodes_percentage.get_or_insert(10);
                args.min_candidate_nodes_absolute.get_or_insert(100);
            }
            Self::DynamicResources(args) => {
                args.filter_timeout.get_or_insert(GoDuration::seconds(10));
                if rules.waits_for_devices() {
                    args.binding_timeout.get_or_insert(GoDuration::seconds(600));
                }
            }
            Self::InterPodAffinity(args) => {
                args.hard_pod_affinity_weight.get_or_insert(1);
            }
            Self::NodeResourcesBalancedAllocation(args) => set_weights(&mut args.resources),
            Self::NodeResourcesFit(args) => {
                let strategy = args.scoring_strategy.get_or_insert_with(|| ScoringStrategy {
                    kind: "LeastAllocated".to_owned(),
                    ..ScoringStrategy::default()
                });
                set_weights(&mut strategy.resources);
            }
            Self::PodTopologySpread(args) => default_to(&mut args.defaulting_type, "System".to_owned()),
            Self::VolumeBinding(args) => {
                args.bind_timeout_seconds.get_or_insert(600);
                if rules.scores_storage_capacity && args.shape.as_ref().is_none_or(Vec::is_empty) {
                    let point = |(utilization, score)| UtilizationShapePoint { utilization, score };
                    args.shape = Some([(0, 10), (100, 0)].map(point).into());
                }
            }
            Self::NodeAffinity(_) | Self::Absent | Self::Unread(_) | Self::Raw(_) => {}
        }
    }
}
