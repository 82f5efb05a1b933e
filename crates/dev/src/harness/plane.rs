//! A running control plane: starts components in order, waits for them, breaks them on purpose, and stops them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::sync::OnceCell;

use super::access::{Access, Credential};
use super::binaries::{binary_of, chosen_version};
use super::component::{Component, Layout, TOKEN_FILE};
use super::groups::GroupApi;
use super::guard::Guard;
use super::http;
use super::objects::{TokenFile, wait_for_default_account};
use super::pki::{Pki, write_private};
use super::ports::Port;
use super::process::{Process, Program, Record, stop_all};
use super::wait::{PATIENCE, wait_for};

/// Timeout for a component's start, generous for a busy machine.
const START: Duration = Duration::from_secs(120);

/// Time between SIGTERM and SIGKILL of components. Their data is scratch, so little time is enough.
const GRACE: Duration = Duration::from_secs(3);

/// Number of log lines shown in an error about a component.
const LOG_LINES: usize = 20;

/// The administrator's bearer token. It needs no secrecy, because the server listens on loopback and is temporary.
pub const ADMIN_TOKEN: &str = "supercargo-admin";

/// Options of a control plane to start.
pub struct Builder {
    components: BTreeSet<Component>,
    extra_args: BTreeMap<Component, Vec<String>>,
    folder: Option<PathBuf>,
    version: String,
}

impl Builder {
    /// Adds components.
    pub fn with(mut self, components: impl IntoIterator<Item = Component>) -> Self {
        self.components.extend(components);
        self
    }

    /// Appends a flag to a component's command line.
    pub fn arg(mut self, component: Component, flag: impl Into<String>) -> Self {
        self.extra_args.entry(component).or_default().push(flag.into());
        self
    }

    /// Chooses a minor version of Kubernetes, for example `1.37`.
    pub fn version(mut self, version: &str) -> Self {
        self.version = version.to_owned();
        self
    }

    /// Switches pod groups on in all components, if the version has them.
    pub fn with_groups(mut self) -> Self {
        let Some(api) = GroupApi::of(&self.version) else { return self };
        let served = format!("--runtime-config=scheduling.k8s.io/{}=true", api.version);
        for component in [Component::ApiServer, Component::ControllerManager, Component::Scheduler] {
            self = self.arg(component, api.gates_flag());
        }
        self.arg(Component::ApiServer, served)
    }

    /// Uses this folder instead of a temporary one. It is emptied first and removed at the end.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Starts all components and waits until they serve and namespace `default` accepts pods.
    pub async fn start(self) -> Result<ControlPlane> {
        for component in &self.components {
            binary_of(&self.version, component.name())?;
        }
        let components = self.components.clone();
        let plane = ControlPlane::prepare(self)?;
        plane.start(Component::Etcd).await?;
        plane.start(Component::ApiServer).await?;
        let others: Vec<_> =
            components.into_iter().filter(|component| *component > Component::ApiServer).collect();
        for component in &others {
            plane.spawn(*component)?;
        }
        for component in &others {
            plane.wait_until_ready(*component).await?;
        }
        plane.wait_until_usable().await?;
        Ok(plane)
    }
}

/// A running control plane. Its processes are stopped and its folder removed when the value is dropped or this
/// process ends in any way.
pub struct ControlPlane {
    // Dropped after the body of `drop`, which stops processes gracefully; the guard kills the rest.
    guard: Option<Guard>,
    processes: Mutex<BTreeMap<Component, Process>>,
    layout: Layout,
    extra_args: BTreeMap<Component, Vec<String>>,
    /// The minor version of Kubernetes of components that start from now on.
    version: Mutex<String>,
    pki: Pki,
    _ports: Vec<Port>,
}

impl ControlPlane {
    /// Starts with etcd and kube-apiserver; [`Builder::with`] adds other components.
    pub fn builder() -> Builder {
        let components = BTreeSet::from([Component::Etcd, Component::ApiServer]);
        Builder { components, extra_args: BTreeMap::new(), folder: None, version: chosen_version() }
    }

    /// Returns the folder of its data, keys and logs.
    pub fn folder(&self) -> &Path {
        &self.layout.folder
    }

    /// Returns etcd's data folder. Change it only while etcd is stopped.
    pub fn etcd_data(&self) -> PathBuf {
        self.layout.etcd_data()
    }

    /// Returns the API server's URL.
    pub fn server(&self) -> String {
        self.layout.server()
    }

    /// Returns a component's port.
    pub fn port(&self, component: Component) -> u16 {
        self.layout.ports[&component]
    }

    /// Returns the certificate of the authority that signed all serving certificates.
    pub fn ca(&self) -> PathBuf {
        self.pki.file("ca.crt")
    }

