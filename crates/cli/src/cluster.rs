//! The cluster that commands analyze, read from files or from an API server: the engine's cache, pending pods
//! and names of all pods.
//!
//! Makes no decisions. An invalid object in an API server's list is skipped with a notice; one in a file is
//! an error, since the user can correct it.

use crate::emulation::EmulationArgs;
use crate::live::{self, Listed, Listing, LiveArgs, LiveError};
use crate::screen::complain;
use crate::template;
use clap::Args;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use supercargo_config::yaml::nearest;
use supercargo_config::{DEFAULT_NAME, OWN_NAME};
use supercargo_core::model::group::GroupKey;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::scheduler::Trial;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::load::files::{Files, Item, Origin, Wrong};
use supercargo_whatif::load::input::InputLimit;
use supercargo_whatif::prepare::identity::{is_namespaced, set};
use supercargo_whatif::prepare::inventory::{self, Given, Inventory};
use supercargo_whatif::prepare::owners::{OwnedPod, Owner, Owners, workloads_among};
use supercargo_whatif::prepare::update::Concern;
use supercargo_whatif::simulate::{objects, profiles};

/// Maximum number of invalid objects named in a notice.
const NAMED: usize = 3;
/// Number of names suggested for a name that does not exist.
const NEAR_NAMES: usize = 3;
/// Exit code for invalid flags, files and names.
const BAD_INPUT: u8 = 2;
/// Exit code for any other failure.
const FAILED: u8 = 1;

/// Source of the cluster, and the configuration that applies to it.
#[derive(Clone, Debug, Args)]
pub struct SourceArgs {
    /// Files with the cluster, in the format of `simulate`; `-` reads standard input. Without it, the cluster
    /// of the kubeconfig is read.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["kubeconfig", "context"])]
    pub cluster: Vec<PathBuf>,

    /// Connection to a cluster.
    #[command(flatten)]
    pub live: LiveArgs,

    /// File with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1). Without it, the default
    /// plugins are used, for pods of `supercargo` and `default-scheduler`.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Version of kube-scheduler to behave as.
    #[command(flatten)]
    pub emulation: EmulationArgs,

    /// Read objects from files as written, without the defaults and admission of an API server.
    #[arg(long, requires = "cluster")]
    pub as_written: bool,

    /// Maximum size of an input file, for example 2Gi.
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = InputLimit::parse)]
    pub input_limit: InputLimit,

    /// Fail on empty files and on objects with unknown fields or versions, instead of warning about them.
    #[arg(long)]
    pub strict: bool,
}

/// Kind, namespace and name of an object.
pub type ObjectKey = (String, String, String);

/// Why a command has no result.
pub enum Refused {
    /// Invalid flags, files or names.
    Input(InputError),
    /// The cluster could not be read.
    Live(LiveError),
}

impl From<InputError> for Refused {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

impl Refused {
    /// Returns the message.
    pub fn into_text(self) -> String {
        match self {
            Self::Input(InputError(text)) => text,
            Self::Live(error) => error.into_text(),
        }
    }

    /// Prints the error to stderr and returns its exit code.
    pub fn report(self) -> ExitCode {
        let (text, code) = match self {
            Self::Input(InputError(text)) | Self::Live(LiveError::Settings(text)) => (text, BAD_INPUT),
            Self::Live(LiveError::Cluster(text)) => (text, FAILED),
        };
        complain(&format!("error: {text}"));
        ExitCode::from(code)
    }
}

/// An object to look for while the cluster is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// None.
    #[default]
    Nothing,
    /// The pod with this name, in the given namespace or the one of the kubeconfig's context.
    Pod(Option<String>, String),
}

/// A cluster to analyze.
pub struct Cluster {
    /// Its objects, and the profiles of the configuration.
    pub trial: Trial,
    /// Unfinished pods without a node, in the order they were read.
    pub pending: Vec<Arc<PodInfo>>,
    /// Messages about the input for the user.
    pub notices: Vec<String>,
    /// Paths of the API server that the user may not read; their objects are unknown.
    pub unread: Vec<&'static str>,
    /// The workloads, and the owners of pods; present only for commands that need them.
    pub owners: Option<Owners>,
    /// Whether the census includes workloads.
    has_workloads: bool,
    wanted: Wanted,
    /// Namespace of names given without one.
    namespace: String,
    /// The requested pod once it was read, and whether it has ended.
    requested_pod: Option<(Arc<PodInfo>, bool)>,
    /// The controller of the requested pod.
    requested_owner: Option<Owner>,
    /// Namespace and name of each pod.
    names: Vec<(String, String)>,
    /// Pods of the template file; they are not part of the cluster.
    pub templates: Vec<Arc<PodInfo>>,
    /// Names of all nodes.
    nodes: BTreeSet<String>,
    /// Objects of versions of `resource.k8s.io` that are not read, with their versions.
    pub outdated: Vec<(ObjectKey, String)>,
    /// Namespace and name of pods that the applied manifests delete. The deletions come before all other
    /// changes.
    pub leaving: BTreeSet<(String, String)>,
    /// Namespace, kind and name of the workloads in the given files.
    pub given_workloads: BTreeSet<(String, String, String)>,
}

