//! A running control plane: started in order, waited for, broken on purpose, and stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::sync::OnceCell;

use super::access::{Access, Credential};
use super::binaries::binary;
use super::component::{Component, Layout, TOKEN_FILE};
use super::guard::Guard;
use super::http;
use super::objects::{TokenFile, wait_for_default_account};
use super::pki::{Pki, write_private};
use super::ports::Port;
use super::process::{Process, Program, Record, stop_all};
use super::wait::{PATIENCE, wait_for};

/// A component that does not serve after this long on a busy machine never will.
const START: Duration = Duration::from_secs(120);

/// What components get between SIGTERM and SIGKILL. Their data is scratch: there is nothing to save, only habits to respect.
const GRACE: Duration = Duration::from_secs(3);

/// How many lines of its log an error about a component shows.
const LOG_LINES: usize = 20;

/// The bearer token of the administrator. It is no secret: the server listens on loopback and lives for one run.
pub(crate) const ADMIN_TOKEN: &str = "supercargo-admin";

/// Says what to start.
pub(crate) struct Builder {
    components: BTreeSet<Component>,
    extra_args: BTreeMap<Component, Vec<String>>,
    folder: Option<PathBuf>,
}

impl Builder {
    /// Also starts these components.
    pub(crate) fn with(mut self, components: impl IntoIterator<Item = Component>) -> Self {
        self.components.extend(components);
        self
    }

    /// Adds a flag to a component's command line, after ours.
    pub(crate) fn arg(mut self, component: Component, flag: impl Into<String>) -> Self {
        self.extra_args.entry(component).or_default().push(flag.into());
        self
    }

    /// Keeps everything in this folder instead of a temporary one. It is emptied first, and removed in the end.
    pub(crate) fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Starts everything and waits until it serves, and until pods can be created in namespace `default`.
    pub(crate) async fn start(self) -> Result<ControlPlane> {
        for component in &self.components {
            binary(component.name())?;
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

/// A running control plane. Dropping it ends all of its processes and removes its folder; so does the end of this process,
/// whatever that end is.
pub(crate) struct ControlPlane {
    // Dropped after the body of `drop` has ended the processes politely: it ends the rest.
    guard: Option<Guard>,
    processes: Mutex<BTreeMap<Component, Process>>,
    layout: Layout,
    extra_args: BTreeMap<Component, Vec<String>>,
    pki: Pki,
    _ports: Vec<Port>,
}

impl ControlPlane {
    /// An etcd and a kube-apiserver; [`Builder::with`] adds the others.
    pub(crate) fn builder() -> Builder {
        let components = BTreeSet::from([Component::Etcd, Component::ApiServer]);
        Builder { components, extra_args: BTreeMap::new(), folder: None }
    }

    /// The folder of its data, keys and logs.
    pub(crate) fn folder(&self) -> &Path {
        &self.layout.folder
    }

    /// The folder of etcd's data; whoever changes it has stopped etcd.
    pub(crate) fn etcd_data(&self) -> PathBuf {
        self.layout.etcd_data()
    }

    /// The URL of the API server.
    pub(crate) fn server(&self) -> String {
        self.layout.server()
    }

    /// The port of a component.
    pub(crate) fn port(&self, component: Component) -> u16 {
        self.layout.ports[&component]
    }

    /// The certificate of the authority that signed every serving certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.pki.file("ca.crt")
    }

    /// The administrator: member of `system:masters`.
    pub(crate) fn admin(&self) -> Access {
        Access::from_kubeconfig(self.layout.kubeconfig("admin"))
    }

    /// A client of the administrator's.
    pub(crate) async fn client(&self) -> Result<Client> {
        self.admin().client().await
    }

    /// Any user, proven by a client certificate. Without RBAC objects that name it, or its group, it may do next to nothing.
    pub(crate) fn user(&self, name: &str, group: Option<&str>) -> Result<Access> {
        let stem: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.user_as(&stem, name, group)
    }

    /// Whoever holds `token`; the kubeconfig is called `name`.
    pub(crate) fn token_bearer(&self, name: &str, token: &str) -> Result<Access> {
        self.write_access(name, &Credential::Token(token))
    }

    /// An existing service account, by a token file as a pod would have it, whose token may be renewed.
    pub(crate) async fn service_account(&self, namespace: &str, name: &str) -> Result<(Access, TokenFile)> {
        let stem = format!("{namespace}.{name}");
        let path = self.layout.folder.join(format!("{stem}.token"));
        let token = TokenFile::create(self.client().await?, namespace, name, path).await?;
        Ok((self.write_access(&stem, &Credential::TokenFile(token.path()))?, token))
    }

    /// Starts a further program under the same protection: it ends when the returned value is dropped, or with this process.
    pub(crate) fn launch(&self, program: &Program) -> Result<Process> {
        Process::start(program, &self.layout.logs(), self.group())
    }

    /// Starts a component that does not run, on its old port and data, and waits until it serves.
    pub(crate) async fn start(&self, component: Component) -> Result<()> {
        self.spawn(component)?;
        self.wait_until_ready(component).await
    }

    /// Ends a component as a crash would (SIGKILL).
    pub(crate) fn kill(&self, component: Component) -> Result<()> {
        self.take(component)?.kill()?;
        Ok(())
    }

    /// Ends a component as an operator would (SIGTERM, and SIGKILL after a grace).
    pub(crate) fn stop(&self, component: Component) -> Result<()> {
        self.take(component)?.stop(GRACE)?;
        Ok(())
    }

    /// Stops the clock of a component: its connections stay open and nothing answers.
    pub(crate) fn pause(&self, component: Component) -> Result<()> {
        self.process(component, Process::pause)
    }

    /// Lets a paused component go on.
    pub(crate) fn resume(&self, component: Component) -> Result<()> {
        self.process(component, Process::resume)
    }

    /// Waits until a component serves. If it ends instead, or never does, the error shows the end of its log.
    pub(crate) async fn wait_until_ready(&self, component: Component) -> Result<()> {
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
            Ok(Err(how)) => bail!("{name} ended before it served ({how}); {}", log()?),
            Err(error) => bail!("{error:#}; {}", log()?),
        }
    }

    /// The process ids of the components that were started, by name.
    pub(crate) fn pids(&self) -> BTreeMap<&'static str, u32> {
        self.processes().iter().map(|(component, process)| (component.name(), process.pid())).collect()
    }

