//! The flags of `supercargo explain`. Scripts depend on them: flags may be added but not changed.

use crate::cluster::SourceArgs;
use crate::live::candidates;
use crate::names::{is_pod, is_pod_group, workload_kind};
use crate::screen::Output;
use crate::watching::WatchArgs;
use clap::Args;
use clap_complete::ArgValueCompleter;
use supercargo_whatif::load::files::InputError;

/// Flags of `supercargo explain`: what to explain, the cluster and the output format.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// What to explain: `pod NAME`, `pod/NAME`, `podgroup NAME`, or a workload such as `deploy/NAME`, of which a
    /// pending pod is explained if there is one.
    #[arg(value_name = "KIND[/NAME]", value_parser = Target::parse, add = ArgValueCompleter::new(candidates::targets))]
    pub target: Target,

    /// The name, if not part of the first argument.
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(candidates::names_of_kind))]
    pub name: Option<String>,

    /// The other flags.
    #[command(flatten)]
    pub flags: ExplainFlags,
}

/// Flags of `supercargo why`, the short form of `explain`.
#[derive(Clone, Debug, Args)]
pub struct WhyArgs {
    /// The pod, or anything that `explain` takes as `KIND/NAME`.
    #[arg(value_name = "POD|KIND/NAME", value_parser = Target::of_pod, add = ArgValueCompleter::new(candidates::pods_and_targets))]
    target: Target,

    /// The other flags.
    #[command(flatten)]
    flags: ExplainFlags,
}

impl WhyArgs {
    /// Returns the same question as arguments of `explain`.
    pub fn explain(self) -> ExplainArgs {
        ExplainArgs { target: self.target, name: None, flags: self.flags }
    }
}

/// What `explain` and `why` have in common.
#[derive(Clone, Debug, Args)]
pub struct ExplainFlags {
    /// Namespace of the pod, group or workload; the default is the namespace of the kubeconfig context, or `default`.
    #[arg(short = 'n', long, value_name = "NAMESPACE", add = ArgValueCompleter::new(candidates::namespaces))]
    pub namespace: Option<String>,

    /// Where to read the cluster from.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Show the score of each plugin for each node, and what decided the choice.
    #[arg(long)]
    pub scores: bool,

    /// Whether to go on.
    #[command(flatten)]
    pub watch: WatchArgs,

    /// Output format.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

impl ExplainArgs {
    /// Returns the name of the pod, group or workload.
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
    /// The name behind the kind, if any.
    name: Option<String>,
}

/// What can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A pod.
    Pod,
    /// A PodGroup.
    PodGroup,
    /// The pods of a workload of this kind.
    Workload(&'static str),
}

impl TargetKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::PodGroup => "podgroup",
            Self::Workload(kind) => kind,
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
            _ => match workload_kind(kind) {
                Some(kind) => TargetKind::Workload(kind),
                None => {
                    let text = "only pods, pod groups and workloads can be explained; expected pod NAME, pod/NAME, \
                                podgroup/NAME, or for example deploy/NAME";
                    return Err(text.to_owned());
                }
            },
        };
        Ok(Self { kind, name })
    }

    /// Parses the name of a pod, or `KIND/NAME`.
    fn of_pod(text: &str) -> Result<Self, String> {
        match text.contains('/') {
            true => Self::parse(text),
            false => Ok(Self { kind: TargetKind::Pod, name: Some(text.to_owned()) }),
        }
    }
}
