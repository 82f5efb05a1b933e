//! Translates in-tree volumes to the CSI drivers that serve them: driver name, volume handle and topology.
//!
//! Upstream translates the whole volume; this module computes only what the scheduler's plugins read.
//! Upstream: `csi-translation-lib/plugins`.

use super::syntax;
use crate::api::core::{NodeSelectorTerm, Volume};
use crate::api::meta::SelectorRequirement;
use crate::api::storage::{AzureDisk, PersistentVolumeSpec};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::model::volume::InTreePlugin;

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// Separator of the zones in a volume's label.
pub(super) const ZONES_SEPARATOR: &str = "__";
/// Placeholder for what a GCE disk's in-tree source does not contain.
const UNSPECIFIED: &str = "UNSPECIFIED";

/// Labels of a volume.
type Labels = BTreeMap<String, String>;

/// Returns the in-tree plugin of a pod's inline volume, with its CSI volume handle or the translation error.
pub(super) fn inline(volume: &Volume) -> Option<(InTreePlugin, Result<String, String>)> {
    Some(match volume {
        Volume { aws_elastic_block_store: Some(disk), .. } => {
            (InTreePlugin::AwsEbs, ebs_handle(&disk.volume_id))
        }
        Volume { gce_persistent_disk: Some(disk), .. } => {
            (InTreePlugin::GcePd, Ok(gce_handle("zones", UNSPECIFIED, &disk.pd_name)))
        }
        Volume { azure_disk: Some(disk), .. } => (InTreePlugin::AzureDisk, azure_handle(disk)),
        Volume { cinder: Some(disk), .. } => (InTreePlugin::Cinder, Ok(disk.volume_id.clone())),
        Volume { portworx_volume: Some(disk), .. } => (InTreePlugin::Portworx, Ok(disk.volume_id.clone())),
        // These handles are never read: see `InTreePlugin::is_followed`.
        Volume { azure_file: Some(_), .. } => (InTreePlugin::AzureFile, Ok(String::new())),
        Volume { vsphere_volume: Some(_), .. } => (InTreePlugin::Vsphere, Ok(String::new())),
        _ => return None,
    })
}

/// An in-tree PersistentVolume translated to its CSI driver.
pub(super) struct Translated {
    /// The CSI volume handle.
    pub(super) handle: String,
    /// The terms of its required node affinity, if any.
    pub(super) terms: Option<Vec<NodeSelectorTerm>>,
}

/// Returns the in-tree plugin of a PersistentVolume, with its translation or the translation error.
pub(super) fn persistent(
    spec: &PersistentVolumeSpec,
    labels: &Labels,
) -> Option<(InTreePlugin, Result<Translated, String>)> {
    let as_is = || required_terms(spec).map(<[NodeSelectorTerm]>::to_vec);
    let (plugin, handle, terms) = match spec {
        PersistentVolumeSpec { aws_elastic_block_store: Some(disk), .. } => {
            let terms = translated(spec, labels, "topology.ebs.csi.aws.com/zone");
            (InTreePlugin::AwsEbs, ebs_handle(&disk.volume_id), terms)
        }
        PersistentVolumeSpec { gce_persistent_disk: Some(disk), .. } => {
            let terms = translated(spec, labels, "topology.gke.io/zone");
            (InTreePlugin::GcePd, gce_persistent_handle(&disk.pd_name, labels), terms)
        }
        PersistentVolumeSpec { azure_disk: Some(disk), .. } => {
            (InTreePlugin::AzureDisk, azure_handle(disk), as_is())
        }
        PersistentVolumeSpec { cinder: Some(disk), .. } => {
            let terms = translated(spec, labels, "topology.cinder.csi.openstack.org/zone");
            (InTreePlugin::Cinder, Ok(disk.volume_id.clone()), terms)
        }
        PersistentVolumeSpec { portworx_volume: Some(disk), .. } => {
            (InTreePlugin::Portworx, Ok(disk.volume_id.clone()), as_is())
        }
        PersistentVolumeSpec { azure_file: Some(_), .. } => {
            (InTreePlugin::AzureFile, Ok(String::new()), as_is())
        }
        PersistentVolumeSpec { vsphere_volume: Some(_), .. } => {
            (InTreePlugin::Vsphere, Ok(String::new()), as_is())
        }
        _ => return None,
    };
    Some((plugin, handle.map(|handle| Translated { handle, terms })))
}

