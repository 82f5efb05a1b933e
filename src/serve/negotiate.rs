//! Content negotiation of `/statusz` and `/flagz`, by the `Accept` header rules of upstream's API machinery
//! (`apiserver/pkg/endpoints/handlers/negotiation`, `munnerz/goautoneg`).
//!
//! The pages are plain text by default. A program may request a structured kind by group, version and kind.

use std::cmp::Ordering;

/// API group of the structured kinds.
const GROUP: &str = "config.k8s.io";

/// Format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Plain text.
    Text,
    /// The structured kind.
    Structured {
        /// `v1alpha1` or `v1beta1`.
        version: &'static str,
        /// YAML if set, otherwise JSON.
        yaml: bool,
        /// Whether the JSON is indented.
        pretty: bool,
    },
}

/// One clause of an `Accept` header.
struct Clause<'a> {
    kind: &'a str,
    subkind: &'a str,
    quality: f32,
    params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    /// Parses one clause; `None` for a clause that upstream ignores.
    fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.trim().split(';');
        let mut range = parts.next()?.split('/');
        let kind = range.next()?.trim();
        let subkind = match range.next().filter(|subkind| !subkind.is_empty()) {
            Some(subkind) => subkind.trim(),
            None if kind == "*" => "*",
            None => return None,
        };
        if range.next().is_some_and(|more| !more.is_empty()) {
            return None;
        }
        let mut clause = Self { kind, subkind, quality: 1.0, params: Vec::new() };
        for param in parts {
            let mut sides = param.split('=');
            let (Some(key), Some(value), None) = (sides.next(), sides.next(), sides.next()) else { continue };
            match key.trim() {
                "q" => clause.quality = value.parse().unwrap_or_default(),
                key => clause.params.push((key, value.trim())),
            }
        }
        Some(clause)
    }

    fn covers(&self, (kind, subkind): (&str, &str)) -> bool {
        (self.kind, self.subkind) == ("*", "*")
            || self.kind == kind && (self.subkind == subkind || self.subkind == "*")
    }

    fn param(&self, name: &str) -> Option<&'a str> {
        self.params.iter().rev().find(|(key, _)| *key == name).map(|&(_, value)| value)
    }

    /// Returns the format of this clause in `media_type`, if the clause allows it.
    fn form(&self, media_type: (&str, &str), kind: &str, pretty: bool) -> Option<Form> {
        let asked = |name| self.param(name).is_some_and(|value| !value.is_empty());
        if asked("stream") || asked("sv") {
            return None;
        }
        let [name, group, version] = ["as", "g", "v"].map(|param| self.param(param));
        let converts = name.or(group).or(version).is_some();
        if media_type == ("text", "plain") {
            return (!converts).then_some(Form::Text);
        }
        let version = ["v1alpha1", "v1beta1"].into_iter().find(|known| version == Some(*known))?;
        let is_the_kind = name == Some(kind) && group == Some(GROUP);
        let pretty = self.param("pretty").map_or(pretty, |value| value == "1");
        is_the_kind.then_some(Form::Structured { version, yaml: media_type.1 == "yaml", pretty })
    }
}

/// Supported media types, in upstream's order.
const SUPPORTED: [(&str, &str); 3] = [("application", "json"), ("application", "yaml"), ("text", "plain")];

/// Returns the best format for `accept`, where `kind` names the structured kind; `None` if nothing acceptable
/// is supported. `pretty` indents JSON unless the header says otherwise.
pub(super) fn form(accept: &str, kind: &str, pretty: bool) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    clauses(accept).iter().find_map(|clause| {
        let mut covered = SUPPORTED.into_iter().filter(|media_type| clause.covers(*media_type));
        covered.find_map(|media_type| clause.form(media_type, kind, pretty))
    })
}

/// Whether a 406 response should be YAML rather than the default, JSON.
pub(super) fn is_refused_as_yaml(accept: &str) -> bool {
    let is_plain = |clause: &Clause<'_>| ["as", "g", "v"].iter().all(|param| clause.param(param).is_none());
    let mut plain = clauses(accept).into_iter().filter(is_plain);
    plain.find_map(|clause| SUPPORTED[..2].iter().find(|media_type| clause.covers(**media_type)).copied())
        == Some(SUPPORTED[1])
}

/// Returns the clauses by descending preference.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = accept.split(',').filter_map(Clause::read).collect();
    let wild = |clause: &Clause<'_>| (clause.kind == "*", clause.subkind == "*");
    clauses.sort_by(|a, b| {
        b.quality.partial_cmp(&a.quality).unwrap_or(Ordering::Equal).then_with(|| wild(a).cmp(&wild(b)))
    });
    clauses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(version: &'static str) -> Option<Form> {
        Some(Form::Structured { version, yaml: false, pretty: false })
    }

    #[test]
    fn text_is_the_default_format() {
        for accept in
            ["", " ", "text/plain", "text/*", "*/*", "*", "text/html, */*;q=0.8", "text/plain;q=0.1"]
        {
            assert_eq!(form(accept, "Statusz", false), Some(Form::Text), "{accept}");
        }
    }

    #[test]
    fn structured_kind_needs_group_version_and_kind() {
        let of = |accept: &str| form(accept, "Statusz", false);
        assert_eq!(of("application/json;as=Statusz;v=v1beta1;g=config.k8s.io"), json("v1beta1"));
        assert_eq!(of("application/json; g=config.k8s.io; v=v1alpha1; as=Statusz"), json("v1alpha1"));
        assert_eq!(of("application/*;as=Statusz;v=v1beta1;g=config.k8s.io"), json("v1beta1"));
        let yaml = Form::Structured { version: "v1beta1", yaml: true, pretty: false };
        assert_eq!(of("application/yaml;as=Statusz;v=v1beta1;g=config.k8s.io"), Some(yaml));
        assert_eq!(
            of("text/plain;q=0.5, application/json;as=Statusz;v=v1beta1;g=config.k8s.io"),
            json("v1beta1")
        );
    }

    #[test]
    fn unsupported_formats_are_not_acceptable() {
        for accept in [
            "application/json",
            "application/yaml",
            "text/html",
            "application/cbor",
            "application/json;as=Flagz;v=v1beta1;g=config.k8s.io",
            "application/json;as=Statusz;v=v2;g=config.k8s.io",
            "application/json;as=Statusz;v=v1beta1;g=",
            "text/plain;as=Statusz;v=v1beta1;g=config.k8s.io",
            "application/json;stream=watch;as=Statusz;v=v1beta1;g=config.k8s.io",
            "application/vnd.kubernetes.protobuf;as=Statusz;v=v1beta1;g=config.k8s.io",
        ] {
            assert_eq!(form(accept, "Statusz", false), None, "{accept}");
        }
    }

    #[test]
    fn refusal_is_yaml_only_if_yaml_was_requested() {
        assert!(is_refused_as_yaml("application/yaml"));
        assert!(is_refused_as_yaml("application/json;q=0.1, application/yaml"));
        for json in ["application/json", "text/html", "application/*", "application/yaml;as=Other"] {
            assert!(!is_refused_as_yaml(json), "{json}");
        }
    }
}
