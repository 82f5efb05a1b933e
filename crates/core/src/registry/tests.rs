//! The default plan equals upstream's, as the real kube-scheduler logs it at `-v=2`.

use super::*;

fn names(plan: &Plan, point: ExtensionPoint) -> String {
    plan.at(point).join(" ")
}

#[test]
fn default_plugins_follow_upstream_order_at_every_point() {
    let plan = Plan::default();
    let filters = "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone \
                   PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures";
    for (point, expected) in [
        (PreEnqueue, "SchedulingGates DynamicResources DefaultPreemption"),
        (QueueSort, "PrioritySort"),
        (PreFilter, filters),
        (Filter, &format!("NodeUnschedulable NodeName TaintToleration {filters}")),
        (PostFilter, "DynamicResources DefaultPreemption"),
        (
            PreScore,
            "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity \
             NodeResourcesBalancedAllocation",
        ),
        (
            Score,
            "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity \
             DynamicResources NodeResourcesBalancedAllocation ImageLocality",
        ),
        (Reserve, "VolumeBinding DynamicResources"),
        (Permit, ""),
        (PreBind, "VolumeBinding DynamicResources"),
        (Bind, "DefaultBinder"),
        (ExtensionPoint::PostBind, ""),
        (PlacementGenerate, ""),
        (PlacementScore, "NodeResourcesFit"),
    ] {
        assert_eq!(names(&plan, point), expected, "{point:?}");
    }
}

#[test]
fn default_weights_equal_upstream() {
    let framework = Framework::default();
    let mut seats: Vec<_> = framework.scores.iter().filter(|seat| seat.score.is_some()).collect();
    seats.sort_by_key(|seat| seat.score.map(|place| place.rank));
    let weights: Vec<_> = seats.iter().map(|seat| (seat.plugin.name(), seat.weight)).collect();
    assert_eq!(
        weights,
        [
            ("TaintToleration", 3),
            ("NodeAffinity", 2),
            ("NodeResourcesFit", 1),
            ("VolumeBinding", 1),
            ("PodTopologySpread", 2),
            ("InterPodAffinity", 2),
            ("DynamicResources", 2),
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
        ]
    );
}

#[test]
fn plugin_index_matches_its_name() {
    for row in IN_TREE {
        let args = PluginArgs::default();
        assert!(row.filter.is_none_or(|make| make(&args).name() == row.name), "{}", row.name);
        assert!(row.score.is_none_or(|make| make(&Plan::default()).name() == row.name), "{}", row.name);
        let implements = |point| row.implements(point, EmulatedVersion::NEWEST.rules());
        assert!(row.filter.is_none() || implements(Filter), "{}", row.name);
        assert!(row.score.is_none() || implements(Score), "{}", row.name);
        for need in row.needs {
            assert!(implements(need.point) && implements(need.prepared_by));
        }
    }
}

/// Upstream: `getDefaultPlugins` and `applyFeatureGates` of each version.
#[test]
fn default_plugins_differ_by_version() {
    let points_of = |version: EmulatedVersion, name: &str| {
        let plan = Plan::of(version.rules());
        ExtensionPoint::ALL.into_iter().filter(|&point| plan.runs(point, name)).collect::<Vec<_>>()
    };
    for version in EmulatedVersion::ALL {
        let scores = points_of(version, "DynamicResources").contains(&Score);
        assert_eq!(scores, version >= EmulatedVersion::V1_35, "{version}");
        let checks_features = !points_of(version, "NodeDeclaredFeatures").is_empty();
        assert_eq!(checks_features, version >= EmulatedVersion::V1_36, "{version}");
        let filters = names(&Plan::of(version.rules()), Filter);
        let node_name_first = filters.starts_with("NodeName NodeUnschedulable TaintToleration ");
        assert_eq!(node_name_first, version >= EmulatedVersion::V1_37, "{filters}");
        assert_eq!(points_of(version, "NodeName").contains(&PreFilter), node_name_first, "{version}");
        let knows = |name| find(name, version.rules()).is_some();
        let known = ["NodeDeclaredFeatures", "PodGroupPodsCount", "DeferredPodScheduling"].map(knows);
        let since = [EmulatedVersion::V1_35, EmulatedVersion::V1_36, EmulatedVersion::V1_37];
        assert_eq!(known, since.map(|since| version >= since), "{version}");
    }
}

#[test]
fn empty_profile_runs_no_plugins() {
    let plan = Plan { points: BTreeMap::new(), weights: BTreeMap::new(), args: PluginArgs::default() };
    let framework = Framework::new(&plan);
    assert!(framework.filters.is_empty() && framework.scores.is_empty());
}