fn required_terms(spec: &PersistentVolumeSpec) -> Option<&[NodeSelectorTerm]> {
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    required.map(|selector| selector.node_selector_terms.as_slice())
}

/// Returns the terms with zones under the driver's topology key. Zones in terms take precedence over labels
/// (upstream `in_tree_volume.go#translateTopologyFromInTreeToCSI`).
fn translated(
    spec: &PersistentVolumeSpec,
    labels: &Labels,
    driver_key: &str,
) -> Option<Vec<NodeSelectorTerm>> {
    let mut terms = required_terms(spec).map(<[NodeSelectorTerm]>::to_vec);
    let names = |key: &str| terms.iter().flatten().any(|term| expressions(term, key).next().is_some());
    let is_beta =
        !names(ZONE) && (names(BETA_ZONE) || !labels.contains_key(ZONE) && labels.contains_key(BETA_ZONE));
    let zone_key = if is_beta { BETA_ZONE } else { ZONE };
    if has_values(terms.as_deref(), zone_key) {
        rename(terms.as_deref_mut(), zone_key, driver_key);
    } else if let Some(zones) = labels.get(zone_key) {
        add_zones(&mut terms, driver_key, zones);
    }
    if is_beta && has_values(terms.as_deref(), BETA_REGION) {
        rename(terms.as_deref_mut(), BETA_REGION, REGION);
    }
    terms
}

fn expressions<'a>(term: &'a NodeSelectorTerm, key: &str) -> impl Iterator<Item = &'a SelectorRequirement> {
    term.match_expressions.iter().filter(move |expression| expression.key == key)
}

fn has_values(terms: Option<&[NodeSelectorTerm]>, key: &str) -> bool {
    let mut named = terms.into_iter().flatten().flat_map(|term| expressions(term, key));
    named.any(|expression| expression.values.as_ref().is_some_and(|values| !values.is_empty()))
}

fn rename(terms: Option<&mut [NodeSelectorTerm]>, from: &str, to: &str) {
    let expressions = terms.into_iter().flatten().flat_map(|term| &mut term.match_expressions);
    for expression in expressions.filter(|expression| expression.key == from) {
        expression.key = to.to_owned();
    }
}

/// Requires one of the zones in every term, or in a new term if there is none.
fn add_zones(terms: &mut Option<Vec<NodeSelectorTerm>>, key: &str, zones: &str) {
    let zones: BTreeSet<&str> =
        zones.split(ZONES_SEPARATOR).map(str::trim).filter(|zone| !zone.is_empty()).collect();
    if zones.is_empty() {
        return;
    }
    let terms = terms.get_or_insert_default();
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    for term in terms {
        term.match_expressions.push(SelectorRequirement {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: Some(zones.iter().map(|&zone| zone.to_owned()).collect()),
        });
    }
}

/// Returns `vol-...` for `aws://zone/vol-...`, and other texts unchanged (upstream
/// `aws_ebs.go#KubernetesVolumeIDToEBSVolumeID`).
fn ebs_handle(id: &str) -> Result<String, String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id.to_owned()) };
    let invalid = |what: String| Err(format!("failed to translate Kubernetes ID to EBS Volume ID {what}"));
    if id.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        let why = format!("parse {}: net/url: invalid control character in URL", syntax::quote(id));
        return invalid(format!("Invalid disk name ({id}): {why}"));
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (zone, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let bad_escape = |escape: &str| format!("invalid URL escape {}", syntax::quote(escape));
    let path = flaw_of_host(zone).map_or_else(|| percent_decoded(path).map_err(bad_escape), Err);
    let path = match path {
        Ok(path) => path,
        Err(flaw) => {
            let url = id.split('#').next().unwrap_or_default();
            return invalid(format!("Invalid disk name ({id}): parse {}: {flaw}", syntax::quote(url)));
        }
    };
    let handle = path.trim_matches('/');
    if !handle.starts_with("vol-") || handle.contains('/') {
        return invalid(format!("Invalid format for AWS volume ({id})"));
    }
    Ok(handle.to_owned())
}