impl Cluster {
    /// Whether pod groups are scheduled.
    fn has_groups(&self) -> bool {
        self.trial.tables().rules().groups.workloads
    }

    /// Returns a cluster without objects.
    fn empty(source: &SourceArgs, is_live: bool) -> Result<Self, Refused> {
        let version = match source.emulation.emulated_version {
            None if is_live => live::emulated_version(&source.live).map_err(Refused::Live)?,
            _ => source.emulation.of_files(),
        };
        let groups = source.emulation.groups(version)?;
        Ok(Self {
            trial: profiles::trial(source.config.as_deref(), version, source.emulation.compat, groups)?,
            pending: Vec::new(),
            notices: Vec::new(),
            unread: Vec::new(),
            owners: None,
            has_workloads: false,
            wanted: Wanted::Nothing,
            namespace: "default".to_owned(),
            requested_pod: None,
            requested_owner: None,
            names: Vec::new(),
            templates: Vec::new(),
            nodes: BTreeSet::new(),
            outdated: Vec::new(),
            leaving: BTreeSet::new(),
            given_workloads: BTreeSet::new(),
        })
    }

    /// Reads a cluster from files or from its API server.
    ///
    /// # Errors
    /// Fails if the cluster cannot be read, or a file is invalid.
    pub fn load(source: &SourceArgs, wanted: Wanted, template: Option<&Path>) -> Result<Self, Refused> {
        let templates: Vec<&Path> = template.into_iter().collect();
        Self { wanted, ..Self::empty(source, source.cluster.is_empty())? }.fill(source, &templates)
    }

    /// Reads a cluster with its workloads and the owners of its pods into `owners`, and the pods of the given files.
    ///
    /// # Errors
    /// Fails if the cluster cannot be read, or a file is invalid.
    pub fn load_with_census(source: &SourceArgs, pods: &[PathBuf], owners: Owners) -> Result<Self, Refused> {
        let templates: Vec<&Path> = pods.iter().map(PathBuf::as_path).collect();
        let empty = Self::empty(source, source.cluster.is_empty())?;
        Self { owners: Some(owners), has_workloads: true, ..empty }.fill(source, &templates)
    }

    /// Reads a cluster with the owners of its pods, and the pods of the template file, if any.
    ///
    /// # Errors
    /// Fails if the cluster cannot be read, or a file is invalid.
    pub fn load_with_pods(source: &SourceArgs, template: Option<&Path>) -> Result<Self, Refused> {
        let templates: Vec<&Path> = template.into_iter().collect();
        let empty = Self::empty(source, source.cluster.is_empty())?;
        Self { owners: Some(Owners::default()), ..empty }.fill(source, &templates)
    }

