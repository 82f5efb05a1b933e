//! A configuration with defaults and flags applied, validated.
//!
//! Upstream: `cmd/kube-scheduler/app/options/{options,configfile}.go`.

use crate::framework::{self, Order};
use crate::v1::duration::GoDuration;
use crate::v1::{API_VERSION, Args, Configuration, KIND, LeaderElection, Profile};
use crate::v1::{since, validate};
use crate::yaml::decode;
use crate::yaml::document::{Document, Value};
use crate::yaml::field::Problem;
use crate::{ConfigError, OWN_NAME};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use supercargo_core::model::emulation::{EmulatedVersion, GroupGates, VersionRules};
use supercargo_core::registry;

/// Default timeout of extender calls (upstream `DefaultExtenderTimeout`).
const EXTENDER_TIMEOUT: GoDuration = GoDuration::seconds(5);

/// Flags that override fields of the file, and one that disables a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flags {
    /// `--leader-elect`.
    pub leader_elect: Option<bool>,
    /// `--leader-elect-lease-duration`.
    pub lease_duration: Option<GoDuration>,
    /// `--leader-elect-renew-deadline`.
    pub renew_deadline: Option<GoDuration>,
    /// `--leader-elect-retry-period`.
    pub retry_period: Option<GoDuration>,
    /// `--leader-elect-resource-lock`.
    pub resource_lock: Option<String>,
    /// `--leader-elect-resource-name`.
    pub resource_name: Option<String>,
    /// `--leader-elect-resource-namespace`.
    pub resource_namespace: Option<String>,
    /// `--allow-second-default-scheduler`.
    pub allow_second_default_scheduler: bool,
    /// `--emulated-version`: the version whose defaults and rules apply.
    pub emulated_version: EmulatedVersion,
    /// The feature gates of pod groups in `--feature-gates`.
    pub groups: GroupGates,
    /// Whether the program is called `kube-scheduler`, which changes the defaults without a file.
    pub as_kube_scheduler: bool,
    /// Deprecated flags, which a file replaces.
    pub deprecated: DeprecatedFlags,
}

/// Deprecated flags that set fields of the configuration if there is no file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeprecatedFlags {
    /// `--kubeconfig`.
    pub kubeconfig: Option<String>,
    /// `--kube-api-content-type`.
    pub content_type: Option<String>,
    /// `--kube-api-qps`.
    pub qps: Option<f32>,
    /// `--kube-api-burst`.
    pub burst: Option<i32>,
    /// `--profiling`.
    pub profiling: Option<bool>,
    /// `--contention-profiling`.
    pub contention_profiling: Option<bool>,
}

impl DeprecatedFlags {
    /// Sets the fields.
    fn set_fields(&self, written: &mut Configuration) {
        let connection = &mut written.client_connection;
        connection.kubeconfig = self.kubeconfig.clone().unwrap_or_default();
        connection.content_type = self.content_type.clone().unwrap_or_default();
        connection.qps = self.qps.unwrap_or_default();
        connection.burst = self.burst.unwrap_or_default();
        written.enable_profiling = self.profiling;
        written.enable_contention_profiling = self.contention_profiling;
    }
}

impl Flags {
    /// Returns flags that disable leader election, for commands that only read a file.
    pub fn without_election() -> Self {
        Self { leader_elect: Some(false), ..Self::default() }
    }

    fn override_fields(&self, election: &mut LeaderElection) {
        fn given<T: Clone>(field: &mut T, flag: &Option<T>) {
            if let Some(flag) = flag {
                field.clone_from(flag);
            }
        }
        election.leader_elect = self.leader_elect.or(election.leader_elect);
        given(&mut election.lease_duration, &self.lease_duration);
        given(&mut election.renew_deadline, &self.renew_deadline);
        given(&mut election.retry_period, &self.retry_period);
        given(&mut election.resource_lock, &self.resource_lock);
        given(&mut election.resource_name, &self.resource_name);
        given(&mut election.resource_namespace, &self.resource_namespace);
    }
}

