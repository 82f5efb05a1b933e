//! The flags of `supercargo explain`. Others script against them: they are added to, not changed.

use crate::cli::cluster::SourceArgs;
use crate::cli::names::is_pod;
use crate::cli::simulate::{InputError, Output};
use clap::Args;

/// What is explained, of which cluster, and how it is told.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// What is asked about: `pod`, or `pod/NAME`.
    #[arg(value_name = "KIND[/NAME]", value_parser = Asked::parse)]
    pub asked: Asked,

    /// Its name, where it does not follow the kind.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// The pod's namespace; without it the kubeconfig's, or `default`.
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Where the cluster is.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Show what each plugin scored each node with, and what decided it.
    #[arg(long)]
    pub scores: bool,

    /// Form of the answer.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

impl ExplainArgs {
    /// The pod's name.
    pub(super) fn pod_name(&self) -> Result<&str, InputError> {
        match (&self.asked.name, &self.name) {
            (Some(name), None) | (None, Some(name)) if !name.is_empty() => Ok(name),
            _ => Err(InputError("write the pod's name once: pod NAME, or pod/NAME".to_owned())),
        }
    }
}

/// A pod, with or without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its name, where it stands behind the kind.
    name: Option<String>,
}

impl Asked {
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (text, None),
        };
        if !is_pod(kind) {
            return Err("only pods can be explained; write pod NAME, or pod/NAME".to_owned());
        }
        Ok(Self { name })
    }
}
