//! supercargo beside a control plane: installed as an operator would, and run as a process with the rights of its ServiceAccount.
//!
//! The manifests are applied as they are, and the pod of their Deployment is placed and shown Running; nothing executes in it. What
//! schedules is the binary of this build, with the flags and the configuration that pod would have, the ServiceAccount's token in a file as
//! the kubelet keeps it, and RBAC on: a right that is missing in `manifests/` is missing here.

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
use super::process::{Process, Program};
use super::wait::wait_for;
use super::{Access, ControlPlane};

/// The namespace of the manifests.
pub(crate) const NAMESPACE: &str = "kube-system";

/// The name of everything in the manifests, and of the scheduler that pods name.
pub(crate) const NAME: &str = "supercargo";

/// How long it may take from its start until it is ready, and from SIGTERM until it is gone.
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(30);

/// The roles of `manifests/base` that its ServiceAccount has.
pub(crate) const ROLES: [&str; 3] = ["supercargo-read", "supercargo-act", "supercargo-serve-auth"];

/// Applies `manifests/base`.
pub(crate) async fn install(plane: &ControlPlane) -> Result<()> {
    // The strictest pod standard there is: what the manifests ask for must fit into it.
    let standard = "pod-security.kubernetes.io/enforce=restricted";
    plane.admin().kubectl(&["label", "namespace", NAMESPACE, standard, "--overwrite"]).await?;
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/base");
    plane.admin().kubectl(&["apply", "-k", &base.display().to_string()]).await?;
    Ok(())
}

/// Waits until kube-scheduler has placed the Deployment's pod and kwok shows it Running.
pub(crate) async fn wait_for_the_deployment(plane: &ControlPlane) -> Result<()> {
    let deployment = format!("deployment/{NAME}");
    plane.admin().kubectl(&["rollout", "status", &deployment, "-n", NAMESPACE, "--timeout=60s"]).await?;
    Ok(())
}

/// Gives a ServiceAccount the rights of the installed one.
pub(crate) async fn grant(admin: &Access, namespace: &str, account: &str) -> Result<()> {
    for role in ROLES {
        let (name, role) = (binding(namespace, role), format!("--clusterrole={role}"));
        let account = format!("--serviceaccount={namespace}:{account}");
        admin.kubectl(&["create", "clusterrolebinding", &name, &role, &account]).await?;
    }
    Ok(())
}

/// Takes the rights away that [`grant`] gave.
pub(crate) async fn revoke(admin: &Access, namespace: &str) -> Result<()> {
    let names = ROLES.map(|role| binding(namespace, role));
    let mut args = vec!["delete", "clusterrolebinding", "--ignore-not-found"];
    args.extend(names.iter().map(String::as_str));
    admin.kubectl(&args).await?;
    Ok(())
}

fn binding(namespace: &str, role: &str) -> String {
    format!("{namespace}-{role}")
}

/// A configuration that differs from the installed one in the name of the scheduler alone.
pub(crate) fn configuration(scheduler: &str) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         leaderElection:\n  leaderElect: false\nprofiles:\n- schedulerName: {scheduler}\n"
    )
}

/// The same for one of several replicas that contend for the lease of this name, in the namespace of this name. They are quick to find out
/// that one of them is gone: three seconds, where an installation takes fifteen.
pub(crate) fn elected_configuration(scheduler: &str) -> String {
    configuration(scheduler).replace(
        "  leaderElect: false\n",
        &format!(
            "  leaderElect: true\n  leaseDuration: 3s\n  renewDeadline: 2s\n  retryPeriod: 500ms\n  resourceName: {scheduler}\n  \
             resourceNamespace: {scheduler}\n"
        ),
    )
}

/// The binary of this build.
pub(crate) fn binary() -> Result<PathBuf> {
    // Cargo tells it to tests alone.
    let told = option_env!("CARGO_BIN_EXE_supercargo").map(PathBuf::from);
    let beside_examples = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join(NAME));
    let found = told.or_else(beside_examples).unwrap_or_else(|| target_dir().join("debug").join(NAME));
    ensure!(
        found.is_file(),
        "supercargo is not built: {} is missing; run `make build` first",
        found.display()
    );
    Ok(found)
}