/// Returns the error of Go's `net/url` for a host. User info and IP literals, which are not zones, are not checked.
fn flaw_of_host(host: &str) -> Option<String> {
    if host.contains(['@', '[']) {
        return None;
    }
    if let Some(port) = host.rfind(':').map(|at| &host[at..])
        && !port[1..].bytes().all(|byte| byte.is_ascii_digit())
    {
        return Some(format!("invalid port {} after host", syntax::quote(port)));
    }
    for (at, character) in host.char_indices() {
        if character == '%' {
            let escape = host.get(at..at + 3).unwrap_or(&host[at..]);
            let is_hex = escape.len() == 3 && escape[1..].bytes().all(|byte| byte.is_ascii_hexdigit());
            // In a host, only non-ASCII bytes and the percent sign may be percent-encoded.
            if !is_hex || (escape.as_bytes()[1] < b'8' && escape != "%25") {
                return Some(format!("invalid URL escape {}", syntax::quote(escape)));
            }
        } else if " \\^`{|}".contains(character) {
            return Some(format!("invalid character {} in host name", syntax::quote(&character.to_string())));
        }
    }
    None
}

/// Decodes percent-encoding, or returns the first invalid escape.
fn percent_decoded(text: &str) -> Result<String, &str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text.as_bytes()[at] != b'%' {
            bytes.push(text.as_bytes()[at]);
            at += 1;
            continue;
        }
        let digits = text.get(at + 1..at + 3).filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => bytes.push(byte),
            None => return Err(text.get(at..(at + 3).min(text.len())).unwrap_or(&text[at..])),
        }
        at += 3;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn gce_handle(scope: &str, place: &str, name: &str) -> String {
    format!("projects/{UNSPECIFIED}/{scope}/{place}/disks/{name}")
}

/// Returns the handle of a GCE disk by the zones in its labels: zonal for one zone, regional for several.
fn gce_persistent_handle(name: &str, labels: &Labels) -> Result<String, String> {
    let label = |key: &str| labels.get(key).map_or("", String::as_str);
    let zones = if label(BETA_ZONE).is_empty() { label(ZONE) } else { label(BETA_ZONE) };
    let zones: Vec<&str> = zones.split(ZONES_SEPARATOR).collect();
    match zones[..] {
        [""] => Ok(gce_handle("zones", UNSPECIFIED, name)),
        [zone] => Ok(gce_handle("zones", zone, name)),
        _ => gce_region(&zones).map(|region| gce_handle("regions", &region, name)),
    }
}

/// Returns the common region of all zones, such as `europe-west1` for `europe-west1-b`.
fn gce_region(zones: &[&str]) -> Result<String, String> {
    let mut regions = BTreeSet::new();
    for zone in zones {
        match zone.split('-').collect::<Vec<_>>()[..] {
            [locale, region, _] => regions.insert(format!("{locale}-{region}")),
            _ => {
                let expected = "zone in unexpected format, expected: {locale}-{region}-{zone}";
                return Err(format!("failed to get region from zones: {expected}, got: {zone}"));
            }
        };
    }
    if regions.len() == 1 {
        return Ok(regions.pop_first().unwrap_or_default());
    }
    let got: Vec<String> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
    Err(format!(
        "failed to get region from zones: multiple or no regions gotten from zones, got: map[{}]",
        got.join(" ")
    ))
}

