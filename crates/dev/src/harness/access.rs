//! An identity at an API server: its kubeconfig file, and clients that use it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::binaries::binary;
use super::pki::write_private;
use super::supercargo;

/// Credentials of an identity.
pub enum Credential<'a> {
    /// A bearer token, stored in the kubeconfig.
    Token(&'a str),
    /// A file with a bearer token, which may be rewritten at any time.
    TokenFile(&'a Path),
    /// A client certificate and its key.
    Certificate { certificate: &'a Path, key: &'a Path },
}

/// A kubeconfig file, with methods to use it.
#[derive(Clone, Debug)]
pub struct Access {
    kubeconfig: PathBuf,
}

impl Access {
    /// Uses an existing kubeconfig file.
    pub fn from_kubeconfig(path: impl Into<PathBuf>) -> Self {
        Self { kubeconfig: path.into() }
    }

    /// Writes a kubeconfig file for `server`, whose certificate is signed by `ca`.
    pub fn write(path: &Path, server: &str, ca: &Path, credential: &Credential<'_>) -> Result<Self> {
        let user = match credential {
            Credential::Token(token) => format!("token: {token}"),
            Credential::TokenFile(file) => format!("tokenFile: {}", file.display()),
            Credential::Certificate { certificate, key } => {
                format!("client-certificate: {}\n    client-key: {}", certificate.display(), key.display())
            }
        };
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: supercargo\n\
             clusters:\n- name: supercargo\n  cluster:\n    server: {server}\n    certificate-authority: {}\n\
             users:\n- name: supercargo\n  user:\n    {user}\n\
             contexts:\n- name: supercargo\n  context:\n    cluster: supercargo\n    user: supercargo\n",
            ca.display()
        );
        write_private(path, &text)?;
        Ok(Self::from_kubeconfig(path))
    }

    /// Returns the path of the kubeconfig file.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the client configuration, without kube's automatic retries, so that tests see each response.
    pub async fn config(&self) -> Result<Config> {
        let read = Kubeconfig::read_from(&self.kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("cannot use {}", self.kubeconfig.display()))?;
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.proxy_url = None;
        Ok(config)
    }

    /// Creates a client. It is bound to the current runtime, so every test creates its own.
    pub async fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// Runs kubectl and returns its output; the error of a failed run has its error output.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with_input(args, "").await
    }

    /// Runs kubectl in `folder`, to which file arguments are relative.
    pub async fn kubectl_in(&self, folder: &Path, args: &[&str]) -> Result<String> {
        let mut command = self.command(args)?;
        command.current_dir(folder);
        start(command, ("kubectl", args), "").await
    }

    /// Runs a command of supercargo in `folder`, to which file arguments are relative.
    pub async fn supercargo_in(&self, folder: &Path, args: &[&str]) -> Result<String> {
        let mut command = Command::new(supercargo::binary()?);
        command.args(args).env("KUBECONFIG", &self.kubeconfig).current_dir(folder);
        start(command, ("supercargo", args), "").await
    }

    /// Runs `kubectl apply` with YAML documents.
    pub async fn apply(&self, yaml: &str) -> Result<String> {
        self.kubectl_with_input(&["apply", "-f", "-"], yaml).await
    }

    /// Runs `kubectl apply` with a file or folder.
    pub async fn apply_path(&self, path: &Path) -> Result<String> {
        self.kubectl(&["apply", "-f", &path.display().to_string()]).await
    }

    /// Runs kubectl with `input` on standard input.
    pub async fn kubectl_with_input(&self, args: &[&str], input: &str) -> Result<String> {
        start(self.command(args)?, ("kubectl", args), input).await
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(binary("kubectl")?);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir");
        command.arg(self.kubeconfig.with_file_name("kubectl-cache")).arg("--request-timeout=60s").args(args);
        Ok(command)
    }
}

async fn start(command: Command, (program, args): (&str, &[&str]), input: &str) -> Result<String> {
    let (line, input) = (format!("{program} {}", args.join(" ")), input.to_owned());
    tokio::task::spawn_blocking(move || run(command, &input)).await?.with_context(|| line)
}

fn run(mut command: Command, input: &str) -> Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start")?;
    let mut pipe = child.stdin.take().expect("its standard input is a pipe");
    // kubectl reads all input before it writes, so neither side can block the other. If it fails before reading, the
    // pipe breaks; kubectl's own error below is more useful than that one.
    let _ = pipe.write_all(input.as_bytes());
    drop(pipe);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        bail!("{}: {}\n{}", output.status, text(&output.stderr), text(&output.stdout));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
