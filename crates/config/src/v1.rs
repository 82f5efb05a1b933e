//! KubeSchedulerConfiguration v1 as written. Absent fields stay absent; `defaults` fills them in.
//!
//! Fields are named and serialized as upstream does (`kube-scheduler/config/v1/types.go`,
//! `component-base/config/v1alpha1/types.go`).

#![allow(missing_docs, reason = "fields are named as upstream")]

pub mod args;
mod codec;
pub(crate) mod defaults;
pub(crate) mod duration;
pub(crate) mod plugins;
pub(crate) mod since;
pub(crate) mod validate;

pub use args::Args;

use crate::v1::duration::GoDuration;
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

/// `apiVersion` of the file.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// `kind` of the file.
pub const KIND: &str = "KubeSchedulerConfiguration";

/// Content of the file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Configuration {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    pub leader_election: LeaderElection,
    pub client_connection: ClientConnection,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_profiling: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_contention_profiling: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_initial_backoff_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_max_backoff_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<Extender>,
    #[serde(skip_serializing_if = "is_false")]
    pub delay_cache_until_active: bool,
}

/// Field `leaderElection`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderElection {
    pub leader_elect: Option<bool>,
    pub lease_duration: GoDuration,
    pub renew_deadline: GoDuration,
    pub retry_period: GoDuration,
    pub resource_lock: String,
    pub resource_name: String,
    pub resource_namespace: String,
}

/// Field `clientConnection`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConnection {
    pub kubeconfig: String,
    pub accept_content_types: String,
    pub content_type: String,
    #[serde(serialize_with = "codec::number")]
    pub qps: f32,
    pub burst: i32,
}

/// Entry of `profiles`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Profile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Plugins>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugin_config: Vec<PluginConfig>,
}

/// Field `plugins` of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plugins {
    pub pre_enqueue: PluginSet,
    pub queue_sort: PluginSet,
    pub pre_filter: PluginSet,
    pub filter: PluginSet,
    pub post_filter: PluginSet,
    pub pre_score: PluginSet,
    pub score: PluginSet,
    pub reserve: PluginSet,
    pub permit: PluginSet,
    pub pre_bind: PluginSet,
    pub bind: PluginSet,
    pub post_bind: PluginSet,
    pub multi_point: PluginSet,
    pub placement_generate: PluginSet,
    pub placement_score: PluginSet,
    pub pod_group_post_filter: PluginSet,
}

/// Enabled and disabled plugins of an extension point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginSet {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<Plugin>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<Plugin>,
}

/// A plugin with its weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plugin {
    pub name: String,
    /// 0 and absent are equal, and are written as 0.
    #[serde(deserialize_with = "codec::or_zero")]
    pub weight: i32,
}

/// Entry of `pluginConfig`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginConfig {
    pub name: String,
    #[serde(skip_serializing_if = "Args::is_absent")]
    pub args: Args,
}

/// Entry of `extenders`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Extender {
    pub url_prefix: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    #[serde(rename = "enableHTTPS", skip_serializing_if = "is_false")]
    pub enable_https: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<ExtenderTls>,
    #[serde(rename = "httpTimeout")]
    pub http_timeout: GoDuration,
    #[serde(skip_serializing_if = "is_false")]
    pub node_cache_capable: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ExtenderManagedResource>,
    #[serde(skip_serializing_if = "is_false")]
    pub ignorable: bool,
}

/// Entry of an extender's `managedResources`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtenderManagedResource {
    pub name: String,
    #[serde(skip_serializing_if = "is_false")]
    pub ignored_by_scheduler: bool,
}

/// Field `tlsConfig` of an extender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtenderTls {
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    #[serde(deserialize_with = "codec::base64", skip_serializing_if = "codec::no_bytes")]
    pub cert_data: ByteString,
    #[serde(deserialize_with = "codec::base64", skip_serializing_if = "codec::no_bytes")]
    pub key_data: ByteString,
    #[serde(deserialize_with = "codec::base64", skip_serializing_if = "codec::no_bytes")]
    pub ca_data: ByteString,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}