/// Returns the URI of an Azure disk, which must be a managed disk.
fn azure_handle(disk: &AzureDisk) -> Result<String, String> {
    match &disk.kind {
        Some(kind) if !kind.eq_ignore_ascii_case("Managed") => {
            Err(format!("kind({kind}) is not supported in csi migration"))
        }
        _ => Ok(disk.disk_uri.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn volume(spec: Value, labels: &[(&str, &str)]) -> (InTreePlugin, Result<Translated, String>) {
        let spec: PersistentVolumeSpec = serde_json::from_value(spec).expect("a spec");
        let labels = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        persistent(&spec, &labels).expect("an in-tree volume")
    }

    fn handle(spec: Value, labels: &[(&str, &str)]) -> Result<String, String> {
        volume(spec, labels).1.map(|translated| translated.handle)
    }

    /// Formats keys and values of all terms.
    fn topology(spec: Value, labels: &[(&str, &str)]) -> String {
        let terms = volume(spec, labels).1.expect("it can be translated").terms;
        let Some(terms) = terms else { return "none".to_owned() };
        let describe =
            |e: &SelectorRequirement| format!("{}={}", e.key, e.values.clone().unwrap_or_default().join(","));
        let terms =
            terms.iter().map(|t| t.match_expressions.iter().map(describe).collect::<Vec<_>>().join(" "));
        terms.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn aws_handle_is_the_volume_id_with_or_without_zone() {
        let of = |id: &str| handle(json!({ "awsElasticBlockStore": { "volumeID": id } }), &[]);
        assert_eq!(of("vol-1"), Ok("vol-1".to_owned()));
        assert_eq!(of("aws://eu-central-1a/vol-1"), Ok("vol-1".to_owned()));
        assert_eq!(of("aws:///vol%2D1"), Ok("vol-1".to_owned()));
        let wrong = "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://a/b/vol-1)";
        assert_eq!(of("aws://a/b/vol-1"), Err(wrong.to_owned()));
        assert!(of("aws://a/%zz").is_err_and(|e| e.ends_with("invalid URL escape \"%zz\"")));
    }

    #[test]
    fn gce_handle_contains_zone_or_region_of_labels() {
        let of = |labels: &[(&str, &str)]| handle(json!({ "gcePersistentDisk": { "pdName": "d" } }), labels);
        assert_eq!(of(&[]), Ok("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d".to_owned()));
        assert_eq!(of(&[(ZONE, "a-b-c")]), Ok("projects/UNSPECIFIED/zones/a-b-c/disks/d".to_owned()));
        assert_eq!(
            of(&[(ZONE, "x"), (BETA_ZONE, "a-b-c__a-b-d")]),
            Ok("projects/UNSPECIFIED/regions/a-b/disks/d".to_owned())
        );
        assert_eq!(
            of(&[(ZONE, "a-b-c__a-e-d")]),
            Err("failed to get region from zones: multiple or no regions gotten from zones, got: map[a-b:{} a-e:{}]"
                .to_owned())
        );
        assert!(of(&[(ZONE, "a__b")]).is_err_and(|e| e.ends_with("{locale}-{region}-{zone}, got: a")));
    }

    #[test]
    fn azure_disk_must_be_managed() {
        let of = |disk: Value| handle(json!({ "azureDisk": disk }), &[]);
        assert_eq!(of(json!({ "diskURI": "u" })), Ok("u".to_owned()));
        assert_eq!(of(json!({ "diskURI": "u", "kind": "managed" })), Ok("u".to_owned()));
        let wrong = "kind(Shared) is not supported in csi migration";
        assert_eq!(of(json!({ "diskURI": "u", "kind": "Shared" })), Err(wrong.to_owned()));
    }

    #[test]
    fn zones_in_terms_take_precedence_over_labels() {
        let spec = |terms: Value| {
            let affinity = json!({ "required": { "nodeSelectorTerms": terms } });
            json!({ "cinder": { "volumeID": "v" }, "nodeAffinity": affinity })
        };
        let key = "topology.cinder.csi.openstack.org/zone";
        let in_key =
            |key: &str| json!([{ "matchExpressions": [{ "key": key, "operator": "In", "values": ["t"] }] }]);
        let labels = [(ZONE, "l1__l2")];
        assert_eq!(topology(spec(in_key(ZONE)), &labels), format!("{key}=t"));
        assert_eq!(topology(spec(in_key(BETA_ZONE)), &labels), format!("{key}=t"));
        assert_eq!(topology(spec(in_key("other")), &labels), format!("other=t {key}=l1,l2"));
        assert_eq!(topology(spec(json!([])), &labels), format!("{key}=l1,l2"));
        assert_eq!(topology(json!({ "cinder": {} }), &labels), format!("{key}=l1,l2"));
        assert_eq!(topology(json!({ "cinder": {} }), &[]), "none");
        assert_eq!(topology(json!({ "azureDisk": {} }), &labels), "none");
    }

    #[test]
    fn beta_region_key_is_replaced_only_with_a_beta_zone_key() {
        let region = json!({ "key": BETA_REGION, "operator": "In", "values": ["r"] });
        let affinity = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [region] }] } });
        let spec = json!({ "awsElasticBlockStore": { "volumeID": "v" }, "nodeAffinity": affinity });
        let key = "topology.ebs.csi.aws.com/zone";
        assert_eq!(topology(spec.clone(), &[(BETA_ZONE, "z")]), format!("{REGION}=r {key}=z"));
        assert_eq!(topology(spec, &[(ZONE, "z")]), format!("{BETA_REGION}=r {key}=z"));
    }
}
