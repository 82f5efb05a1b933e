//! Merges a profile's plugins with the default plugins. Upstream:
//! `pkg/scheduler/apis/config/v1/default_plugins.go#mergePlugins`.

use crate::v1::{Plugin, PluginSet, Plugins};
use std::collections::BTreeSet;
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::model::emulation::VersionRules;
use supercargo_core::registry;

/// Wildcard for all plugins.
pub(crate) const ALL: &str = "*";

/// Extension points of a configuration, in the order in which upstream's framework fills them.
pub(crate) const POINTS: [ExtensionPoint; 14] = ExtensionPoint::ALL;

/// Returns the field name of an extension point.
pub(crate) fn field_of(point: ExtensionPoint) -> &'static str {
    match point {
        ExtensionPoint::PreFilter => "preFilter",
        ExtensionPoint::Filter => "filter",
        ExtensionPoint::PostFilter => "postFilter",
        ExtensionPoint::Reserve => "reserve",
        ExtensionPoint::PreScore => "preScore",
        ExtensionPoint::Score => "score",
        ExtensionPoint::PreBind => "preBind",
        ExtensionPoint::Bind => "bind",
        ExtensionPoint::PostBind => "postBind",
        ExtensionPoint::Permit => "permit",
        ExtensionPoint::PreEnqueue => "preEnqueue",
        ExtensionPoint::QueueSort => "queueSort",
        ExtensionPoint::PlacementGenerate => "placementGenerate",
        ExtensionPoint::PlacementScore => "placementScore",
    }
}

impl Plugins {
    /// Returns the plugin set of an extension point.
    pub fn at(&self, point: ExtensionPoint) -> &PluginSet {
        match point {
            ExtensionPoint::PreFilter => &self.pre_filter,
            ExtensionPoint::Filter => &self.filter,
            ExtensionPoint::PostFilter => &self.post_filter,
            ExtensionPoint::Reserve => &self.reserve,
            ExtensionPoint::PreScore => &self.pre_score,
            ExtensionPoint::Score => &self.score,
            ExtensionPoint::PreBind => &self.pre_bind,
            ExtensionPoint::Bind => &self.bind,
            ExtensionPoint::PostBind => &self.post_bind,
            ExtensionPoint::Permit => &self.permit,
            ExtensionPoint::PreEnqueue => &self.pre_enqueue,
            ExtensionPoint::QueueSort => &self.queue_sort,
            ExtensionPoint::PlacementGenerate => &self.placement_generate,
            ExtensionPoint::PlacementScore => &self.placement_score,
        }
    }

    /// Returns the names of all enabled plugins.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let others = [&self.multi_point, &self.pod_group_post_filter];
        let sets = POINTS.iter().map(|&point| self.at(point)).chain(others);
        sets.flat_map(|set| &set.enabled).map(|plugin| plugin.name.clone()).collect()
    }
}

/// Merges the written plugins into the default ones of a version. Only `multiPoint` has defaults; sets of
/// extension points stay as written.
pub(crate) fn merged_with_defaults(written: Option<Plugins>, rules: VersionRules) -> Plugins {
    let mut plugins = written.unwrap_or_default();
    plugins.multi_point = merge(default_multi_point(rules), plugins.multi_point);
    // Upstream keeps only the names of disabled plugins.
    for set in plugins.sets_mut() {
        set.disabled.iter_mut().for_each(|plugin| plugin.weight = 0);
    }
    plugins
}

impl Plugins {
    fn sets_mut(&mut self) -> [&mut PluginSet; 16] {
        [
            &mut self.pre_enqueue,
            &mut self.queue_sort,
            &mut self.pre_filter,
            &mut self.filter,
            &mut self.post_filter,
            &mut self.pre_score,
            &mut self.score,
            &mut self.reserve,
            &mut self.permit,
            &mut self.pre_bind,
            &mut self.bind,
            &mut self.post_bind,
            &mut self.multi_point,
            &mut self.placement_generate,
            &mut self.placement_score,
            &mut self.pod_group_post_filter,
        ]
    }
}

fn default_multi_point(rules: VersionRules) -> Vec<Plugin> {
    let plugin = |(name, weight): (&str, Option<i32>)| Plugin {
        name: name.to_owned(),
        weight: weight.unwrap_or_default(),
    };
    registry::default_plugins(rules).into_iter().map(plugin).collect()
}

/// Returns the defaults without disabled ones, where a plugin enabled again replaces its default in place,
/// followed by the other enabled plugins.
fn merge(defaults: Vec<Plugin>, written: PluginSet) -> PluginSet {
    let PluginSet { enabled, disabled } = written;
    let is_disabled = |name: &str| disabled.iter().any(|plugin| plugin.name == name);
    let mut replaced = BTreeSet::new();
    let mut merged = Vec::new();
    if !is_disabled(ALL) {
        for default in defaults.into_iter().filter(|default| !is_disabled(&default.name)) {
            // Of repeated plugins, the last replaces the default. The others stay and are reported as
            // duplicates later.
            match enabled.iter().rposition(|plugin| plugin.name == default.name) {
                Some(at) => {
                    replaced.insert(at);
                    merged.push(enabled[at].clone());
                }
                None => merged.push(default),
            }
        }
    }
    let others = enabled.into_iter().enumerate().filter(|(at, _)| !replaced.contains(at));
    merged.extend(others.map(|(_, plugin)| plugin));
    PluginSet { enabled: merged, disabled }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(enabled: &[(&str, i32)], disabled: &[&str]) -> PluginSet {
        let plugin = |&(name, weight): &(&str, i32)| Plugin { name: name.to_owned(), weight };
        PluginSet {
            enabled: enabled.iter().map(plugin).collect(),
            disabled: disabled.iter().map(|name| plugin(&(name, 0))).collect(),
        }
    }

    fn merged(defaults: &[(&str, i32)], written: PluginSet) -> String {
        let merged = merge(set(defaults, &[]).enabled, written);
        merged
            .enabled
            .iter()
            .map(|p| format!("{}={} ", p.name, p.weight))
            .collect::<String>()
            .trim()
            .to_owned()
    }

    #[test]
    fn enabled_default_plugin_is_replaced_in_place() {
        let written = set(&[("C", 0), ("B", 7)], &[]);
        assert_eq!(merged(&[("A", 1), ("B", 2), ("D", 0)], written), "A=1 B=7 D=0 C=0");
    }

    #[test]
    fn disabled_and_enabled_plugin_moves_to_the_end() {
        assert_eq!(merged(&[("A", 1), ("B", 2)], set(&[("A", 5)], &["A"])), "B=2 A=5");
    }

    #[test]
    fn wildcard_disables_all_default_plugins() {
        assert_eq!(merged(&[("A", 1), ("B", 2)], set(&[("B", 0), ("X", 0)], &["*"])), "B=0 X=0");
    }

    #[test]
    fn duplicate_plugin_replaces_the_default_and_stays_in_the_list() {
        assert_eq!(merged(&[("A", 1), ("B", 2)], set(&[("A", 3), ("A", 4)], &[])), "A=4 B=2 A=3");
    }
}
