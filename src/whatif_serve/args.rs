//! Flags of `supercargo whatif serve`.

use clap::{Args, Subcommand};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use supercargo_cli::emulation::EmulationArgs;
use supercargo_cli::live::LiveArgs;
use supercargo_config::parse_duration;
use supercargo_whatif::server::Limits;

/// Arguments of `supercargo whatif`.
#[derive(Clone, Debug, Args)]
pub struct WhatifArgs {
    /// The action.
    #[command(subcommand)]
    pub command: WhatifCommand,
}

/// Commands about hypothetical clusters.
#[derive(Clone, Debug, Subcommand)]
pub enum WhatifCommand {
    /// Answer questions about hypothetical clusters over HTTPS, for programs.
    ///
    /// Snapshots of the live cluster or of uploaded objects are forked and changed in memory, and the scheduler's own
    /// decisions are returned as JSON. Users are authenticated and authorized by the API server. Changes nothing in the
    /// cluster. `/whatif/v1/openapi.json` describes the requests.
    ///
    /// Exit code: 0 stopped by a signal, 2 invalid flags or files, 1 any other failure, such as an API server that does
    /// not answer.
    Serve(ServeArgs),
}

/// Arguments of `supercargo whatif serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// IP address the HTTPS port listens on. 0.0.0.0 or :: listens on all addresses of both IP families.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,

    /// HTTPS port; 0 picks a free one.
    #[arg(long, value_name = "PORT", default_value_t = 10269)]
    pub secure_port: u16,

    /// File with the serving certificate (PEM); reloaded when it changes. Without it, a self-signed certificate is
    /// generated.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// File with the private key of the serving certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,

    /// File with the KubeSchedulerConfiguration that decides. Without it, the default plugins are used.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Answer about uploaded clusters only, and watch nothing.
    #[arg(long)]
    pub uploads_only: bool,

    /// Number of uploaded clusters of one user, and of all users, as `USER/ALL`.
    #[arg(long, value_name = "N/N", default_value = "2/4", value_parser = pair)]
    pub uploads: (usize, usize),

    /// Maximum size of an uploaded cluster in bytes, after decompression.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().upload_bytes)]
    pub upload_bytes: usize,

    /// Number of forks of one user, and of all users, as `USER/ALL`.
    #[arg(long, value_name = "N/N", default_value = "16/128", value_parser = pair)]
    pub forks: (usize, usize),

    /// Maximum size of a fork's changes in bytes, as they were sent.
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().fork_bytes)]
    pub fork_bytes: usize,

    /// Time after which an uploaded cluster or a fork expires if it is not asked about.
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = parse_duration)]
    pub idle: Duration,

    /// Time within which a request is answered, the wait for its turn included.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub deadline: Duration,

    /// Number of waiting requests of one user, and of all users, as `USER/ALL`.
    #[arg(long, value_name = "N/N", default_value = "16/256", value_parser = pair)]
    pub waiting: (usize, usize),

    /// Version of kube-scheduler to behave as.
    #[command(flatten)]
    pub emulation: EmulationArgs,

    /// Connection to the cluster.
    #[command(flatten)]
    pub live: LiveArgs,

    /// Log verbosity: 0 milestones and warnings, 6 everything.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub verbosity: u8,
}

/// Parses `USER/ALL`.
fn pair(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(user, all)| Some((user.parse().ok()?, all.parse().ok()?)));
    numbers.ok_or_else(|| format!("{text:?} is not a pair of numbers; use for example 2/4"))
}

impl ServeArgs {
    /// Returns the limits of users.
    pub(super) fn limits(&self) -> Limits {
        let (snapshots_per_user, snapshots) = self.uploads;
        let (forks_per_user, forks) = self.forks;
        let (waiting_per_user, waiting) = self.waiting;
        Limits {
            snapshots_per_user,
            snapshots,
            upload_bytes: self.upload_bytes,
            forks_per_user,
            forks,
            fork_bytes: self.fork_bytes,
            idle: self.idle,
            deadline: self.deadline,
            waiting_per_user,
            waiting,
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    #[test]
    fn default_flags_are_the_documented_limits() {
        let line = Line::try_parse_from(["serve"]).expect("no flag is needed");
        assert_eq!(line.serve.limits(), Limits::default());
        let wrong = Line::try_parse_from(["serve", "--forks=3"]).err().expect("it is no pair").to_string();
        assert!(wrong.contains("--forks") && wrong.contains("2/4"), "{wrong}");
    }
}