    /// The last lines of every log, for the message of a test that cannot explain itself.
    pub(crate) fn log_tails(&self) -> String {
        self.processes().values().map(|process| process.log_tail(LOG_LINES) + "\n").collect()
    }

    /// What another run needs to find the components again, and to end them.
    pub(crate) fn records(&self) -> Result<Vec<Record>> {
        self.processes().values().map(Process::record).collect()
    }

    /// Fails, with the end of its log, if a component has ended by itself.
    pub(crate) fn check(&self) -> Result<()> {
        self.processes().values_mut().try_for_each(Process::check)
    }

    /// Lets everything, and `others` beside it, outlive this process.
    pub(crate) fn detach(mut self, others: Vec<Process>) -> Result<()> {
        let components = std::mem::take(&mut *self.processes());
        components.into_values().chain(others).for_each(Process::detach);
        self.guard.take().expect("only this takes it, and consumes the control plane").release()
    }

    /// Everything but the processes.
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
            pki,
            _ports: reserved,
        };
        plane.write_access("admin", &Credential::Token(ADMIN_TOKEN))?;
        for component in [Component::ControllerManager, Component::Scheduler] {
            plane.user_as(component.name(), &format!("system:{}", component.name()), None)?;
        }
        Ok(plane)
    }

    /// Starts a component that does not run, on its old port and data; it may not serve yet.
    pub(crate) fn spawn(&self, component: Component) -> Result<()> {
        let mut processes = self.processes();
        if let Some(process) = processes.get_mut(&component)
            && process.ended()?.is_none()
        {
            bail!("{} already runs", component.name());
        }
        let extra = self.extra_args.get(&component).cloned().unwrap_or_default();
        let program = self.layout.program(component)?.args(extra);
        processes.insert(component, Process::start(&program, &self.layout.logs(), self.group())?);
        Ok(())
    }

    /// The API server serves before the first namespaces and the roles are there, and the controller manager before it has made
    /// the service accounts.
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

    /// A test that panicked while it held the lock leaves the map whole: every change to it is one step.
    fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let mut processes = std::mem::take(&mut *self.processes());
        let server: Vec<_> =
            [Component::ApiServer, Component::Etcd].map(|part| processes.remove(&part)).into();
        // Clients first: a server that is asked to end waits for the requests it still has.
        stop_all(&mut processes.into_values().collect::<Vec<_>>(), GRACE);
        for mut process in server.into_iter().flatten() {
            let _ = process.stop(GRACE);
        }
    }
}

/// The folder will be removed: it must be new, empty, or that of an earlier control plane.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let occupied = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if occupied && !folder.join(TOKEN_FILE).is_file() {
        bail!("{} holds something else than a control plane; name another folder", folder.display());
    }
    Ok(())
}

/// The control plane that the tests of this binary share, with every component: each takes a namespace of its own. It ends with
/// the process.
pub(crate) async fn shared() -> &'static ControlPlane {
    static SHARED: OnceCell<Result<ControlPlane>> = OnceCell::const_new();
    let started = SHARED.get_or_init(|| ControlPlane::builder().with(Component::ALL).start()).await;
    match started {
        Ok(plane) => plane,
        Err(error) => panic!("no control plane: {error:#}"),
    }
}