    /// Returns the paths of the API server's serving certificate and key.
    pub fn serving_pair(&self) -> (PathBuf, PathBuf) {
        (self.pki.file("serving.crt"), self.pki.file("serving.key"))
    }

    /// Returns the administrator, a member of `system:masters`.
    pub fn admin(&self) -> Access {
        Access::from_kubeconfig(self.layout.kubeconfig("admin"))
    }

    /// Creates a client with the administrator's credentials.
    pub async fn client(&self) -> Result<Client> {
        self.admin().client().await
    }

    /// Creates a user with a client certificate. Without RBAC objects for it or its group, it has almost no
    /// permissions.
    pub fn user(&self, name: &str, group: Option<&str>) -> Result<Access> {
        let stem: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.user_as(&stem, name, group)
    }

    /// Returns the identity of the holder of `token`, with a kubeconfig named `name`.
    pub fn token_bearer(&self, name: &str, token: &str) -> Result<Access> {
        self.write_access(name, &Credential::Token(token))
    }

    /// Returns the identity of an existing ServiceAccount, with a renewable token file as in a pod.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<(Access, TokenFile)> {
        let stem = format!("{namespace}.{name}");
        let path = self.layout.folder.join(format!("{stem}.token"));
        let token = TokenFile::create(self.client().await?, namespace, name, path).await?;
        Ok((self.write_access(&stem, &Credential::TokenFile(token.path()))?, token))
    }

    /// Starts another program under the same guard. It ends when the returned value is dropped or with this process.
    pub fn launch(&self, program: &Program) -> Result<Process> {
        Process::start(program, &self.layout.logs(), self.group())
    }

    /// Starts a stopped component with its previous port and data, and waits until it serves.
    pub async fn start(&self, component: Component) -> Result<()> {
        self.spawn(component)?;
        self.wait_until_ready(component).await
    }

    /// Kills a component (SIGKILL), as in a crash.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.take(component)?.kill()?;
        Ok(())
    }

    /// Stops a component (SIGTERM, then SIGKILL after a grace period).
    pub fn stop(&self, component: Component) -> Result<()> {
        self.take(component)?.stop(GRACE)?;
        Ok(())
    }

    /// Chooses the minor version of Kubernetes of components that start from now on, as an upgrade does.
    pub fn set_version(&self, version: &str) {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = version.to_owned();
    }

    /// Suspends a component: its connections stay open, but it does not respond.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.process(component, Process::pause)
    }

    /// Resumes a suspended component.
    pub fn resume(&self, component: Component) -> Result<()> {
        self.process(component, Process::resume)
    }

    /// Waits until a component serves. On failure, the error has the end of its log.
    pub async fn wait_until_ready(&self, component: Component) -> Result<()> {
        let url = self.layout.ready_url(component);
        let name = component.name();
        let what = format!("{name} to serve");
        let ready = wait_for(&what, START, || async {
            if let Some(how) = self.process(component, Process::ended)? {
                return Ok(Err(how));
            }
            let (status, body) = http::get(&url, None).await?;
            ensure!(status == 200, "{url} answers {status}: {}", body.trim());
            Ok(Ok(()))
        });
        let outcome = ready.await;
        let log = || self.process(component, |process| Ok(process.log_tail(LOG_LINES)));
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(how)) => bail!("{name} ended before serving ({how}); {}", log()?),
            Err(error) => bail!("{error:#}; {}", log()?),
        }
    }

    /// Returns the process IDs of started components by name.
    pub fn pids(&self) -> BTreeMap<&'static str, u32> {
        self.processes().iter().map(|(component, process)| (component.name(), process.pid())).collect()
    }

    /// Returns the last lines of every log, for test failure messages.
    pub fn log_tails(&self) -> String {
        self.processes().values().map(|process| process.log_tail(LOG_LINES) + "\n").collect()
    }

    /// Returns records by which another run can find and stop the components.
    pub fn records(&self) -> Result<Vec<Record>> {
        self.processes().values().map(Process::record).collect()
    }

    /// Fails if a component has ended unexpectedly; the error has the end of its log.
    pub fn check(&self) -> Result<()> {
        self.processes().values_mut().try_for_each(Process::check)
    }

    /// Lets the control plane and `others` outlive this process.
    pub fn detach(mut self, others: Vec<Process>) -> Result<()> {
        let components = std::mem::take(&mut *self.processes());
        components.into_values().chain(others).for_each(Process::detach);
        self.guard.take().expect("only this takes it, and consumes the control plane").release()
    }

    /// Creates everything except the processes.
    fn prepare(builder: Builder) -> Result<Self> {
        let folder = match builder.folder {
            Some(folder) => folder,
            None => tempfile::Builder::new().prefix("supercargo-").tempdir()?.keep(),
        };
        refuse_foreign(&folder)?;
        let guard = Guard::new(&folder)?;
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        let logs = folder.join("logs");
        std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let reserved = (0..=Component::ALL.len()).map(|_| Port::reserve()).collect::<Result<Vec<_>>>()?;
        let ports = Component::ALL.into_iter().zip(reserved.iter().map(Port::number)).collect();
        let etcd_peer_port = reserved[Component::ALL.len()].number();
        let layout = Layout { folder, ports, etcd_peer_port };
        let pki = Pki::create(&layout.pki())?;
        write_private(
            &layout.token_file(),
            &format!("{ADMIN_TOKEN},kubernetes-admin,admin,system:masters\n"),
        )?;
        let plane = Self {
            guard: Some(guard),
            processes: Mutex::default(),
            layout,
            extra_args: builder.extra_args,
            version: Mutex::new(builder.version),
            pki,
            _ports: reserved,
        };
        plane.write_access("admin", &Credential::Token(ADMIN_TOKEN))?;
        for component in [Component::ControllerManager, Component::Scheduler] {
            plane.user_as(component.name(), &format!("system:{}", component.name()), None)?;
        }
        Ok(plane)
    }

    /// Starts a stopped component with its previous port and data, without waiting for it.
    pub fn spawn(&self, component: Component) -> Result<()> {
        let mut processes = self.processes();
        if let Some(process) = processes.get_mut(&component)
            && process.ended()?.is_none()
        {
            bail!("{} is already running", component.name());
        }
        let extra = self.extra_args.get(&component).cloned().unwrap_or_default();
        let version = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let program = self.layout.program(component, &version)?.args(extra);
        processes.insert(component, Process::start(&program, &self.layout.logs(), self.group())?);
        Ok(())
    }

    /// Waits for the first namespaces, roles and ServiceAccounts, which are created only after API server and
    /// controller manager report ready.
    async fn wait_until_usable(&self) -> Result<()> {
        let client = self.client().await?;
        let namespaces = Api::<Namespace>::all(client.clone());
        for name in ["default", "kube-system"] {
            wait_for(&format!("namespace {name}"), PATIENCE, || async { Ok(namespaces.get(name).await?) })
                .await?;
            if self.processes().contains_key(&Component::ControllerManager) {
                wait_for_default_account(&client, name).await?;
            }
        }
        Ok(())
    }

    fn user_as(&self, stem: &str, user: &str, group: Option<&str>) -> Result<Access> {
        self.pki.issue_client(user, group, stem)?;
        let (certificate, key) =
            (self.pki.file(&format!("{stem}.crt")), self.pki.file(&format!("{stem}.key")));
        self.write_access(stem, &Credential::Certificate { certificate: &certificate, key: &key })
    }

    fn write_access(&self, name: &str, credential: &Credential<'_>) -> Result<Access> {
        Access::write(&self.layout.kubeconfig(name), &self.server(), &self.ca(), credential)
    }

    fn group(&self) -> i32 {
        self.guard.as_ref().expect("only `detach` takes it, and consumes the control plane").group()
    }

    fn process<T>(&self, component: Component, act: impl FnOnce(&mut Process) -> Result<T>) -> Result<T> {
        let mut processes = self.processes();
        act(processes.get_mut(&component).with_context(|| format!("{} was not started", component.name()))?)
    }

    fn take(&self, component: Component) -> Result<Process> {
        self.processes().remove(&component).with_context(|| format!("{} was not started", component.name()))
    }

    /// Ignores lock poisoning: every change of the map is a single step, so a panicking test leaves it consistent.
    fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let mut processes = std::mem::take(&mut *self.processes());
        let server: Vec<_> =
            [Component::ApiServer, Component::Etcd].map(|part| processes.remove(&part)).into();
        // Clients first, because a server that is shutting down waits for open requests.
        stop_all(&mut processes.into_values().collect::<Vec<_>>(), GRACE);
        for mut process in server.into_iter().flatten() {
            let _ = process.stop(GRACE);
        }
    }
}

/// Refuses a folder that is neither new, empty nor an earlier control plane's, because it will be removed.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let occupied = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !folder.join(TOKEN_FILE).is_file() {
        bail!("{} exists and is not a control plane's folder; choose another folder", folder.display());
    }
    Ok(())
}

/// Returns the control plane shared by the tests of this binary, with all components. Each test uses its own
/// namespace. It stops with the process.
pub async fn shared() -> &'static ControlPlane {
    static SHARED: OnceCell<Result<ControlPlane>> = OnceCell::const_new();
    let started = SHARED.get_or_init(|| ControlPlane::builder().with(Component::ALL).start()).await;
    match started {
        Ok(plane) => plane,
        Err(error) => panic!("no control plane: {error:#}"),
    }
}