/// A complete, valid configuration.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The configuration with all defaults, equal to kube-scheduler's output of `--write-config-to`.
    pub configuration: Configuration,
    pub(crate) written: Configuration,
    pub(crate) orders: Vec<Order>,
    pub(crate) path: PathBuf,
    pub(crate) document: Option<Document>,
    pub(crate) allow_second_default_scheduler: bool,
    /// The version whose defaults and rules apply.
    pub emulated_version: EmulatedVersion,
    /// The feature gates of pod groups.
    pub groups: GroupGates,
}

impl Effective {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a KubeSchedulerConfiguration, or is invalid.
    pub fn load(path: &Path, flags: &Flags) -> Result<Self, ConfigError> {
        let text = crate::yaml::file::read(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text, flags)
    }

    /// Reads a text; `path` is used only in messages.
    ///
    /// # Errors
    /// Fails if the text is not a KubeSchedulerConfiguration, or is invalid.
    pub fn parse(path: &Path, text: &str, flags: &Flags) -> Result<Self, ConfigError> {
        let invalid = |problems| ConfigError::Invalid { path: path.to_owned(), problems };
        let document = Document::read(text).map_err(invalid)?;
        let written = configuration(&document).map_err(invalid)?;
        let unknown = since::unknown(&document, flags.emulated_version);
        if !unknown.is_empty() {
            return Err(invalid(unknown));
        }
        Self::complete(written, flags, path, Some(document)).map_err(invalid)
    }

    /// Returns the configuration without a file: a scheduler besides kube-scheduler, with its own name and Lease; or,
    /// called `kube-scheduler`, with kube-scheduler's.
    ///
    /// # Errors
    /// Fails if a flag is invalid.
    pub fn without_file(flags: &Flags) -> Result<Self, ConfigError> {
        let mut written = Configuration::default();
        if !flags.as_kube_scheduler {
            let only = Profile { scheduler_name: Some(OWN_NAME.to_owned()), ..Profile::default() };
            written.profiles.push(only);
            written.leader_election.resource_name = OWN_NAME.to_owned();
        }
        flags.deprecated.set_fields(&mut written);
        let invalid = |problems| ConfigError::Invalid { path: PathBuf::from("flags"), problems };
        Self::complete(written, flags, Path::new("flags"), None).map_err(invalid)
    }

    fn complete(
        mut written: Configuration,
        flags: &Flags,
        path: &Path,
        document: Option<Document>,
    ) -> Result<Self, Vec<Problem>> {
        flags.override_fields(&mut written.leader_election);
        let mut configuration = written.clone();
        let rules = flags.emulated_version.rules().with_groups(flags.groups);
        configuration.set_defaults(rules);
        let placed = |mut problem: Problem| {
            problem.place =
                problem.place.or_else(|| document.as_ref().and_then(|document| document.find(&problem.path)));
            problem
        };
        let problems = validate::problems(&configuration, rules);
        if !problems.is_empty() {
            return Err(problems.into_iter().map(placed).collect());
        }
        extend(&mut configuration);
        let none = Profile::default();
        let orders = configuration.profiles.iter().enumerate().map(|(at, profile)| {
            let as_written = written.profiles.get(at).unwrap_or(&none);
            framework::order(profile, as_written, rules, &format!("profiles[{at}]"))
        });
        let orders: Result<Vec<_>, _> = orders.collect();
        let orders = orders.map_err(|problem| vec![placed(problem)])?;
        configuration.profiles.iter_mut().for_each(|profile| keep_used_arguments(profile, rules));
        let allow_second_default_scheduler = flags.allow_second_default_scheduler;
        let path = path.to_owned();
        let emulated_version = flags.emulated_version;
        Ok(Self {
            configuration,
            written,
            orders,
            path,
            document,
            allow_second_default_scheduler,
            emulated_version,
            groups: flags.groups,
        })
    }

