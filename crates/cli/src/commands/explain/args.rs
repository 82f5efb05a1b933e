//! The flags of `supercargo explain`. Scripts depend on them: flags may be added but not changed.

use crate::cluster::SourceArgs;
use crate::names::is_pod;
use crate::screen::Output;
use clap::Args;
use supercargo_whatif::load::files::InputError;

/// Flags of `supercargo explain`: the pod, the cluster and the output format.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// The pod to explain: `pod NAME` or `pod/NAME`.
    #[arg(value_name = "KIND[/NAME]", value_parser = Target::parse)]
    pub target: Target,

    /// The pod's name, if not part of the first argument.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// Namespace of the pod; the default is the namespace of the kubeconfig context, or `default`.
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
    /// Returns the pod's name.
    ///
    /// # Errors
    /// Fails if the name is missing or given twice.
    pub fn pod_name(&self) -> Result<&str, InputError> {
        match (&self.target.name, &self.name) {
            (Some(name), None) | (None, Some(name)) if !name.is_empty() => Ok(name),
            _ => Err(InputError("expected the pod's name exactly once: pod NAME, or pod/NAME".to_owned())),
        }
    }
}

/// The first argument: the kind, with or without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name behind `pod/`, if any.
    name: Option<String>,
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        if !is_pod(kind) {
            return Err("only pods can be explained; expected pod NAME, or pod/NAME".to_owned());
        }
        Ok(Self { name })
    }
}
