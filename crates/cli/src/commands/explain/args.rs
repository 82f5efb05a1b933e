//! The flags of `supercargo explain`. Scripts depend on them: flags may be added but not changed.

use crate::cluster::SourceArgs;
use crate::names::{is_pod, is_pod_group};
use crate::screen::Output;
use clap::Args;
use supercargo_whatif::load::files::InputError;

/// Flags of `supercargo explain`: the pod or group, the cluster and the output format.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// What to explain: `pod NAME`, `pod/NAME`, `podgroup NAME` or `podgroup/NAME`.
    #[arg(value_name = "KIND[/NAME]", value_parser = Target::parse)]
    pub target: Target,

    /// The name, if not part of the first argument.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// Namespace of the pod or group; the default is the namespace of the kubeconfig context, or `default`.
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Where to read the cluster from.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Show the score of each plugin for each node, and what decided the choice.
    #[arg(long)]
    pub scores: bool,

    /// Output format.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

impl ExplainArgs {
    /// Returns the name of the pod or group.
    ///
    /// # Errors
    /// Fails if the name is missing or given twice.
    pub fn name(&self) -> Result<&str, InputError> {
        match (&self.target.name, &self.name) {
            (Some(name), None) | (None, Some(name)) if !name.is_empty() => Ok(name),
            _ => Err(InputError(format!(
                "expected the {0}'s name exactly once: {0} NAME, or {0}/NAME",
                self.target.kind.as_str()
            ))),
        }
    }
}

/// The first argument: the kind, with or without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind.
    pub kind: TargetKind,
    /// The name behind `pod/` or `podgroup/`, if any.
    name: Option<String>,
}

/// What can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A pod.
    Pod,
    /// A PodGroup.
    PodGroup,
}

impl TargetKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::PodGroup => "podgroup",
        }
    }
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        let kind = match kind {
            _ if is_pod(kind) => TargetKind::Pod,
            _ if is_pod_group(kind) => TargetKind::PodGroup,
            _ => {
                let text = "only pods and pod groups can be explained; expected pod NAME, pod/NAME, or podgroup/NAME";
                return Err(text.to_owned());
            }
        };
        Ok(Self { kind, name })
    }
}
