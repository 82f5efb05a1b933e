//! Pages beside health and metrics: what runs here (`/statusz`), with which flags (`/flagz`) and configuration (`/configz`), and what
//! the engine holds (`/debug/...`).
//!
//! Shapes and forms are upstream's (`apiserver/pkg/server/{statusz,flagz}`, `component-base/configz`). Whoever has the content gives
//! it when it is asked for; nothing is kept here, and who may ask is the gate's business.

use super::negotiate::{Form, form};
use super::pods::PodSources;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;

/// The component of these pages.
const COMPONENT: &str = "supercargo";

/// Upstream draws one for each answer, so that nobody parses the text; here it is always this one.
const DELIMITER: &str = ":";

/// Gives the text of a page, if it can.
type Source = Box<dyn Fn() -> BoxFuture<'static, Option<String>> + Send + Sync>;
/// Sets how much is logged.
type SetVerbosity = Box<dyn Fn(u8) -> Result<(), String> + Send + Sync>;

/// What the pages show.
#[derive(Default)]
pub struct Pages {
    resources: Option<Source>,
    config: Option<Source>,
    flags: BTreeMap<String, String>,
    /// By path, below `/debug/`.
    debug: Vec<(&'static str, Source)>,
    set_verbosity: Option<SetVerbosity>,
    pods: Option<PodSources>,
}

fn source<F>(text: impl Fn() -> F + Send + Sync + 'static) -> Source
where
    F: Future<Output = Option<String>> + Send + 'static,
{
    Box::new(move || text().boxed())
}

impl Pages {
    /// `/metrics/resources`.
    #[must_use]
    pub fn with_resources<F>(mut self, text: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        self.resources = Some(source(text));
        self
    }

    /// `/configz`: the configuration in force as JSON, without secrets.
    #[must_use]
    pub fn with_config(mut self, json: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        self.config = Some(Box::new(move || {
            let text = json!({"componentconfig": json()}).to_string();
            std::future::ready(Some(text)).boxed()
        }));
        self
    }

    /// `/flagz`: values by the names of flags, without secrets.
    #[must_use]
    pub fn with_flags(mut self, flags: BTreeMap<String, String>) -> Self {
        self.flags = flags;
        self
    }

    /// A text at this path, which begins with `/debug/`.
    #[must_use]
    pub fn with_debug<F>(mut self, path: &'static str, text: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<String>> + Send + 'static,
    {
        self.debug.push((path, source(text)));
        self
    }

    /// What is told of pods to those who may read them.
    #[must_use]
    pub fn with_pods(mut self, pods: PodSources) -> Self {
        self.pods = Some(pods);
        self
    }

    /// What is told of pods to those who may read them, if anything is.
    pub(super) fn pods(&self) -> Option<&PodSources> {
        self.pods.as_ref()
    }

    /// `PUT /debug/flags/v`.
    #[must_use]
    pub fn with_verbosity(mut self, set: impl Fn(u8) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.set_verbosity = Some(Box::new(set));
        self
    }

    /// `/metrics/resources`, if it is there; `Some(None)` where it cannot be had now.
    pub(super) async fn resources(&self) -> Option<Option<String>> {
        Some(self.resources.as_ref()?().await)
    }

    /// `/configz`, if it is there.
    pub(super) async fn config(&self) -> Option<String> {
        self.config.as_ref()?().await
    }

    /// A page below `/debug/`, if it is there; `Some(None)` where it cannot be had now.
    pub(super) async fn debug(&self, path: &str) -> Option<Option<String>> {
        let (_, source) = self.debug.iter().find(|(known, _)| *known == path)?;
        Some(source().await)
    }

    /// Sets how much is logged, as the body says; code and text of the answer, in the words of upstream
    /// (`apiserver/pkg/server/routes/flags.go`). `None` where it cannot be set.
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

    /// Whether [`Self::set_verbosity`] does anything.
    pub(super) fn sets_verbosity(&self) -> bool {
        self.set_verbosity.is_some()
    }

    /// `/statusz`.
    pub(super) fn status(&self, now: Timestamp) -> Zpage {
        let started = started();
        let up = now.duration_since(started).as_secs().max(0);
        let paths = self.paths();
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
            ("Emulation version", EMULATED),
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
            "emulationVersion": EMULATED,
            "paths": paths,
        });
        Zpage { kind: "Statusz", text, content }
    }

    /// `/flagz`.
    pub(super) fn flags(&self) -> Zpage {
        let text = self.flags.iter().fold(String::new(), |mut text, (flag, value)| {
            let _ = writeln!(text, "{flag}{DELIMITER}{value}");
            text
        });
        Zpage { kind: "Flagz", text, content: json!({"flags": self.flags}) }
    }

    /// The first parts of all paths, in order.
    fn paths(&self) -> Vec<&'static str> {
        let mut paths = vec!["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"];
        if self.sets_verbosity() || !self.debug.is_empty() {
            paths.insert(1, "/debug");
        }
        paths
    }
}

/// The version of kube-scheduler whose decisions these are.
const EMULATED: &str = "1.36";

fn started() -> Timestamp {
    let seconds = crate::metrics::start_time_seconds().unwrap_or_default();
    // Whole seconds, as the API writes times.
    Timestamp::from_second(seconds as i64).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A page that is text for people, and a kind for programs.
pub(super) struct Zpage {
    kind: &'static str,
    text: String,
    content: Value,
}

/// A page in the form that was asked for.
pub(super) struct Written {
    pub(super) content_type: String,
    pub(super) body: String,
    /// Of a version that is on its way out.
    pub(super) warning: Option<String>,
}

impl Zpage {
    /// The page as `accept` wants it; `None` where it cannot be had so. `pretty` is for clients that are people.
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
