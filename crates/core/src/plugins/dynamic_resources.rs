//! DynamicResources without allocation: rejects pods that need devices, with upstream's texts and position.
//!
//! Placing such pods without allocation could choose a node without their device. `PodInfo::unjudged` marks
//! pods with claims. For extended resources that DeviceClasses serve, this plugin rejects node by node, as
//! upstream does. Upstream: `dynamicresources/dynamicresources.go` and `extendeddynamicresources.go`.

use crate::cache::{NodeView, Snapshot};
use crate::framework::post_filter::{PostFilterPlugin, PostFiltered, Unplaced};
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, FilterRule, Hint, NodeAction, NodeFilterPlugin,
    PluginName, Prepared, Reason, Rejection, Verdict,
};
use crate::model::intern::{Symbol, Tables};
use crate::model::node_pod::NodePod;
use crate::model::pod::PodInfo;
use crate::model::resources::{PodResources, is_extended_resource};

const NAME: PluginName = "DynamicResources";

/// The part before the slash of the resource that every DeviceClass serves by its name
/// (`ResourceDeviceClassPrefix` of `resource.k8s.io/v1`).
const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";

/// The plugin.
#[derive(Clone, Copy, Debug)]
pub struct DynamicResources;

impl NodeFilterPlugin for DynamicResources {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        if let Some(need) = pod.unjudged().iter().find(|need| need.plugin == NAME) {
            return Prepared::Rejected(Rejection::unresolvable(need.what.to_string()));
        }
        let wanted = Wanted::new(pod.resources(), snapshot);
        if wanted.by_class.is_empty() {
            return Prepared::Skip;
        }
        Prepared::Run { rule: Box::new(wanted), only: None }
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE
            | EventSet::node(NodeAction::UpdateLabel)
            | EventSet::node(NodeAction::UpdateAllocatable)
            | EventSet::DEVICE_CLASS
    }

    fn hint(&self, event: &ClusterEvent<'_>, _pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        // Upstream's node and class events. A device plugin on a node may start to serve the class's resource.
        Hint::queue_if(match event {
            ClusterEvent::Node { action, .. } => {
                matches!(action, NodeAction::Add | NodeAction::UpdateLabel | NodeAction::UpdateAllocatable)
            }
            ClusterEvent::DeviceClass { .. } | ClusterEvent::UnschedulableTimeout => true,
            _ => false,
        })
    }
}

/// The extended resources that a pod requests.
struct Wanted {
    /// Resources that a DeviceClass serves.
    by_class: Box<[Symbol]>,
    /// Other resources.
    by_nodes_alone: Box<[Symbol]>,
}

impl Wanted {
    fn new(resources: &PodResources, snapshot: Snapshot<'_>) -> Self {
        let asked = resources.request.scalar.iter().filter(|(_, amount)| *amount != 0);
        let extended = asked.map(|&(name, _)| name).filter(|&name| is_extended(name, snapshot.tables()));
        let (by_class, by_nodes_alone): (Vec<_>, Vec<_>) =
            extended.partition(|&name| snapshot.is_served_by_class(name));
        Self { by_class: by_class.into(), by_nodes_alone: by_nodes_alone.into() }
    }
}

/// Upstream's `IsDRAExtendedResourceName`, for a tracked resource name.
fn is_extended(name: Symbol, tables: &Tables) -> bool {
    let name = tables.text(name);
    is_extended_resource(name) || name.starts_with(IMPLICIT)
}

impl FilterRule for Wanted {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        let allocatable = &node.info().allocatable;
        if self.by_nodes_alone.iter().any(|&name| allocatable.scalar(name).is_none()) {
            return Verdict::Rejected(Rejection::unresolvable("cannot fit resource"));
        }
        let lacking = self.by_class.iter().find(|&&name| allocatable.scalar(name).unwrap_or(0) <= 0);
        let Some(&lacking) = lacking else { return Verdict::Fits };
        let name = node.snapshot().tables().text(lacking);
        let text: Reason = format!(
            "node(s) could have {name:?} by a DeviceClass only, and this version of supercargo does not allocate devices"
        )
        .into();
        Verdict::Rejected(Rejection::unresolvable(text))
    }
}

/// The PostFilter of DynamicResources, which never has a claim to deallocate.
#[derive(Clone, Copy, Debug)]
pub struct Deallocation;

impl PostFilterPlugin for Deallocation {
    fn name(&self) -> PluginName {
        NAME
    }

    /// Fails if an earlier plugin rejected the pod in PreFilter. Upstream's PostFilter then finds no state and returns
    /// this error, so that preemption does not run either.
    fn post_filter<'a>(&self, unplaced: &Unplaced<'a>) -> PostFiltered<'a> {
        if !unplaced.prepared_by.contains(&NAME) {
            return PostFiltered::Failed(CycleError("not found".to_owned()));
        }
        let has_claim = unplaced.pod.unjudged.is_empty()
            && !Wanted::new(&unplaced.pod.resources, unplaced.snapshot).by_class.is_empty();
        let reason = match (unplaced.snapshot.rules().reports_no_claims, has_claim) {
            (true, true) => "still not schedulable",
            (true, false) => "no new claims to deallocate",
            (false, _) => "",
        };
        PostFiltered::Nothing {
            reason: reason.to_owned(),
            clear_nomination: false,
            preemption_blockers: Default::default(),
        }
    }
}