    /// Reads the objects to lint, and the cluster they belong to: from files, from the kubeconfig, or none. A
    /// linted object replaces the cluster's object of the same kind, namespace and name. Also returns the
    /// keys of the linted objects and of their owners.
    ///
    /// # Errors
    /// Fails if the cluster cannot be read, or a file is invalid.
    pub fn load_with_judged(
        source: &SourceArgs,
        judged: &[PathBuf],
        is_live: bool,
    ) -> Result<(Self, BTreeSet<ObjectKey>), Refused> {
        let owners = Some(Owners::default());
        let is_live = is_live || source.live.kubeconfig.is_some() || source.live.context.is_some();
        let mut cluster = Self { owners, has_workloads: true, ..Self::empty(source, is_live)? };
        let stdin = &mut io::stdin().lock();
        let mut files = Files::within(source.input_limit, complain).strictly(source.strict);
        let mut items = read_all(&mut files, judged, stdin)?;
        let mut others = read_all(&mut files, &source.cluster, stdin)?;
        if is_live {
            let listed = live::list(
                &source.live,
                Listing { admission: true, workloads: true, groups: cluster.has_groups() },
            );
            let listed = listed.map_err(Refused::Live)?;
            cluster.namespace.clone_from(&listed.namespace);
            others = cluster.take_listed(listed);
            others.extend(cluster.owners.as_mut().map(Owners::listed).unwrap_or_default());
        }
        let key = |kind: &str, namespace: &str, name: &str| {
            let namespace = match (is_namespaced(kind), namespace) {
                (false, _) => "",
                (true, "") => "default",
                (true, namespace) => namespace,
            };
            (kind.to_owned(), namespace.to_owned(), name.to_owned())
        };
        for item in items.iter_mut().filter(|item| is_namespaced(item.kind()) && item.namespace().is_empty())
        {
            set(&mut item.value, &["metadata", "namespace"], cluster.namespace.as_str().into());
        }
        let mut keys: BTreeSet<ObjectKey> = BTreeSet::new();
        for item in &items {
            keys.insert(key(item.kind(), item.namespace(), item.name()));
        }
        for item in items.iter().chain(&others) {
            let version = item.text("/apiVersion");
            if version.starts_with("resource.k8s.io/") && version != "resource.k8s.io/v1" {
                let key = key(item.kind(), item.namespace(), item.name());
                cluster.outdated.push((key, version.to_owned()));
            }
        }
        others.retain(|item| !keys.contains(&key(item.kind(), item.namespace(), item.name())));
        let owners = items.iter().filter_map(|item| {
            let item = item.clone().unpacked();
            let owner = Owner::of(&item.value)?;
            Some(key(&owner.kind, item.namespace(), &owner.name))
        });
        keys.extend(owners.collect::<Vec<_>>());
        others.extend(items);
        cluster.take(&files, others, Given::default(), source.as_written)?;
        Ok((cluster, keys))
    }

    fn fill(mut self, source: &SourceArgs, templates: &[&Path]) -> Result<Self, Refused> {
        let cluster = &mut self;
        // Commands with owners apply the files as manifests; the others copy their pod.
        let are_templates = cluster.owners.is_none();
        let stdin = &mut io::stdin().lock();
        let mut files = Files::within(source.input_limit, complain).strictly(source.strict);
        if source.cluster.is_empty() {
            let wanted = Listing {
                admission: !templates.is_empty(),
                workloads: cluster.has_workloads,
                groups: cluster.has_groups(),
            };
            let listed = live::list(&source.live, wanted).map_err(Refused::Live)?;
            cluster.namespace.clone_from(&listed.namespace);
            let items = read_all(&mut files, templates, stdin)?;
            let to = (&files, &mut cluster.notices);
            let given = template::given(to, items, are_templates, |items| listed.concerned(items))?;
            let mut more = cluster.take_listed(listed);
            if let Some(owners) = &mut cluster.owners {
                more.extend(owners.listed());
            }
            if !templates.is_empty() || cluster.has_workloads {
                cluster.take(&files, more, given, source.as_written)?;
            }
        } else {
            let of_cluster = read_all(&mut files, &source.cluster, stdin)?;
            let items = read_all(&mut files, templates, stdin)?;
            let to = (&files, &mut cluster.notices);
            let existing = |items: &[Item]| Concern::among(items, of_cluster.iter());
            let given = template::given(to, items, are_templates, existing)?;
            cluster.take(&files, of_cluster, given, source.as_written)?;
        }
        Ok(self)
    }

    /// Adds the objects of an API server and skips invalid ones with a notice. Returns the objects for admission and
    /// the workloads.
    fn take_listed(&mut self, listed: Listed) -> Vec<Item> {
        let mut invalid = Vec::new();
        for value in listed.objects {
            if let Err(wrong) = self.add(Item::new(value, Origin::default())) {
                invalid.push(wrong.message);
            }
        }
        self.notices.extend(listed.notices);
        self.unread.extend(listed.unread);
        if !invalid.is_empty() {
            let named = invalid.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
            self.notices.push(format!("ignoring {}: {named}", count(invalid.len(), "invalid object")));
        }
        listed.admission.into_iter().map(|value| Item::new(value, Origin::default())).collect()
    }

