//! One cluster, the question that was asked last, and its answer.

use crate::groups::gates_of;
use crate::protocol::{Change, Failure, Loaded, Outcome, Question, Request};
use crate::simulation::simulate;
use serde::Serialize;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use supercargo_core::model::emulation::{Compat, EmulatedVersion};
use supercargo_whatif::cluster::{Cluster, ClusterError, NodeTemplate, Placement};
use supercargo_whatif::load::files::{Files, InputError, Item};
use supercargo_whatif::load::input::InputLimit;
use supercargo_whatif::load::owner::Owner;
use supercargo_whatif::prepare::expand::is_workload;
use supercargo_whatif::simulate::profiles;

/// The largest input after decompression: twice what a list of 100,000 pods takes. It is read in pieces.
const INPUT_MAX: &str = "4Gi";
/// The most nodes of one change. More than twice the largest clusters that Kubernetes supports.
const NODES_MAX: usize = 10_000;
/// The name of the configuration in messages.
const CONFIG: &str = "configuration";

/// Opens the input with this index.
pub type Inputs<'a> = dyn FnMut(usize) -> Box<dyn Read> + 'a;

/// A cluster, what was asked about it, and the answer.
#[derive(Default)]
pub struct Session {
    pub(crate) asked: Option<Asked>,
}

/// A loaded cluster with the answer to a question.
pub(crate) struct Asked {
    /// The cluster, in a transaction with the changes and decisions of the question, once one is answered.
    pub(crate) cluster: Cluster,
    question: Question,
    /// The decisions, by pod.
    pub(crate) placements: BTreeMap<String, Placement>,
    /// The decisions without changes and with the default plugins: the node of each pod that was pending.
    pub(crate) before: Option<BTreeMap<String, Option<String>>>,
    /// The groups that wait without changes and with the default plugins.
    pub(crate) waiting_before: BTreeSet<String>,
}

