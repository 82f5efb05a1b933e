//! Pages besides health and metrics: `/statusz`, `/flagz`, `/configz`, `/metrics/resources` and `/debug/...`.
//!
//! Structure and formats are upstream's (`apiserver/pkg/server/{statusz,flagz}`, `component-base/configz`). A
//! page calls its source on each request; nothing is cached. [`super::Gate`] controls access.

use super::negotiate::{Form, form};
use super::pods::PodSources;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use supercargo_config::flags::gates;
use supercargo_core::model::emulation::EmulatedVersion;

/// Component name on these pages.
const COMPONENT: &str = "supercargo";

/// Separator in text pages. Upstream picks a random one per response, to discourage parsing.
const DELIMITER: &str = ":";

/// Produces the content of a page; `None` if it is temporarily unavailable.
type Source = Box<dyn Fn() -> BoxFuture<'static, Option<String>> + Send + Sync>;
/// Sets the log verbosity.
type SetVerbosity = Box<dyn Fn(u8) -> Result<(), String> + Send + Sync>;

/// Sources of the pages.
#[derive(Default)]
pub struct Pages {
    resources: Option<Source>,
    config: Option<Source>,
    flags: BTreeMap<String, String>,
    /// By full path, which starts with `/debug/`.
    debug: Vec<(&'static str, Source)>,
    set_verbosity: Option<SetVerbosity>,
    pods: Option<PodSources>,
    emulated: Option<Box<dyn Fn() -> EmulatedVersion + Send + Sync>>,
    /// Values of `--feature-gates`.
    gates: Vec<String>,
}

fn source<F>(text: impl Fn() -> F + Send + Sync + 'static) -> Source
where
    F: Future<Output = Option<String>> + Send + 'static,
{
    Box::new(move || text().boxed())
}

impl Pages {
    /// Adds `/metrics/resources`.
    #[must_use]
    pub fn with_resources<F>(mut self, text: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        self.resources = Some(source(text));
        self
    }

    /// Sets the version of kube-scheduler that `/statusz` reports. With the values of `--feature-gates`, it decides
    /// whether `/statusz` and `/flagz` exist.
    #[must_use]
    pub fn with_emulated_version(
        mut self,
        version: impl Fn() -> EmulatedVersion + Send + Sync + 'static,
        gates: &[String],
    ) -> Self {
        self.emulated = Some(Box::new(version));
        self.gates = gates.to_vec();
        self
    }

    fn emulated(&self) -> EmulatedVersion {
        self.emulated.as_ref().map_or(EmulatedVersion::NEWEST, |version| version())
    }

    fn has_gate(&self, name: &str) -> bool {
        gates::is_on(&self.gates, name, Some(self.emulated()))
    }

    /// Whether there is `/statusz`.
    pub(super) fn has_status(&self) -> bool {
        self.has_gate("ComponentStatusz")
    }

    /// Whether there is `/flagz`.
    pub(super) fn has_flags(&self) -> bool {
        self.has_gate("ComponentFlagz")
    }

    /// Adds `/configz`: the active configuration as JSON, without secrets.
    #[must_use]
    pub fn with_config(mut self, json: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        self.config = Some(Box::new(move || {
            let text = json!({"componentconfig": json()}).to_string();
            std::future::ready(Some(text)).boxed()
        }));
        self
    }

    /// Adds `/flagz`: flag values by name, without secrets.
    #[must_use]
    pub fn with_flags(mut self, flags: BTreeMap<String, String>) -> Self {
        self.flags = flags;
        self
    }

    /// Adds a text page at `path`, which starts with `/debug/`.
    #[must_use]
    pub fn with_debug<F>(mut self, path: &'static str, text: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        self.debug.push((path, source(text)));
        self
    }

    /// Adds the pages about pods, which need the permission to read the pods.
    #[must_use]
    pub fn with_pods(mut self, pods: PodSources) -> Self {
        self.pods = Some(pods);
        self
    }

    /// Returns the sources of the pages about pods, if configured.
    pub(super) fn pods(&self) -> Option<&PodSources> {
        self.pods.as_ref()
    }

    /// Adds `PUT /debug/flags/v`.
    #[must_use]
    pub fn with_verbosity(mut self, set: impl Fn(u8) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.set_verbosity = Some(Box::new(set));
        self
    }

    /// Returns `/metrics/resources`; `None` if not configured, `Some(None)` if temporarily unavailable.
    pub(super) async fn resources(&self) -> Option<Option<String>> {
        Some(self.resources.as_ref()?().await)
    }

    /// Returns `/configz`, if configured.
    pub(super) async fn config(&self) -> Option<String> {
        self.config.as_ref()?().await
    }

    /// Returns a page below `/debug/`; `None` if there is none, `Some(None)` if it is temporarily
    /// unavailable.
    pub(super) async fn debug(&self, path: &str) -> Option<Option<String>> {
        let (_, source) = self.debug.iter().find(|(known, _)| *known == path)?;
        Some(source().await)
    }

    /// Sets the log verbosity to the number in `body`. Returns upstream's message
    /// (`apiserver/pkg/server/routes/flags.go`), or `None` if not configured.
    pub(super) fn set_verbosity(&self, body: &[u8]) -> Option<Result<String, String>> {
        let set = self.set_verbosity.as_ref()?;
        let text = String::from_utf8_lossy(body);
        let syntax = || format!("strconv.ParseUint: parsing {text:?}: invalid syntax\n");
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let outcome = if digits { Ok(text.parse().unwrap_or(u8::MAX)) } else { Err(syntax()) };
        Some(outcome.and_then(|level| {
            set(level).map_err(|error| format!("{error}\n"))?;
            Ok(format!("successfully set klog.logging.verbosity to {text}\n"))
        }))
    }

    /// Whether [`Self::set_verbosity`] is configured.
    pub(super) fn sets_verbosity(&self) -> bool {
        self.set_verbosity.is_some()
    }

    /// Builds `/statusz`.
    pub(super) fn status(&self, now: Timestamp) -> Zpage {
        let started = started();
        let up = now.duration_since(started).as_secs().max(0);
        let paths = self.paths();
        let emulated = self.emulated();
        let (go, version) = ("none (Rust)", env!("CARGO_PKG_VERSION"));
        let moment =
            started.to_zoned(jiff::tz::TimeZone::UTC).strftime("%a %b %e %H:%M:%S %Z %Y").to_string();
        let up_text = format!("{} hr {:02} min {:02} sec", up / 3600, up / 60 % 60, up % 60);
        let joined = paths.join(" ");
        let rows = [
            ("Started", moment.as_str()),
            ("Up", &up_text),
            ("Go version", go),
            ("Binary version", version),
            ("Emulation version", emulated.as_str()),
            ("Paths", &joined),
        ];
        let mut text = String::from("\n");
        for (name, value) in rows {
            let _ = writeln!(text, "{name}{DELIMITER} {value}");
        }
        let content = json!({
            "startTime": format!("{started:.0}"),
            "uptimeSeconds": up,
            "goVersion": go,
            "binaryVersion": version,
            "emulationVersion": emulated.as_str(),
            "paths": paths,
        });
        Zpage { kind: "Statusz", text, content }
    }

    /// Builds `/flagz`.
    pub(super) fn flags(&self) -> Zpage {
        let text = self.flags.iter().fold(String::new(), |mut text, (flag, value)| {
            let _ = writeln!(text, "{flag}{DELIMITER}{value}");
            text
        });
        Zpage { kind: "Flagz", text, content: json!({"flags": self.flags}) }
    }

    /// Returns the first segments of all served paths, sorted.
    fn paths(&self) -> Vec<&'static str> {
        let debugs = self.sets_verbosity() || !self.debug.is_empty();
        let optional = [("/debug", debugs), ("/flagz", self.has_flags())];
        let optional = optional.into_iter().filter_map(|(path, exists)| exists.then_some(path));
        ["/configz"]
            .into_iter()
            .chain(optional)
            .chain(["/healthz", "/livez", "/metrics", "/readyz"])
            .collect()
    }
}

fn started() -> Timestamp {
    let seconds = crate::telemetry::metrics::start_time_seconds().unwrap_or_default();
    // Whole seconds, as in API timestamps.
    Timestamp::from_second(seconds as i64).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A page with a text format and a structured format.
pub(super) struct Zpage {
    kind: &'static str,
    text: String,
    content: Value,
}

/// A page in its negotiated format.
pub(super) struct Written {
    pub(super) content_type: String,
    pub(super) body: String,
    /// `Warning` header for a deprecated version.
    pub(super) warning: Option<String>,
}

impl Zpage {
    /// Renders the page for `accept`; `None` if no requested format is supported. `pretty` indents JSON by
    /// default.
    pub(super) fn write(self, accept: &str, pretty: bool) -> Option<Written> {
        let name = self.kind.to_lowercase();
        let Form::Structured { version, yaml, pretty } = form(accept, self.kind, pretty)? else {
            let warning = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees \
                           and is for debugging purposes only.";
            let body = format!("\n{COMPONENT} {name}\n{warning}\n{}", self.text);
            return Some(Written {
                content_type: "text/plain; charset=utf-8".to_owned(),
                body,
                warning: None,
            });
        };
        let mut object = json!({
            "kind": self.kind,
            "apiVersion": format!("config.k8s.io/{version}"),
            "metadata": {"name": COMPONENT},
        });
        if let (Value::Object(object), Value::Object(content)) = (&mut object, self.content) {
            object.extend(content);
        }
        let body = if yaml {
            serde_saphyr::to_string(&object).expect("JSON is YAML")
        } else if pretty {
            serde_json::to_string_pretty(&object).expect("a value is JSON")
        } else {
            object.to_string() + "\n"
        };
        let warning = (version == "v1alpha1").then(|| {
            format!(
                "299 - \"This version of the {name} endpoint is deprecated. Please use a newer version.\""
            )
        });
        let media_type = if yaml { "application/yaml" } else { "application/json" };
        let content_type = format!("{media_type};g=config.k8s.io;v={version};as={}", self.kind);
        Some(Written { content_type, body, warning })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statusz_and_flagz_exist_if_the_versions_gates_are_on() {
        let pages = |version, gates: &[&str]| {
            let gates: Vec<String> = gates.iter().map(|gate| (*gate).to_owned()).collect();
            let pages = Pages::default().with_emulated_version(move || version, &gates);
            (pages.has_status(), pages.has_flags(), pages.paths().contains(&"/flagz"))
        };
        assert_eq!(pages(EmulatedVersion::V1_35, &[]), (false, false, false));
        assert_eq!(pages(EmulatedVersion::V1_35, &["ComponentFlagz=true"]), (false, true, true));
        assert_eq!(pages(EmulatedVersion::V1_36, &[]), (true, true, true));
        assert_eq!(pages(EmulatedVersion::V1_37, &["ComponentStatusz=false"]), (false, true, true));
    }
}