    /// Adds the objects of files.
    fn take(
        &mut self,
        files: &Files,
        mut items: Vec<Item>,
        mut given: Given,
        as_written: bool,
    ) -> Result<(), InputError> {
        let owners = self.owners.as_mut().filter(|_| self.has_workloads);
        let of_workloads = owners.map(|owners| owners.templates(&mut items));
        let of_workloads =
            of_workloads.transpose().map_err(|(item, wrong)| files.error(item.origin, &wrong))?;
        let of_workloads = of_workloads.unwrap_or_default();
        let templates = of_workloads.len();
        self.given_workloads = workloads_among(&given.items);
        given.items.extend(of_workloads);
        let gathered = inventory::gather(files, items, given, as_written)?;
        let Inventory { cluster, mut pods, leaving, changes, skipped, whole, .. } = gathered;
        self.leaving = leaving;
        self.notices.extend(changes);
        // Pods of workload templates come last in `pods`; split them off.
        let of_workloads = pods.split_off(pods.len() - templates);
        self.notices.extend(skipped.message());
        for item in cluster {
            let origin = item.origin;
            let taken = whole.of(item).and_then(|item| self.add(item));
            taken.map_err(|wrong| files.error(origin, &wrong))?;
        }
        for item in pods {
            let (origin, note) = (item.origin, OwnedPod::of(&item));
            let decoded = objects::to_schedule(&mut self.trial, item);
            let (pod, has_ended) = decoded.map_err(|wrong| files.error(origin, &wrong))?;
            if let Some(owners) = &mut self.owners {
                if has_ended {
                    continue;
                }
                owners.to_come.push(note(Arc::clone(&pod)));
            }
            self.templates.push(pod);
        }
        for item in of_workloads {
            let origin = item.origin;
            // A template's pod is hypothetical, so it is nominated to no node.
            let pod = match objects::template(&mut self.trial, item) {
                Ok(pod) => Some(pod),
                Err(wrong) if !files.has(origin) => {
                    self.notices.push(format!("ignoring a pod template: {}", wrong.message));
                    None
                }
                Err(wrong) => return Err(files.error(origin, &wrong)),
            };
            if let Some(owners) = &mut self.owners {
                owners.admitted(pod);
            }
        }
        Ok(())
    }

    /// Adds an object.
    pub fn add(&mut self, item: Item) -> Result<(), Wrong> {
        match item.kind() {
            "Pod" => self.add_pod(item),
            "Node" => {
                self.nodes.insert(item.name().to_owned());
                objects::apply(&mut self.trial, item)
            }
            _ => {
                if let Some(owners) = &mut self.owners {
                    owners.keep(&item);
                }
                objects::apply(&mut self.trial, item)
            }
        }
    }

    /// Adds a pod and its owner.
    fn note_pod(&mut self, item: Item) -> Result<(), Wrong> {
        let note = OwnedPod::of(&item);
        let (pod, has_ended) = objects::pod(&mut self.trial, item)?;
        if has_ended {
            return Ok(());
        }
        match pod.node_name {
            Some(_) => {}
            None => self.pending.push(Arc::clone(&pod)),
        }
        if let Some(owners) = &mut self.owners {
            owners.pods.push(note(pod));
        }
        Ok(())
    }

    fn add_pod(&mut self, item: Item) -> Result<(), Wrong> {
        if self.owners.is_some() {
            return self.note_pod(item);
        }
        let node = item.text("/spec/nodeName").to_owned();
        let is_wanted = match &self.wanted {
            Wanted::Nothing => false,
            Wanted::Pod(namespace, name) => {
                let namespace = namespace.as_ref().unwrap_or(&self.namespace);
                item.name() == name && item.namespace() == namespace
            }
        };
        self.names.push((item.namespace().to_owned(), item.name().to_owned()));
        let owner = if is_wanted { Owner::of(&item.value) } else { None };
        if !node.is_empty() && !is_wanted {
            return objects::apply(&mut self.trial, item);
        }
        let (pod, has_ended) = objects::pod(&mut self.trial, item)?;
        if pod.node_name.is_none() && !has_ended {
            self.pending.push(Arc::clone(&pod));
        }
        if is_wanted {
            self.requested_pod = Some((pod, has_ended));
            self.requested_owner = owner;
        }
        Ok(())
    }

    /// Returns the requested pod, and whether it has ended.
    ///
    /// # Errors
    /// Fails with similar names if no pod has that name.
    pub fn requested_pod(&self) -> Result<(Arc<PodInfo>, bool), InputError> {
        self.requested_pod.clone().ok_or_else(|| {
            let (namespace, name) = self.wanted_pod();
            InputError(format!("pod {name} not found in namespace {namespace}{}", self.meant()))
        })
    }

    /// Returns the controller of the requested pod, if it has one.
    pub fn requested_owner(&self) -> Option<Owner> {
        self.requested_owner.clone()
    }

