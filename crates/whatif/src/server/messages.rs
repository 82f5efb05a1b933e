//! The bodies of requests and answers that only the server has. The other answers are those of `crate::cluster`,
//! `crate::plan` and `crate::explain`. `openapi.json` describes all of them.

use super::answer::Problem;
use crate::cluster::{ClusterError, NodeTemplate, ScaleUpPods, ScaleUpTemplate};
use crate::plan::{Accepted, Bounds, Goal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Reads the body of a request.
///
/// # Errors
/// Fails with the name of the field.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| Problem::Invalid(format!("the request body: {error}")))
}

/// A cluster to ask about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SnapshotAnswer {
    pub(super) id: String,
    pub(super) nodes: usize,
    pub(super) pods: usize,
    pub(super) pending: usize,
    pub(super) bytes: usize,
    /// `None` for the live cluster, which does not expire.
    pub(super) expires_in_seconds: Option<u64>,
}

/// Changes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ForkAnswer {
    pub(super) id: String,
    pub(super) snapshot: String,
    pub(super) changes: usize,
    pub(super) expires_in_seconds: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Items<T> {
    pub(super) items: Vec<T>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Placements<T> {
    pub(super) placements: Vec<T>,
}

/// The pods that a change displaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Displaced {
    /// The pods that are pending now.
    pub(super) pending: Vec<String>,
    /// The pods that nothing creates again elsewhere.
    pub(super) gone: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Added {
    pub(super) nodes: Vec<String>,
}

/// The configuration in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Configured {
    /// The names of its profiles.
    pub(super) profiles: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkRequest {
    /// A snapshot or a fork.
    pub(super) of: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoRequest {
    #[serde(default = "one")]
    pub(super) changes: usize,
}

fn one() -> usize {
    1
}

/// The pods of a question or change; exactly one of the first three.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PodsRequest {
    objects: Option<Vec<Value>>,
    template: Option<Value>,
    #[serde(default)]
    pending: bool,
    count: Option<usize>,
}

/// The pods of a question or change.
#[derive(Clone, Debug)]
pub(super) enum Pods {
    Objects(Vec<Value>),
    Copies(Value, usize),
    Pending,
}

impl PodsRequest {
    pub(super) fn pods(self) -> Result<Pods, Problem> {
        let Self { objects, template, pending, count } = self;
        if count.is_some() && template.is_none() {
            return Err(Problem::Invalid("count: expected only beside template".to_owned()));
        }
        match (objects, template, pending) {
            (Some(objects), None, false) => Ok(Pods::Objects(objects)),
            (None, Some(template), false) => Ok(Pods::Copies(template, count.unwrap_or(1))),
            (None, None, true) => Ok(Pods::Pending),
            _ => Err(Problem::Invalid(
                "expected exactly one of objects, template and pending: true".to_owned(),
            )),
        }
    }
}

impl Pods {
    /// Returns the number of pods that these make, as far as the objects tell; `nodes` for each DaemonSet.
    pub(super) fn expected(&self, nodes: usize) -> usize {
        match self {
            Self::Objects(objects) => expected(objects, nodes),
            Self::Copies(_, count) => *count,
            Self::Pending => 0,
        }
    }

    pub(super) fn to_scale_up(&self) -> ScaleUpPods<'_> {
        match self {
            Self::Objects(objects) => ScaleUpPods::Objects(objects),
            Self::Copies(template, count) => ScaleUpPods::Copies(template, *count),
            Self::Pending => ScaleUpPods::Pending,
        }
    }
}

/// Returns the number of pods that these objects make, with `nodes` for each DaemonSet.
pub(super) fn expected(objects: &[Value], nodes: usize) -> usize {
    objects.iter().map(|object| replicas(object, nodes)).fold(0, usize::saturating_add)
}

fn replicas(object: &Value, nodes: usize) -> usize {
    let number = |path: &str| object.pointer(path).and_then(Value::as_u64).unwrap_or(1);
    let most = match object["kind"].as_str().unwrap_or_default() {
        "DaemonSet" => return nodes,
        "Job" => number("/spec/parallelism"),
        "CronJob" => number("/spec/jobTemplate/spec/parallelism"),
        _ => number("/spec/replicas"),
    };
    usize::try_from(most).unwrap_or(usize::MAX)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EvictRequest {
    pub(super) pods: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveNodesRequest {
    pub(super) nodes: Vec<String>,
}

/// The template of new nodes: exactly one of both.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddNodesRequest {
    like: Option<String>,
    template: Option<Value>,
    pub(super) count: usize,
}

impl AddNodesRequest {
    pub(super) fn template(&self) -> Result<NodeTemplate<'_>, ClusterError> {
        node_template(self.like.as_deref(), self.template.as_ref())
    }
}

