//! A cluster to ask questions about, from files or as it is: the engine's cache, the pods that wait, and the names of all pods.
//!
//! Makes no decision. Where objects come from a list of an API server, one that cannot be read is left out and told of; in a
//! file somebody wrote it ends the command.

use super::census::{Census, Noted, Owner};
use super::live::{self, Listing, LiveArgs, LiveError};
use super::screen::{plain, plain_json};
use super::simulate::files::{Files, Item, Wrong};
use super::simulate::identity::{is_namespaced, set};
use super::simulate::inventory::{self, Given, Inventory};
use super::simulate::update::Concern;
use super::simulate::world::World;
use super::simulate::{InputError, InputLimit, Output};
use crate::config::{DEFAULT_NAME, OWN_NAME, nearest};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use supercargo_core::cache::PodState;
use supercargo_core::cycle::Framework;
use supercargo_core::pod::PodInfo;

/// Names that are offered where one does not exist.
const NEAR_NAMES: usize = 3;
/// Exit code for flags, files and names that cannot be taken.
const BAD_INPUT: u8 = 2;
/// Exit code for anything else.
const FAILED: u8 = 1;

/// Where the cluster is, and by which rules it is asked.
#[derive(Clone, Debug, Args)]
pub struct SourceArgs {
    /// Files with the cluster, as `simulate` takes them; `-` is standard input. Without it, the cluster of the kubeconfig is
    /// asked.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["kubeconfig", "context"])]
    pub cluster: Vec<PathBuf>,

    /// How a cluster is reached.
    #[command(flatten)]
    pub live: LiveArgs,

    /// File with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1). Without it: the default plugins, for pods of
    /// `supercargo` and of `default-scheduler`.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Take objects of files as they are written, without what an API server would fill in.
    #[arg(long, requires = "cluster")]
    pub as_written: bool,

    /// How large a file may be, for example 2Gi.
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = InputLimit::parse)]
    pub input_limit: InputLimit,

    /// Refuse files that are empty, and objects with unknown fields. Without it both are warned about.
    #[arg(long)]
    pub strict: bool,
}

/// Kind, namespace and name of an object.
pub(super) type ObjectKey = (String, String, String);

/// Why there is no answer.
pub(super) enum Refused {
    /// Flags, files or names.
    Input(InputError),
    /// The cluster.
    Live(LiveError),
}

impl From<InputError> for Refused {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

impl Refused {
    /// Tells why, and the exit code of it.
    pub(super) fn tell(self) -> ExitCode {
        let (text, code) = match self {
            Self::Input(InputError(text)) | Self::Live(LiveError::Settings(text)) => (text, BAD_INPUT),
            Self::Live(LiveError::Cluster(text)) => (text, FAILED),
        };
        complain(&format!("error: {text}"));
        ExitCode::from(code)
    }
}

/// A line for whoever runs the command.
pub(super) fn complain(text: &str) {
    // There is nobody left to tell.
    let _ = writeln!(io::stderr(), "{}", plain(text));
}

/// Writes an answer; with `code` where that goes well.
pub(super) fn say(text: &str, code: u8) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::from(code),
        Err(error) => {
            // Whoever read it may have seen enough.
            if error.kind() != io::ErrorKind::BrokenPipe {
                complain(&format!("error: the answer cannot be written: {error}"));
            }
            ExitCode::from(FAILED)
        }
    }
}

/// An answer in the form that is wanted; `text` makes it for people, wide or not.
pub(super) fn in_form(form: Output, answer: &impl Serialize, text: impl FnOnce(bool) -> String) -> String {
    let value = || serde_json::to_value(answer).expect("an answer has texts, numbers and lists only");
    match form {
        Output::Table => text(false),
        Output::Wide => text(true),
        Output::Json => {
            let text = serde_json::to_string_pretty(answer);
            plain_json(text.expect("an answer has texts, numbers and lists only") + "\n")
        }
        Output::Yaml => serde_saphyr::to_string(&value()).expect("a value can be written as YAML"),
    }
}

/// What is looked out for while a cluster is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Nothing.
    #[default]
    Nothing,
    /// The pod of this namespace, or the context's, and name.
    Pod(Option<String>, String),
}

/// A cluster.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) world: World,
    /// Pods without a node that have not ended, in the order they came.
    pub(super) pending: Vec<Arc<PodInfo>>,
    /// What people should know of what was read.
    pub(super) notices: Vec<String>,
    /// The workloads and who made the pods, where that was asked for.
    pub(super) census: Option<Census>,
    /// Whether the census is to have the workloads.
    has_workloads: bool,
    wanted: Wanted,
    /// Where a name without a namespace belongs.
    namespace: String,
    /// The pod that is asked about, once it has come by, and whether it has ended.
    asked: Option<(Arc<PodInfo>, bool)>,
    /// `namespace/name` of all pods.
    names: Vec<(String, String)>,
    /// Pods that are not of the cluster: those of the template.
    pub(super) templates: Vec<Arc<PodInfo>>,
    /// Names of all nodes.
    nodes: BTreeSet<String>,
    /// Pods that manifests remove, by namespace and name: where they are placed, as the first of the changes.
    pub(super) leaving: BTreeSet<(String, String)>,
}