    /// Returns the key of a group that exists, or that a pod names.
    ///
    /// # Errors
    /// Fails with the closest name if there is none.
    pub fn group(&self, namespace: &str, name: &str) -> Result<GroupKey, InputError> {
        let tables = self.trial.tables();
        let mut known: BTreeSet<GroupKey> = self.trial.snapshot().lookups().group_keys().collect();
        known.extend(self.pending.iter().filter_map(|pod| pod.group_key()));
        known.extend(self.trial.placed_pods().filter_map(|(pod, _)| pod.group_key()));
        let here: Vec<GroupKey> =
            known.into_iter().filter(|key| tables.text(key.namespace) == namespace).collect();
        here.iter().find(|key| tables.text(key.name) == name).copied().ok_or_else(|| {
            let meant = nearest(name, here.iter().map(|key| tables.text(key.name)));
            let meant = meant.map_or_else(
                || format!("; the namespace has {}: check the name and -n", count(here.len(), "pod group")),
                |meant| format!("; did you mean {meant}?"),
            );
            InputError(format!("pod group {name} not found in namespace {namespace}{meant}"))
        })
    }

    /// Checks that the node exists.
    ///
    /// # Errors
    /// Fails with the closest name if it does not.
    pub fn has_node(&self, name: &str) -> Result<(), InputError> {
        if self.knows_node(name) {
            return Ok(());
        }
        let meant = nearest(name, self.nodes.iter().map(String::as_str));
        let meant = meant.map_or_else(
            || {
                format!(
                    "; the cluster has {}: check the name and the cluster",
                    count(self.nodes.len(), "node")
                )
            },
            |meant| format!("; did you mean {meant}?"),
        );
        Err(InputError(format!("node {name} not found{meant}")))
    }

    /// Returns the names of all pods in a namespace. Empty if the cluster was read with a census.
    pub fn names_in(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let all = self.names.iter().filter(move |(of, _)| of == namespace);
        all.map(|(_, name)| name.as_str())
    }

    /// Returns the namespace of names given without one.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns whether a node of this name exists.
    pub fn knows_node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// Adds the name of a node that a hypothetical change creates.
    pub fn add_node_name(&mut self, name: String) {
        self.nodes.insert(name);
    }

    /// Removes the name of a deleted node.
    pub fn forget_node_name(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    fn wanted_pod(&self) -> (&str, &str) {
        match &self.wanted {
            Wanted::Pod(namespace, name) => (namespace.as_ref().unwrap_or(&self.namespace), name),
            Wanted::Nothing => ("", ""),
        }
    }

    fn meant(&self) -> String {
        let (namespace, name) = self.wanted_pod();
        let elsewhere: Vec<String> = self
            .names
            .iter()
            .filter(|(_, other)| other == name)
            .take(NEAR_NAMES)
            .map(|(namespace, _)| format!("-n {namespace}"))
            .collect();
        if !elsewhere.is_empty() {
            return format!("; it exists with {}", elsewhere.join(" and with "));
        }
        let here = self.names.iter().filter(|(other, _)| other == namespace).map(|(_, name)| name.as_str());
        let mut near: Vec<&str> =
            here.clone().filter(|other| !name.is_empty() && other.starts_with(name)).collect();
        near.sort_unstable();
        near.truncate(NEAR_NAMES);
        if near.is_empty() {
            near.extend(nearest(name, here.clone()));
        }
        match (near.is_empty(), here.count()) {
            (false, _) => format!("; did you mean {}?", near.join(" or ")),
            (true, 0) => "; the namespace has no pods: give another one with -n".to_owned(),
            (true, pods) => {
                format!("; the namespace has {}: check the name and -n", count(pods, "other pod"))
            }
        }
    }
}

fn read_all(
    files: &mut Files,
    paths: &[impl AsRef<Path>],
    stdin: &mut dyn Read,
) -> Result<Vec<Item>, InputError> {
    let read: Result<Vec<_>, _> = paths.iter().map(|path| files.read(path.as_ref(), stdin)).collect();
    Ok(read?.into_iter().flatten().collect())
}

/// Returns the name of a profile that was probably meant by a scheduler name that none serves.
pub fn meant_scheduler(source: &SourceArgs, trial: &Trial, scheduler: &str) -> Option<String> {
    let defaults = [OWN_NAME, DEFAULT_NAME].into_iter().filter(|_| source.config.is_none());
    let known = defaults.chain(trial.profile_names()).filter(|name| !name.is_empty());
    let meant = if is_ours(source, trial, scheduler) { None } else { nearest(scheduler, known) };
    meant.map(str::to_owned)
}

/// Returns whether one of the profiles serves this scheduler name. Without a configuration file the default
/// plugins serve `supercargo`, `default-scheduler` and the empty name.
pub fn is_ours(source: &SourceArgs, trial: &Trial, scheduler: &str) -> bool {
    let is_default = source.config.is_none() && [OWN_NAME, DEFAULT_NAME, ""].contains(&scheduler);
    is_default || trial.profile_names().any(|own| own == scheduler)
}