thread_local! {
    /// Warnings about the objects that are being read.
    static WARNINGS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a warning for the next answer.
pub(crate) fn warn(text: &str) {
    WARNINGS.with_borrow_mut(|all| all.push(text.to_owned()));
}

/// Returns the version of a name such as `1.36`; the newest without one.
pub(crate) fn known_version(name: Option<&str>) -> Result<EmulatedVersion, InputError> {
    let Some(name) = name else { return Ok(EmulatedVersion::NEWEST) };
    let known = EmulatedVersion::ALL.into_iter().find(|known| known.as_str() == name);
    known.ok_or_else(|| {
        let all: Vec<&str> = EmulatedVersion::ALL.iter().map(|known| known.as_str()).collect();
        InputError(format!("version {name:?} is unknown; use one of {}", all.join(", ")))
    })
}

impl Session {
    /// Answers a request in JSON. The answer to a request that fails has only the field `error`.
    pub fn answer(&mut self, request: &[u8], inputs: &mut Inputs<'_>) -> Value {
        let answered = serde_json::from_slice(request)
            .map_err(|error| format!("the request is invalid: {error}"))
            .and_then(|request| self.carry_out(request, inputs));
        answered.unwrap_or_else(|error| json(&Failure { error }))
    }

    fn carry_out(&mut self, request: Request, inputs: &mut Inputs<'_>) -> Result<Value, String> {
        match request {
            Request::Load { inputs: names, version, as_written, feature_gates } => {
                let reading = Reading { version, as_written, feature_gates };
                let loaded = self.load(&names, &reading, inputs);
                loaded.map(|it| json(&it)).map_err(|error| error.to_string())
            }
            Request::Ask(question) => {
                let asked = self.loaded()?;
                asked.ask(question).map(|it| json(&it)).map_err(|error| error.to_string())
            }
            Request::Pods(window) => Ok(json(&self.loaded()?.pod_rows(&window))),
            Request::Nodes(window) => Ok(json(&self.loaded()?.node_rows(&window))),
            Request::Workloads(window) => Ok(json(&self.loaded()?.workload_rows(&window))),
            Request::Groups(window) => Ok(json(&self.loaded()?.group_rows(&window))),
            Request::ExplainGroup { group } => {
                let explained = self.loaded()?.explain_group(&group);
                explained.map(|it| json(&it)).map_err(|error| error.to_string())
            }
            Request::Explain { pod } => {
                let explained = self.loaded()?.cluster.explain(&pod, true);
                explained.map(|it| json(&it)).map_err(|error| error.to_string())
            }
            Request::Simulate(scenario) => simulate(scenario).map_err(|error| error.to_string()),
        }
    }

    fn loaded(&mut self) -> Result<&mut Asked, String> {
        self.asked.as_mut().ok_or_else(|| "no cluster is loaded; paste or drop objects first".to_owned())
    }

    /// Replaces the cluster. If an object is invalid, the old one stays.
    fn load(
        &mut self,
        names: &[String],
        reading: &Reading,
        inputs: &mut Inputs<'_>,
    ) -> Result<Loaded, InputError> {
        WARNINGS.with_borrow_mut(Vec::clear);
        let version = known_version(reading.version.as_deref())?;
        let limit = InputLimit::parse(INPUT_MAX).map_err(InputError)?;
        let mut files = Files::within(limit, warn);
        let mut items = Vec::new();
        for (at, name) in names.iter().enumerate() {
            items.extend(files.read_from(name, &mut inputs(at))?);
        }
        let gates = gates_of(&reading.feature_gates, version, &items)?;
        let (manifests, items) = manifests_and_rest(items);
        let trial = profiles::trial(None, version, Compat::default(), gates.groups)?;
        let loaded = Cluster::with_manifests(&files, items, manifests, trial, reading.as_written);
        let (cluster, more) = loaded.map_err(|error| InputError(error.to_string()))?;
        let mut notes = WARNINGS.with_borrow_mut(std::mem::take);
        notes.extend(more.into_iter().chain(gates.note));
        let loaded = Loaded {
            nodes: cluster.nodes().len(),
            pods: cluster.pods().count(),
            pending: cluster.pending().count(),
            feature_gates: gates.text,
            notes,
        };
        self.asked = Some(Asked {
            cluster,
            question: Question::default(),
            placements: BTreeMap::new(),
            before: None,
            waiting_before: BTreeSet::new(),
        });
        Ok(loaded)
    }
}

/// How objects are read.
struct Reading {
    version: Option<String>,
    as_written: bool,
    feature_gates: String,
}

/// Splits off the manifests of workloads: those without a uid whose pods are not among the items. Objects that an API
/// server wrote have a uid, and their pods are what they are.
fn manifests_and_rest(items: Vec<Item>) -> (Vec<Item>, Vec<Item>) {
    let namespace = |item: &Item| match item.namespace() {
        "" => "default".to_owned(),
        own => own.to_owned(),
    };
    let pods = items.iter().filter(|item| item.kind() == "Pod");
    let owners: BTreeSet<(String, Owner)> =
        pods.filter_map(|pod| Some((namespace(pod), pod.owner()?))).collect();
    items.into_iter().partition(|item| {
        is_workload(item)
            && !item.is_packed()
            && item.text("/metadata/uid").is_empty()
            && item.owner().is_none()
            && !owners
                .contains(&(namespace(item), Owner { kind: item.kind().into(), name: item.name().into() }))
    })
}

impl Asked {
    /// Decides about all pending pods. If the question is invalid, the answer to the one before stays.
    fn ask(&mut self, question: Question) -> Result<Outcome, ClusterError> {
        if self.before.is_none() {
            let placed = self.decide(&Question::default())?;
            self.before = Some(placed.into_iter().map(|it| (it.pod, it.node)).collect());
            self.waiting_before = self.waiting_groups().1;
            if question == Question::default() {
                return Ok(self.outcome());
            }
        }
        if let Err(error) = self.decide(&question) {
            let last = self.question.clone();
            self.decide(&last)?;
            return Err(error);
        }
        self.question = question;
        Ok(self.outcome())
    }

    /// Replaces the decisions by those about another question.
    fn decide(&mut self, question: &Question) -> Result<Vec<Placement>, ClusterError> {
        while self.cluster.depth() > 0 {
            self.cluster.undo()?;
        }
        self.placements.clear();
        self.cluster.fork();
        self.cluster.set_config_text(CONFIG, &question.config)?;
        for change in &question.changes {
            self.change(change)?;
        }
        let placed = self.cluster.place_pending();
        self.placements = placed.iter().map(|it| (it.pod.clone(), it.clone())).collect();
        Ok(placed)
    }

    fn change(&mut self, change: &Change) -> Result<(), ClusterError> {
        match change {
            Change::AddNodes { like, count } if *count > NODES_MAX => Err(ClusterError::Invalid(format!(
                "{count} nodes like {like} exceed the maximum of {NODES_MAX}; add fewer"
            ))),
            Change::AddNodes { like, count } => {
                self.cluster.add_nodes(NodeTemplate::Like(like), *count).map(drop)
            }
            Change::RemoveNode { node } => self.cluster.remove_node(node).map(drop),
            Change::Taint { node, taint } => self.cluster.taint(node, taint),
            Change::Untaint { node, taint } => self.cluster.untaint(node, taint),
            Change::Scale { kind, namespace, name, replicas } => {
                self.cluster.scale(kind, namespace, name, *replicas)
            }
        }
    }

    /// Returns whether a decision differs from the one without changes and with the default plugins.
    pub(crate) fn is_moved(&self, placement: &Placement) -> bool {
        let before = self.before.as_ref().and_then(|before| before.get(&placement.pod));
        before.is_none_or(|before| *before != placement.node)
    }

    fn outcome(&self) -> Outcome {
        let placed = self.placements.values().filter(|it| it.node.is_some()).count();
        let before = self.before.iter().flatten();
        let placed_before = before.clone().filter(|(_, node)| node.is_some()).count();
        let (groups, groups_waiting) = self.waiting_groups();
        Outcome {
            nodes: self.cluster.nodes().len(),
            pods: self.cluster.pods().count(),
            decided: self.placements.len(),
            placed,
            pending: self.placements.len() - placed,
            moved: self.placements.values().filter(|it| self.is_moved(it)).count(),
            placed_before,
            pending_before: before.count() - placed_before,
            groups,
            groups_waiting: groups_waiting.len(),
            groups_waiting_before: self.waiting_before.len(),
        }
    }
}

/// Returns an answer as JSON.
fn json(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer)
        .expect("an answer holds only texts, numbers, lists and objects with text keys")
}
