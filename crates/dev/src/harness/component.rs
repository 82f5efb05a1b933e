//! The programs of a control plane and their command lines. [`super::plane`] starts them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::binaries::{binary_of, kwok_stages};
use super::pki::write_private;
use super::process::Program;

/// File of the API server's bearer tokens, in every control plane's folder.
pub const TOKEN_FILE: &str = "tokens.csv";

/// A program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    Etcd,
    ApiServer,
    /// Creates default ServiceAccounts, without which pods cannot be created, removes the not-ready taint of nodes,
    /// and runs Deployments, Jobs and other workloads.
    ControllerManager,
    /// The scheduler of pods with `default-scheduler`.
    Scheduler,
    /// Simulates kubelets for nodes with the annotation `kwok.x-k8s.io/node: fake`: nodes become Ready, pods Running.
    Kwok,
}

impl Component {
    /// All components, in start order.
    pub const ALL: [Self; 5] =
        [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Kwok];

    /// Returns the name of its binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// Returns the path that responds with 200 once it serves.
    fn ready_path(self) -> &'static str {
        match self {
            Self::Etcd | Self::ApiServer | Self::Scheduler => "/readyz",
            Self::ControllerManager | Self::Kwok => "/healthz",
        }
    }
}

/// Folders and ports of a control plane.
pub struct Layout {
    /// Its root folder.
    pub folder: PathBuf,
    /// The port of each component.
    pub ports: BTreeMap<Component, u16>,
    /// etcd's peer port, unused with a single member.
    pub etcd_peer_port: u16,
}

impl Layout {
    /// Returns the API server's URL.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports[&Component::ApiServer])
    }

    /// Returns the URL that responds with 200 once `component` serves.
    pub fn ready_url(&self, component: Component) -> String {
        let scheme = if matches!(component, Component::Etcd | Component::Kwok) { "http" } else { "https" };
        format!("{scheme}://127.0.0.1:{}{}", self.ports[&component], component.ready_path())
    }

    /// Returns the folder of keys and certificates.
    pub fn pki(&self) -> PathBuf {
        self.folder.join("pki")
    }

    /// Returns etcd's data folder.
    pub fn etcd_data(&self) -> PathBuf {
        self.folder.join("etcd")
    }

    /// Returns the log folder.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Returns the path of the kubeconfig file `name`.
    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.kubeconfig"))
    }

    /// Returns the path of the API server's token file.
    pub fn token_file(&self) -> PathBuf {
        self.folder.join(TOKEN_FILE)
    }

    /// Returns the command line of `component` of a minor version of Kubernetes.
    pub fn program(&self, component: Component, version: &str) -> Result<Program> {
        let program = Program::new(component.name(), binary_of(version, component.name())?);
        Ok(match component {
            Component::Etcd => program.args(self.etcd()),
            Component::ApiServer => program.args(self.api_server()),
            Component::ControllerManager => program.args(self.controller_manager()),
            Component::Scheduler => {
                write_private(&self.scheduler_config(), &self.scheduler_config_text())?;
                program.args(self.scheduler())
            }
            Component::Kwok => program.args(self.kwok(&kwok_stages()?)),
        })
    }

    fn etcd(&self) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.ports[&Component::Etcd]);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer_port);
        vec![
            flag("--data-dir", self.etcd_data().display()),
            flag("--listen-client-urls", &client),
            flag("--advertise-client-urls", &client),
            flag("--listen-peer-urls", &peer),
            flag("--initial-advertise-peer-urls", &peer),
            flag("--initial-cluster", format!("default={peer}")),
            flag("--log-level", "warn"),
            // Without fsync, only a power failure loses data; a killed process does not.
            String::from("--unsafe-no-fsync"),
        ]
    }

    /// The flags of kubeadm except for addresses. No feature that manifests may need is disabled.
    fn api_server(&self) -> Vec<String> {
        let mut flags = self.serving(Component::ApiServer);
        flags.extend([
            flag("--etcd-servers", format!("http://127.0.0.1:{}", self.ports[&Component::Etcd])),
            flag("--advertise-address", "127.0.0.1"),
            // The endpoints of the service `kubernetes` may not have a loopback address.
            flag("--endpoint-reconciler-type", "none"),
            flag("--service-cluster-ip-range", "10.96.0.0/16"),
            flag("--authorization-mode", "Node,RBAC"),
            flag("--enable-admission-plugins", "NodeRestriction"),
            flag("--allow-privileged", "true"),
            flag("--token-auth-file", self.token_file().display()),
            flag("--client-ca-file", self.pki_file("ca.crt")),
            flag("--service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
            flag("--service-account-key-file", self.pki_file("sa.pub")),
            flag("--service-account-signing-key-file", self.pki_file("sa.key")),
            flag("--requestheader-client-ca-file", self.pki_file("front-proxy-ca.crt")),
            flag("--requestheader-allowed-names", "front-proxy-client"),
            flag("--requestheader-username-headers", "X-Remote-User"),
            flag("--requestheader-group-headers", "X-Remote-Group"),
            flag("--requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        ]);
        flags
    }

    fn controller_manager(&self) -> Vec<String> {
        let mut flags = self.serving(Component::ControllerManager);
        flags.extend(self.client_of_the_server(Component::ControllerManager));
        flags.extend([
            flag("--leader-elect", "false"),
            flag("--use-service-account-credentials", "true"),
            flag("--root-ca-file", self.pki_file("ca.crt")),
            flag("--service-account-private-key-file", self.pki_file("sa.key")),
            flag("--kube-api-qps", "1000"),
            flag("--kube-api-burst", "1000"),
        ]);
        flags
    }

    fn scheduler(&self) -> Vec<String> {
        let mut flags = self.serving(Component::Scheduler);
        flags.extend(self.client_of_the_server(Component::Scheduler));
        flags.push(flag("--config", self.scheduler_config().display()));
        // With --config, the client's kubeconfig is read from the file, not from a flag.
        flags.retain(|given| !given.starts_with("--kubeconfig="));
        flags
    }

    /// kube-scheduler's default limit of 50 requests per second would distort measurements.
    fn scheduler_config_text(&self) -> String {
        format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             leaderElection:\n  leaderElect: false\n\
             clientConnection:\n  kubeconfig: {}\n  qps: 5000\n  burst: 5000\n",
            self.kubeconfig(Component::Scheduler.name()).display()
        )
    }

    fn kwok(&self, stages: &Path) -> Vec<String> {
        vec![
            flag("--kubeconfig", self.kubeconfig("admin").display()),
            flag("--config", stages.display()),
            flag("--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake"),
            flag("--server-address", format!("127.0.0.1:{}", self.ports[&Component::Kwok])),
            flag("--cidr", "10.244.0.0/16"),
            flag("--node-lease-duration-seconds", "40"),
        ]
    }

    fn serving(&self, component: Component) -> Vec<String> {
        vec![
            flag("--bind-address", "127.0.0.1"),
            flag("--secure-port", self.ports[&component]),
            flag("--tls-cert-file", self.pki_file("serving.crt")),
            flag("--tls-private-key-file", self.pki_file("serving.key")),
        ]
    }

    fn client_of_the_server(&self, component: Component) -> Vec<String> {
        let kubeconfig = self.kubeconfig(component.name());
        ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"]
            .map(|name| flag(name, kubeconfig.display()))
            .to_vec()
    }

    fn scheduler_config(&self) -> PathBuf {
        self.folder.join("kube-scheduler.yaml")
    }

    fn pki_file(&self, name: &str) -> String {
        self.pki().join(name).display().to_string()
    }
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("{name}={value}")
}