/// How to run it.
pub(crate) struct Setup {
    /// Names the process, its log and its files.
    pub(crate) name: String,
    /// The ServiceAccount whose token it has.
    pub(crate) namespace: String,
    pub(crate) account: String,
    /// The text of `--config`.
    pub(crate) configuration: String,
    /// The HTTPS port it should have if it is free; otherwise it gets any.
    pub(crate) port: Option<u16>,
    /// Where the API server is, unless the control plane says so itself.
    pub(crate) server: Option<String>,
    /// How long its token is good for, in Go's notation, if an hour is too short: nobody renews it after the harness has gone.
    pub(crate) token_duration: Option<String>,
    /// Further flags.
    pub(crate) args: Vec<String>,
    /// Where its stderr goes instead of its log.
    pub(crate) stderr: Option<OwnedFd>,
    /// Variables of its environment.
    pub(crate) env: Vec<(&'static str, String)>,
}

impl Setup {
    /// As the installed Deployment would run it: its ServiceAccount, its configuration.
    pub(crate) async fn installed(plane: &ControlPlane) -> Result<Self> {
        let jsonpath = r"jsonpath={.data.config\.yaml}";
        let get = ["get", "configmap", "supercargo-config", "-n", NAMESPACE, "-o", jsonpath];
        Ok(Self {
            name: NAME.to_owned(),
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

    /// A scheduler called like `namespace`, with the ServiceAccount `supercargo` of that namespace.
    pub(crate) fn called(namespace: &str) -> Self {
        Self {
            name: format!("{NAME}-{namespace}"),
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

    /// Starts it; it may not be ready yet.
    pub(crate) async fn launch(self, plane: &ControlPlane) -> Result<Supercargo> {
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
        let program = Program::new(self.name, binary()?)
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

/// A supercargo that was started. Dropping it ends it.
pub(crate) struct Supercargo {
    process: Process,
    program: Program,
    number: u16,
    _port: Option<Port>,
    token: TokenFile,
    /// Where in the log refusals begin to count.
    forgiven: usize,
}

impl Supercargo {
    /// The port of health and metrics.
    pub(crate) fn port(&self) -> u16 {
        self.number
    }

    /// The file of its token.
    pub(crate) fn token(&self) -> &TokenFile {
        &self.token
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until it ends by itself.
    pub(crate) fn end(&mut self) -> Result<ExitStatus> {
        self.process.wait(END)
    }

    /// Its process, to be ended or detached by the caller.
    pub(crate) fn into_process(self) -> Process {
        self.process
    }

    /// Asks for a path of its HTTPS port.
    pub(crate) async fn get(&self, path: &str, token: Option<&str>) -> Result<(u16, String)> {
        http::get(&format!("https://127.0.0.1:{}{path}", self.number), token).await
    }

    /// Waits until `/readyz` is green. If it ends instead, or never is, the error shows the end of its log.
    pub(crate) async fn wait_until_ready(&mut self) -> Result<()> {
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

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) -> Result<ExitStatus> {
        self.process.kill()
    }

    /// Asks it to end as the kubelet does, and waits for it to do so by itself.
    pub(crate) fn terminate(&mut self) -> Result<ExitStatus> {
        self.process.signal(Signal::SIGTERM)?;
        self.process.wait(END)
    }

    /// Stops it in its tracks, as a machine that hangs would.
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.process.pause()
    }

    /// Lets it go on.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.process.resume()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Starts one that has ended again, with the same flags.
    pub(crate) fn start_again(&mut self, plane: &ControlPlane) -> Result<()> {
        self.process = plane.launch(&self.program)?;
        Ok(())
    }

    /// Fails, with the end of its log, if it has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// All it has logged, over all of its starts.
    pub(crate) fn log(&self) -> Result<String> {
        let path = self.process.log();
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The end of its log, under a headline.
    pub(crate) fn log_tail(&self) -> String {
        self.process.log_tail(40)
    }

    /// Forgets the refusals so far: an API server that is starting knows no roles yet, and refuses everybody.
    pub(crate) fn forgive_refusals(&mut self) -> Result<()> {
        self.forgiven = self.log()?.len();
        Ok(())
    }

    /// Fails if the API server has refused it anything for want of rights, with what it logged of that.
    pub(crate) fn check_rights(&self) -> Result<()> {
        let log = self.log()?;
        // A namespace on its way out takes no new events; that is forbidden to everybody.
        let is_refusal = |line: &&str| {
            let line = line.to_ascii_lowercase();
            line.contains("forbidden") && !line.contains("being terminated")
        };
        let refused: Vec<&str> = log[self.forgiven..].lines().filter(is_refusal).take(5).collect();
        ensure!(refused.is_empty(), "a right is missing in manifests/:\n{}", refused.join("\n"));
        Ok(())
    }
}