    /// Formats the configuration as YAML.
    pub fn to_yaml(&self) -> String {
        // Via a JSON value, whose keys are sorted.
        serde_saphyr::to_string(&self.to_json()).expect("JSON is YAML")
    }

    /// Returns whether the file sets percentageOfNodesToScore for all profiles. Upstream's default for it is
    /// not applied here.
    pub fn says_percentage_of_nodes_to_score(&self) -> bool {
        self.written.percentage_of_nodes_to_score.is_some()
    }

    /// Returns the configuration as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let typed = Typed { api_version: API_VERSION, kind: KIND, configuration: &self.configuration };
        let mut json = serde_json::to_value(typed).expect("a configuration is JSON");
        since::remove(&mut json, self.emulated_version);
        json
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    configuration: &'a Configuration,
}

/// Decodes the configuration of a document, without defaults.
fn configuration(document: &Document) -> Result<Configuration, Vec<Problem>> {
    let root = document.root();
    let problem = |field: &str, text: String| {
        vec![Problem { place: document.find(field), ..Problem::new(field, text) }]
    };
    let text = |field: &str| match document.get(root, field).map(|node| &node.value) {
        Some(Value::Text(text)) => text.as_str(),
        _ => "",
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if matches!(document.node(root).value, Value::Map(_) | Value::Null) {
        if kind.is_empty() {
            return Err(problem("kind", format!("Object 'Kind' is missing; expected kind: {KIND}")));
        }
        if api_version.is_empty() {
            let text = format!("Object 'apiVersion' is missing; expected apiVersion: {API_VERSION}");
            return Err(problem("apiVersion", text));
        }
        if api_version != API_VERSION || kind != KIND {
            let field = if api_version == API_VERSION { "kind" } else { "apiVersion" };
            let text = format!(
                "no kind {kind:?} is registered for version {api_version:?}; expected kind {KIND:?} of version \
                 {API_VERSION:?}"
            );
            return Err(problem(field, text));
        }
    }
    let mut configuration: Configuration = decode::decode(document, root, "")?;
    let mut problems = Vec::new();
    for (at, profile) in configuration.profiles.iter_mut().enumerate() {
        for (index, config) in profile.plugin_config.iter_mut().enumerate() {
            let path = format!("profiles[{at}].pluginConfig[{index}].args");
            match config.args.read(document, &config.name, &path) {
                Ok(args) => config.args = args,
                Err(mut wrong) => problems.append(&mut wrong),
            }
        }
    }
    if problems.is_empty() { Ok(configuration) } else { Err(problems) }
}

/// Completes extenders as upstream does when it creates them: default timeouts, and their ignored resources,
/// which replace those of NodeResourcesFit (`pkg/scheduler/scheduler.go#buildExtenders`).
fn extend(configuration: &mut Configuration) {
    for extender in configuration.extenders.iter_mut().filter(|extender| extender.http_timeout.0 == 0) {
        extender.http_timeout = EXTENDER_TIMEOUT;
    }
    let managed = configuration.extenders.iter().flat_map(|extender| &extender.managed_resources);
    let ignored: Vec<String> =
        managed.filter(|resource| resource.ignored_by_scheduler).map(|r| r.name.clone()).collect();
    if ignored.is_empty() {
        return;
    }
    for config in configuration.profiles.iter_mut().flat_map(|profile| &mut profile.plugin_config) {
        if let Args::NodeResourcesFit(args) = &mut config.args {
            args.ignored_resources.clone_from(&ignored);
        }
    }
}

/// Keeps only arguments of plugins that are enabled at some extension point, sorted by name, as upstream
/// does.
fn keep_used_arguments(profile: &mut Profile, rules: VersionRules) {
    let enabled: BTreeSet<String> = profile.plugins.as_ref().map(|p| p.names()).unwrap_or_default();
    profile.plugin_config.retain(|config| {
        enabled.contains(&config.name)
            && registry::find(&config.name, rules).is_some()
            && !config.args.is_absent()
    });
    profile.plugin_config.sort_by(|a, b| a.name.cmp(&b.name));
}
