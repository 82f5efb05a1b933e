//! Where the API server is and who we are to it.

use crate::args::Args;
use crate::config::Settings;
use anyhow::{Context as _, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::time::Duration;

/// How long a connection to the API server may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The connection's settings: the flag's kubeconfig, the file's, the pod's ServiceAccount, or what kubectl would use.
///
/// Token files are read again as they rotate; that is the client library's doing.
///
/// # Errors
/// When none of them can be read, with what was tried.
pub async fn connection(args: &Args, settings: &Settings) -> Result<kube::Config> {
    let path = args.kubeconfig.as_ref().or(settings.kubeconfig.as_ref());
    let mut config = match path {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("the kubeconfig {} is not usable", path.display()))?
        }
        None => kube::Config::infer().await.context(
            "no --kubeconfig is given, this is no pod of a cluster, and there is no default kubeconfig",
        )?,
    };
    if let Some(master) = &args.master {
        config.cluster_url = master.parse().with_context(|| format!("--master {master} is no URL"))?;
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Whether a request may be sent again depends on what it is; a Binding must not be.
    config.default_retry = false;
    Ok(config)
}
