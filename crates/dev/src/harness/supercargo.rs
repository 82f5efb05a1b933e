//! supercargo beside a control plane: installed from the manifests, and run as a process with its ServiceAccount's
//! permissions.
//!
//! The manifests are applied unchanged. The Deployment's pod is placed and reported as Running, but kwok executes
//! nothing. The scheduler is this build's binary with the pod's flags and configuration, and a token file as the
//! kubelet provides it. RBAC is on, so a permission missing in `manifests/` is missing here.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;

use super::binaries::target_dir;
use super::http;
use super::objects::TokenFile;
use super::pki::write_private;
use super::ports::Port;
use super::process::{Process, Program, log_tail};
use super::wait::wait_for;
use super::{Access, ControlPlane};

/// The manifests' namespace.
pub const NAMESPACE: &str = "kube-system";

/// Name of all objects in the manifests, and of the scheduler.
pub const NAME: &str = "supercargo";

/// Timeouts for readiness after the start, and for the end after SIGTERM.
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(30);

/// Roles in `manifests/base` that are bound to its ServiceAccount.
pub const ROLES: [&str; 3] = ["supercargo-read", "supercargo-act", "supercargo-serve-auth"];

/// Applies `manifests/base`.
pub async fn install(plane: &ControlPlane) -> Result<()> {
    // The strictest pod security standard; the manifests must comply.
    let standard = "pod-security.kubernetes.io/enforce=restricted";
    plane.admin().kubectl(&["label", "namespace", NAMESPACE, standard, "--overwrite"]).await?;
    let base = crate::root().join("manifests/base");
    plane.admin().kubectl(&["apply", "-k", &base.display().to_string()]).await?;
    Ok(())
}

/// Waits until kube-scheduler has placed the Deployment's pod and it is Running.
pub async fn wait_for_the_deployment(plane: &ControlPlane) -> Result<()> {
    let deployment = format!("deployment/{NAME}");
    plane.admin().kubectl(&["rollout", "status", &deployment, "-n", NAMESPACE, "--timeout=60s"]).await?;
    Ok(())
}

/// Grants a ServiceAccount the permissions of the installed one.
pub async fn grant(admin: &Access, namespace: &str, account: &str) -> Result<()> {
    for role in ROLES {
        let (name, role) = (binding(namespace, role), format!("--clusterrole={role}"));
        let account = format!("--serviceaccount={namespace}:{account}");
        admin.kubectl(&["create", "clusterrolebinding", &name, &role, &account]).await?;
    }
    Ok(())
}

/// Revokes the permissions that [`grant`] gave.
pub async fn revoke(admin: &Access, namespace: &str) -> Result<()> {
    let names = ROLES.map(|role| binding(namespace, role));
    let mut args = vec!["delete", "clusterrolebinding", "--ignore-not-found"];
    args.extend(names.iter().map(String::as_str));
    admin.kubectl(&args).await?;
    Ok(())
}

fn binding(namespace: &str, role: &str) -> String {
    format!("{namespace}-{role}")
}

/// Returns a configuration that differs from the installed one only in the scheduler's name.
pub fn configuration(scheduler: &str) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         leaderElection:\n  leaderElect: false\nprofiles:\n- schedulerName: {scheduler}\n"
    )
}

/// Lease duration, renew deadline and retry period of tests. Shorter than the defaults, so that failovers are quick;
/// long enough that a leader on a busy machine keeps its lease.
pub const LEASE_TERMS: (&str, &str, &str) = ("8s", "6s", "500ms");

/// Returns the same for one of several replicas, with a lease in the namespace of this name and with [`LEASE_TERMS`].
pub fn elected_configuration(scheduler: &str) -> String {
    elected_configuration_with(scheduler, LEASE_TERMS)
}

/// As [`elected_configuration`], with other terms of the lease.
pub fn elected_configuration_with(scheduler: &str, (lease, renew, retry): (&str, &str, &str)) -> String {
    let election = format!(
        "  leaderElect: true\n  leaseDuration: {lease}\n  renewDeadline: {renew}\n  retryPeriod: {retry}\n  \
         resourceName: {scheduler}\n  resourceNamespace: {scheduler}\n"
    );
    configuration(scheduler).replace("  leaderElect: false\n", &election)
}