fn node_template<'a>(
    like: Option<&'a str>,
    object: Option<&'a Value>,
) -> Result<NodeTemplate<'a>, ClusterError> {
    match (like, object) {
        (Some(like), None) => Ok(NodeTemplate::Like(like)),
        (None, Some(object)) => Ok(NodeTemplate::Object(object)),
        _ => Err(ClusterError::Invalid("expected exactly one of like and template".to_owned())),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetConfigRequest {
    /// An object, or a string with YAML or JSON.
    pub(super) config: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectsRequest {
    pub(super) objects: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FeasibleRequest {
    pub(super) objects: Vec<Value>,
    pub(super) nodes: Option<Vec<String>>,
}

/// The pod to explain: exactly one of both.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainRequest {
    pub(super) pod: Option<String>,
    pub(super) objects: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ScaleUpRequest {
    templates: Vec<TemplateRequest>,
    objects: Option<Vec<Value>>,
    template: Option<Value>,
    #[serde(default)]
    pending: bool,
    count: Option<usize>,
    #[serde(default = "thousand")]
    pub(super) max_nodes: usize,
}

fn thousand() -> usize {
    1_000
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateRequest {
    name: String,
    like: Option<String>,
    node: Option<Value>,
}

/// A scale-up question that was checked.
pub(super) struct ScaleUpQuestion {
    templates: Vec<TemplateRequest>,
    pub(super) pods: Pods,
    pub(super) max_nodes: usize,
}

impl ScaleUpRequest {
    pub(super) fn checked(self) -> Result<ScaleUpQuestion, Problem> {
        let Self { templates, objects, template, pending, count, max_nodes } = self;
        if templates.is_empty() {
            return Err(Problem::Invalid("templates: expected at least one".to_owned()));
        }
        let pods = PodsRequest { objects, template, pending, count }.pods()?;
        Ok(ScaleUpQuestion { templates, pods, max_nodes })
    }
}

impl ScaleUpQuestion {
    pub(super) fn templates(&self) -> Result<Vec<ScaleUpTemplate<'_>>, Problem> {
        let each = self.templates.iter().map(|TemplateRequest { name, like, node }| match (like, node) {
            (Some(like), None) => Ok(ScaleUpTemplate { name, node: NodeTemplate::Like(like) }),
            (None, Some(node)) => Ok(ScaleUpTemplate { name, node: NodeTemplate::Object(node) }),
            _ => Err(Problem::Invalid(format!("template {name}: expected exactly one of like and node"))),
        });
        each.collect()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FreeNodesRequest {
    count: Option<usize>,
    nodes: Option<Vec<String>>,
    #[serde(default)]
    all_possible: bool,
    #[serde(default)]
    delete_emptydir_data: bool,
}

impl FreeNodesRequest {
    pub(super) fn goal(self) -> Result<(Goal, Accepted), Problem> {
        let goal = match (self.count, self.nodes, self.all_possible) {
            (Some(count), None, false) => Goal::Count(count),
            (None, Some(nodes), false) => Goal::Nodes(nodes),
            (None, None, true) => Goal::All,
            _ => {
                let text = "expected exactly one of count, nodes and allPossible: true";
                return Err(Problem::Invalid(text.to_owned()));
            }
        };
        Ok((goal, Accepted { local_data: self.delete_emptydir_data }))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct MakeRoomRequest {
    pub(super) objects: Vec<Value>,
    #[serde(default)]
    pub(super) delete_emptydir_data: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RebalanceRequest {
    max_requested_percent: Option<u32>,
    max_skew: Option<SkewRequest>,
    max_fragmented: Option<FragmentedRequest>,
    #[serde(default)]
    delete_emptydir_data: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SkewRequest {
    topology_key: String,
    max: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FragmentedRequest {
    resource: String,
    percent: u32,
}

impl RebalanceRequest {
    pub(super) fn bounds(self) -> Result<(Bounds, Accepted), Problem> {
        let skew = self.max_skew.map(|skew| (skew.topology_key, skew.max));
        let fragmented = self.max_fragmented.map(|it| (it.resource, it.percent));
        let bounds = Bounds { requested_percent: self.max_requested_percent, skew, fragmented };
        if bounds == Bounds::default() {
            let text = "expected at least one of maxRequestedPercent, maxSkew and maxFragmented";
            return Err(Problem::Invalid(text.to_owned()));
        }
        Ok((bounds, Accepted { local_data: self.delete_emptydir_data }))
    }
}
