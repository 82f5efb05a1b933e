//! Fields that only newer versions have. Upstream's decoder does not know them in older versions.

use crate::yaml::{Document, NodeId, Problem, Value};
use supercargo_core::model::emulation::EmulatedVersion::{self, V1_35, V1_36, V1_37};

/// Fields of `plugins`, and the first version with each.
const POINTS: [(&str, EmulatedVersion); 3] =
    [("placementGenerate", V1_36), ("placementScore", V1_36), ("podGroupPostFilter", V1_37)];

/// Fields of the arguments of plugins, and the first version with each.
const ARGS: [(&str, &str, EmulatedVersion); 1] = [("DynamicResources", "bindingTimeout", V1_35)];

/// Returns the fields of a document that a version does not know.
pub(crate) fn unknown(document: &Document, version: EmulatedVersion) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut check = |node: Option<NodeId>, path: &str, field: &str| {
        if node.is_some_and(|node| document.child(node, field).is_some()) {
            let path = format!("{path}.{field}");
            let text = format!("strict decoding error: unknown field {path:?} in version {version}");
            problems.push(Problem { place: document.find(&path), ..Problem::new(path, text) });
        }
    };
    for (at, profile) in items(document, Some(document.root()), "profiles").iter().enumerate() {
        let plugins = document.child(*profile, "plugins");
        for (field, since) in POINTS {
            if version < since {
                check(plugins, &format!("profiles[{at}].plugins"), field);
            }
        }
        for (index, config) in items(document, Some(*profile), "pluginConfig").iter().enumerate() {
            let name = document.get(*config, "name").map(|node| &node.value);
            for (plugin, field, since) in ARGS {
                if version < since && matches!(name, Some(Value::Text(name)) if name == plugin) {
                    let path = format!("profiles[{at}].pluginConfig[{index}].args");
                    check(document.child(*config, "args"), &path, field);
                }
            }
        }
    }
    problems
}

fn items<'d>(document: &'d Document, node: Option<NodeId>, field: &str) -> &'d [NodeId] {
    match node.and_then(|node| document.get(node, field)).map(|node| &node.value) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

/// Removes the fields that a version does not know from a configuration as JSON.
pub(crate) fn remove(configuration: &mut serde_json::Value, version: EmulatedVersion) {
    let profiles = configuration["profiles"].as_array_mut().into_iter().flatten();
    for plugins in profiles.filter_map(|profile| profile["plugins"].as_object_mut()) {
        plugins.retain(|field, _| POINTS.iter().all(|(newer, since)| field != newer || version >= *since));
    }
}