/// Returns the path of this build's binary.
pub fn binary() -> Result<PathBuf> {
    // Tests and benchmarks run in `deps`, below the folder of the binaries.
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join(NAME)).find(|path| path.is_file());
    let found = beside.unwrap_or_else(|| target_dir().join("debug").join(NAME));
    ensure!(
        found.is_file(),
        "supercargo is not built: {} is missing; run `make build` first",
        found.display()
    );
    Ok(found)
}

/// Options of a supercargo to start.
pub struct Setup {
    /// Name of the process, its log and its files.
    pub name: String,
    /// Another program than this build's.
    pub program: Option<PathBuf>,
    /// Namespace and name of its ServiceAccount.
    pub namespace: String,
    pub account: String,
    /// Content of `--config`.
    pub configuration: String,
    /// Preferred HTTPS port; any free port otherwise.
    pub port: Option<u16>,
    /// Address of the API server, if not the control plane's own.
    pub server: Option<String>,
    /// Validity of its token, in Go's duration format; one hour by default. Nothing renews it after the harness has
    /// ended.
    pub token_duration: Option<String>,
    /// Additional flags.
    pub args: Vec<String>,
    /// Destination of stderr instead of the log file.
    pub stderr: Option<OwnedFd>,
    /// Additional environment variables.
    pub env: Vec<(&'static str, String)>,
}

impl Setup {
    /// Returns the ServiceAccount and configuration of the installed Deployment.
    pub async fn installed(plane: &ControlPlane) -> Result<Self> {
        let jsonpath = r"jsonpath={.data.config\.yaml}";
        let get = ["get", "configmap", "supercargo-config", "-n", NAMESPACE, "-o", jsonpath];
        Ok(Self {
            name: NAME.to_owned(),
            program: None,
            namespace: NAMESPACE.to_owned(),
            account: NAME.to_owned(),
            configuration: plane.admin().kubectl(&get).await?,
            port: None,
            server: None,
            token_duration: None,
            args: vec![String::from("--v=2")],
            stderr: None,
            env: Vec::new(),
        })
    }

    /// Returns a scheduler named `namespace`, with the ServiceAccount `supercargo` of that namespace.
    pub fn called(namespace: &str) -> Self {
        Self {
            name: format!("{NAME}-{namespace}"),
            program: None,
            namespace: namespace.to_owned(),
            account: NAME.to_owned(),
            configuration: configuration(namespace),
            port: None,
            server: None,
            token_duration: None,
            args: vec![String::from("--v=2")],
            stderr: None,
            env: Vec::new(),
        }
    }

    /// Starts it without waiting for readiness.
    pub async fn launch(self, plane: &ControlPlane) -> Result<Supercargo> {
        let (mut access, token) = plane.service_account(&self.namespace, &self.account).await?;
        if let Some(server) = &self.server {
            let path = plane.folder().join(format!("{}.kubeconfig", self.name));
            let credential = super::access::Credential::TokenFile(token.path());
            access = Access::write(&path, server, &plane.ca(), &credential)?;
        }
        if let Some(duration) = &self.token_duration {
            let duration = format!("--duration={duration}");
            let create = ["create", "token", &self.account, "-n", &self.namespace, &duration];
            token.replace(plane.admin().kubectl(&create).await?.trim())?;
        }
        let config = plane.folder().join(format!("{}.yaml", self.name));
        write_private(&config, &self.configuration)?;
        let (number, port) = self.port()?;
        let path = self.program.map_or_else(binary, Ok)?;
        let program = Program::new(self.name, path)
            .arg(format!("--kubeconfig={}", access.kubeconfig().display()))
            .arg(format!("--config={}", config.display()))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={number}"))
            .args(self.args)
            .stderr(self.stderr);
        let program = self.env.into_iter().fold(program, |program, (name, value)| program.env(name, value));
        let process = plane.launch(&program)?;
        Ok(Supercargo { process, program, number, _port: port, token, forgiven: 0 })
    }