impl Cluster {
    /// Reads a cluster, from files or from its API server.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(super) fn load(
        source: &SourceArgs,
        wanted: Wanted,
        template: Option<&Path>,
    ) -> Result<Self, Refused> {
        let templates: Vec<&Path> = template.into_iter().collect();
        Self { wanted, ..Self::default() }.fill(source, &templates)
    }

    /// Reads a cluster with all its workloads and who made its pods, and pods to come.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(super) fn load_with_census(source: &SourceArgs, pods: &[PathBuf]) -> Result<Self, Refused> {
        let templates: Vec<&Path> = pods.iter().map(PathBuf::as_path).collect();
        let census = Some(Census::default());
        Self { census, has_workloads: true, ..Self::default() }.fill(source, &templates)
    }

    /// Reads a cluster with who made its pods.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(super) fn load_with_pods(source: &SourceArgs) -> Result<Self, Refused> {
        Self { census: Some(Census::default()), ..Self::default() }.fill(source, &[])
    }

    /// Reads what is to be judged, and the cluster it is judged in: files, that of the kubeconfig, or none. An object of the cluster that is to be
    /// judged in another form makes way for it. With kind, namespace and name of what is judged, and of what owns it.
    ///
    /// # Errors
    /// When there is none to be had.
    pub(super) fn load_with_judged(
        source: &SourceArgs,
        judged: &[PathBuf],
        is_live: bool,
    ) -> Result<(Self, BTreeSet<ObjectKey>), Refused> {
        let census = Some(Census::default());
        let mut cluster = Self { census, has_workloads: true, ..Self::default() };
        "default".clone_into(&mut cluster.namespace);
        let stdin = &mut io::stdin().lock();
        let mut files = Files::within(source.input_limit).strictly(source.strict);
        let mut items = read_all(&mut files, judged, stdin)?;
        let mut others = read_all(&mut files, &source.cluster, stdin)?;
        if is_live || source.live.kubeconfig.is_some() || source.live.context.is_some() {
            let listed = live::list(&source.live, Listing { admission: true, workloads: true });
            let listed = listed.map_err(Refused::Live)?;
            cluster.namespace.clone_from(&listed.namespace);
            others = listed.into_cluster(&mut cluster);
            others.extend(cluster.census.as_mut().map(Census::listed).unwrap_or_default());
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
        "default".clone_into(&mut cluster.namespace);
        let stdin = &mut io::stdin().lock();
        let mut files = Files::within(source.input_limit).strictly(source.strict);
        if source.cluster.is_empty() {
            let wanted = Listing { admission: !templates.is_empty(), workloads: cluster.has_workloads };
            let listed = live::list(&source.live, wanted).map_err(Refused::Live)?;
            cluster.namespace.clone_from(&listed.namespace);
            let items = read_all(&mut files, templates, stdin)?;
            let existing = listed.concerned(&items);
            let mut more = listed.into_cluster(cluster);
            if let Some(census) = &mut cluster.census {
                more.extend(census.listed());
            }
            if !templates.is_empty() || cluster.has_workloads {
                let given = Given { items, are_templates: cluster.census.is_none(), existing };
                cluster.take(&files, more, given, source.as_written)?;
            }
        } else {
            let of_cluster = read_all(&mut files, &source.cluster, stdin)?;
            let items = read_all(&mut files, templates, stdin)?;
            let existing = Concern::among(&items, of_cluster.iter());
            let given = Given { items, are_templates: cluster.census.is_none(), existing };
            cluster.take(&files, of_cluster, given, source.as_written)?;
        }
        Ok(self)
    }

    /// Takes in what files hold.
    fn take(
        &mut self,
        files: &Files,
        mut items: Vec<Item>,
        mut given: Given,
        as_written: bool,
    ) -> Result<(), InputError> {
        let census = self.census.as_mut().filter(|_| self.has_workloads);
        let of_workloads = census.map(|census| census.templates(&mut items));
        let of_workloads =
            of_workloads.transpose().map_err(|(item, wrong)| files.error(item.origin, &wrong))?;
        let of_workloads = of_workloads.unwrap_or_default();
        let templates = of_workloads.len();
        given.items.extend(of_workloads);
        let gathered = inventory::gather(files, items, given, as_written)?;
        let Inventory { cluster, mut pods, leaving, changes, skipped, whole } = gathered;
        self.leaving = leaving;
        self.notices.extend(changes);
        // The pods of workloads came last, and stay so.
        let of_workloads = pods.split_off(pods.len() - templates);
        self.notices.extend(skipped.told());
        for item in cluster {
            let origin = item.origin;
            let taken = whole.of(item).and_then(|item| self.add(item));
            taken.map_err(|wrong| files.error(origin, &wrong))?;
        }
        for item in pods {
            let (origin, note) = (item.origin, Noted::of(&item));
            let (pod, has_ended) = self.world.pod(item).map_err(|wrong| files.error(origin, &wrong))?;
            if let Some(census) = &mut self.census {
                if has_ended {
                    self.world.cache.forget_nomination(&pod.uid);
                    continue;
                }
                census.to_come.push(note(Arc::clone(&pod)));
            }
            self.templates.push(pod);
        }
        for item in of_workloads {
            let origin = item.origin;
            let pod = match self.world.pod(item) {
                Ok((pod, _)) => Some(pod),
                Err(wrong) if !files.has(origin) => {
                    self.notices.push(format!("a template is left out: {}", wrong.message));
                    None
                }
                Err(wrong) => return Err(files.error(origin, &wrong)),
            };
            if let Some(pod) = &pod {
                // It is thought of, and nominated nowhere.
                self.world.cache.forget_nomination(&pod.uid);
            }
            if let Some(census) = &mut self.census {
                census.admitted(pod);
            }
        }
        Ok(())
    }

    /// Takes an object in.
    pub(super) fn add(&mut self, item: Item) -> Result<(), Wrong> {
        match item.kind() {
            "Pod" => self.add_pod(item),
            "Node" => {
                self.nodes.insert(item.name().to_owned());
                self.world.apply(item)
            }
            _ => {
                if let Some(census) = &mut self.census {
                    census.keep(&item);
                }
                self.world.apply(item)
            }
        }
    }

    /// Takes a pod in with who made it.
    fn note_pod(&mut self, item: Item) -> Result<(), Wrong> {
        let note = Noted::of(&item);
        let (pod, has_ended) = self.world.pod(item)?;
        if has_ended {
            return Ok(());
        }
        match pod.node_name {
            Some(node) => self.world.cache.place(&pod, node, PodState::Added),
            None => self.pending.push(Arc::clone(&pod)),
        }
        if let Some(census) = &mut self.census {
            census.pods.push(note(pod));
        }
        Ok(())
    }

    fn add_pod(&mut self, item: Item) -> Result<(), Wrong> {
        if self.census.is_some() {
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
        if !node.is_empty() && !is_wanted {
            return self.world.apply(item);
        }
        let again = (!node.is_empty()).then(|| item.clone());
        let (pod, has_ended) = self.world.pod(item)?;
        if let Some(again) = again {
            self.world.apply(again)?;
        } else if !has_ended {
            self.pending.push(Arc::clone(&pod));
        }
        if is_wanted {
            self.asked = Some((pod, has_ended));
        }
        Ok(())
    }

    /// The pod that is asked about, and whether it has ended.
    ///
    /// # Errors
    /// When there is none of that name, with those that may have been meant.
    pub(super) fn asked(&self) -> Result<(Arc<PodInfo>, bool), InputError> {
        self.asked.clone().ok_or_else(|| {
            let (namespace, name) = self.wanted_pod();
            InputError(format!("there is no pod {name} in the namespace {namespace}{}", self.meant()))
        })
    }

    /// That the node exists.
    ///
    /// # Errors
    /// When it does not, with the name that may have been meant.
    pub(super) fn has_node(&self, name: &str) -> Result<(), InputError> {
        if self.knows_node(name) {
            return Ok(());
        }
        let meant = nearest(name, self.nodes.iter().map(String::as_str));
        let meant = meant.map_or_else(
            || format!("; there are {}", self.nodes.len()),
            |meant| format!("; did you mean {meant}?"),
        );
        Err(InputError(format!("there is no node {name}{meant}")))
    }

    /// The names of all pods of a namespace, unless the cluster was read with who made its pods.
    pub(super) fn names_in(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let all = self.names.iter().filter(move |(of, _)| of == namespace);
        all.map(|(_, name)| name.as_str())
    }

    /// Where a name without a namespace belongs.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether there is a node of this name.
    pub(super) fn knows_node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// A node has come that nobody listed.
    pub(super) fn add_node_name(&mut self, name: String) {
        self.nodes.insert(name);
    }

    /// A node is gone.
    pub(super) fn forget_node_name(&mut self, name: &str) {
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
            return format!("; there is one with {}", elsewhere.join(" and with "));
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
            (true, 0) => "; there are no pods in it at all".to_owned(),
            (true, pods) => format!("; it has {pods} of other names"),
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

/// Whether a scheduler of this name is among those that are asked. Without a configuration the default plugins are, which are
/// default-scheduler's as well.
pub(super) fn is_ours(source: &SourceArgs, profiles: &[(String, Framework)], scheduler: &str) -> bool {
    let is_default = source.config.is_none() && [OWN_NAME, DEFAULT_NAME, ""].contains(&scheduler);
    is_default || profiles.iter().any(|(own, _)| own == scheduler)
}