    fn port(&self) -> Result<(u16, Option<Port>)> {
        if let Some(wanted) = self.port
            && std::net::TcpListener::bind(("127.0.0.1", wanted)).is_ok()
        {
            return Ok((wanted, None));
        }
        let port = Port::reserve()?;
        Ok((port.number(), Some(port)))
    }
}

/// A running supercargo. Dropping it stops it.
pub struct Supercargo {
    process: Process,
    program: Program,
    number: u16,
    _port: Option<Port>,
    token: TokenFile,
    /// Log offset from which denied requests count.
    forgiven: usize,
}

impl Supercargo {
    /// Returns its HTTPS port.
    pub fn port(&self) -> u16 {
        self.number
    }

    /// Returns its token file.
    pub fn token(&self) -> &TokenFile {
        &self.token
    }

    /// Returns its process ID.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until it ends.
    pub fn end(&mut self) -> Result<ExitStatus> {
        self.process.wait(END)
    }

    /// Returns its process, for the caller to stop or detach.
    pub fn into_process(self) -> Process {
        self.process
    }

    /// Requests a path of its HTTPS port.
    pub async fn get(&self, path: &str, token: Option<&str>) -> Result<(u16, String)> {
        http::get(&format!("https://127.0.0.1:{}{path}", self.number), token).await
    }

    /// Waits until `/readyz` succeeds. On failure, the error has the end of its log.
    pub async fn wait_until_ready(&mut self) -> Result<()> {
        let url = format!("https://127.0.0.1:{}/readyz", self.number);
        let process = &mut self.process;
        let outcome = wait_for("supercargo to be ready", START, || {
            let ended = process.ended();
            let url = url.clone();
            async move {
                if let Some(how) = ended? {
                    return Ok(Err(how));
                }
                let (status, body) = http::get(&url, None).await?;
                ensure!(status == 200, "{url} answers {status}: {}", body.trim());
                Ok(Ok(()))
            }
        });
        match outcome.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(how)) => bail!("supercargo ended before it was ready ({how}); {}", self.log_tail()),
            Err(error) => bail!("{error:#}; {}", self.log_tail()),
        }
    }

    /// Kills it, as in a crash.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.process.kill()
    }

    /// Sends SIGTERM, as the kubelet does, and waits for its end.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.process.signal(Signal::SIGTERM)?;
        self.process.wait(END)
    }

    /// Suspends it, as on a hanging machine.
    pub fn pause(&mut self) -> Result<()> {
        self.process.pause()
    }

    /// Resumes it.
    pub fn resume(&mut self) -> Result<()> {
        self.process.resume()
    }

    /// Sends it a signal.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Restarts it with the same flags after it has ended.
    pub fn start_again(&mut self, plane: &ControlPlane) -> Result<()> {
        self.process = plane.launch(&self.program)?;
        Ok(())
    }

    /// Fails if it has ended unexpectedly; the error has the end of its log.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Returns its whole log, across restarts.
    pub fn log(&self) -> Result<String> {
        let path = self.process.log();
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Returns the end of its log with a heading.
    pub fn log_tail(&self) -> String {
        self.process.log_tail(40)
    }

    /// Returns the ends of the logs beside its own whose file names contain `part`, with headings.
    ///
    /// # Errors
    /// Returns an error if the folder of its log cannot be read.
    pub fn log_tails_beside(&self, part: &str) -> Result<String> {
        let folder = self.process.log().parent().context("a log is in a folder")?;
        let read = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut paths = read.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        let is_named =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(part));
        paths.retain(|path| path != self.process.log() && is_named(path));
        paths.sort();
        Ok(paths.iter().map(|path| log_tail(path, 40) + "\n").collect())
    }

    /// Ignores denied requests so far: an API server that is starting has no roles yet and denies everything.
    pub fn forgive_refusals(&mut self) -> Result<()> {
        self.forgiven = self.log()?.len();
        Ok(())
    }

    /// Fails if the API server has denied a request for lack of permissions, with the log lines.
    pub fn check_rights(&self) -> Result<()> {
        let log = self.log()?;
        // A terminating namespace accepts no new events from anyone.
        let is_refusal = |line: &&str| {
            let line = line.to_ascii_lowercase();
            line.contains("forbidden") && !line.contains("being terminated")
        };
        let refused: Vec<&str> = log[self.forgiven..].lines().filter(is_refusal).take(5).collect();
        ensure!(refused.is_empty(), "a permission is missing in manifests/:\n{}", refused.join("\n"));
        Ok(())
    }
}
