//! `make cluster`: starts a control plane with kwok nodes and supercargo for interactive use,
//! which runs until `down`.
//!
//! Standard output has only what scripts need (`eval "$(make --silent cluster)"`); everything else goes
//! to standard error. `down` stops only recorded processes, after checking that they are still the same ones.

use supercargo_dev::cluster_state;
use supercargo_dev::harness;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use harness::process::{GRACE, Record};
use harness::supercargo::{self, Setup};
use harness::{Access, Component, ControlPlane, Process, Program, binaries, nodes};
use supercargo_dev::cluster_state::{Standing, State, SupercargoPort, quoted};

/// supercargo's default HTTPS port, used if it is free.
const HTTPS_PORT: u16 = 10259;

/// Exit code of `status` if not all processes run.
const NOT_UP: u8 = 3;

#[derive(Parser)]
#[command(
    name = "cluster",
    about = "A real Kubernetes control plane with kwok nodes and supercargo, on loopback ports of this machine"
)]
struct Args {
    /// Folder for data, logs and the kubeconfig file [default: cluster/ in cargo's target folder]
    #[arg(long, global = true, value_name = "PATH")]
    folder: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the cluster in the background and print the KUBECONFIG line for kubectl
    Up(Up),
    /// Stop the cluster and remove its data
    Down,
    /// Show the cluster's processes; exits with 3 if it is not up
    Status,
}

#[derive(clap::Args)]
struct Up {
    /// Number of nodes: kind-control-plane, kind-worker, kind-worker2, ...
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(0..=1000))]
    nodes: u16,
    /// Do not install or start supercargo; its pods stay pending until you run your own
    #[arg(long)]
    bare: bool,
    /// Command to run beside the cluster, with the administrator's KUBECONFIG; may be repeated
    #[arg(long, value_name = "COMMAND", value_parser = command_line)]
    with: Vec<CommandLine>,
    /// Run in the foreground and stop everything on Ctrl-C
    #[arg(long)]
    wait: bool,
}

/// A program and its arguments, separated by blanks, without quoting.
#[derive(Clone)]
struct CommandLine {
    path: PathBuf,
    args: Vec<String>,
}

impl CommandLine {
    fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }
}

fn command_line(text: &str) -> Result<CommandLine, &'static str> {
    let mut words = text.split_whitespace();
    let path = words.next().ok_or("the command is empty")?.into();
    Ok(CommandLine { path, args: words.map(str::to_owned).collect() })
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cluster: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<ExitCode> {
    let folder = args.folder.unwrap_or_else(|| binaries::target_dir().join("cluster"));
    let folder =
        std::path::absolute(&folder).with_context(|| format!("{} is not a path", folder.display()))?;
    match args.command {
        Command::Up(up) => self::up(&folder, &up).await.map(|()| ExitCode::SUCCESS),
        Command::Down => down(&folder).map(|()| ExitCode::SUCCESS),
        Command::Status => status(&folder),
    }
}

async fn up(folder: &Path, up: &Up) -> Result<()> {
    let lock = cluster_state::lock(folder)?;
    let known = State::read(folder)?;
    match known.standing() {
        Standing::Up => {
            eprintln!("cluster: already up");
            return print_export(&known);
        }
        Standing::Broken => {
            let ended = names(&known.records, false);
            bail!("part of the cluster has ended ({ended}); run `down` first, then `up` again")
        }
        Standing::Down => {}
    }
    let started = Instant::now();
    let (plane, beside, port) = start(folder, up).await?;
    let mut records = plane.records()?;
    records.extend(beside.iter().map(Process::record).collect::<Result<Vec<_>>>()?);
    let state = State { kubeconfig: plane.admin().kubeconfig().to_owned(), records, port };
    state.write(folder)?;
    eprintln!(
        "cluster: up after {:.1} s; logs in {}",
        started.elapsed().as_secs_f64(),
        folder.join("logs").display()
    );
    eprintln!("cluster: the matching kubectl is {}", binaries::binary("kubectl")?.display());
    print_export(&state)?;
    drop(lock);
    if up.wait { stay(plane, beside).await } else { plane.detach(beside) }
}

/// Starts everything. The processes end with this command unless the caller detaches them.
async fn start(folder: &Path, up: &Up) -> Result<(ControlPlane, Vec<Process>, Option<SupercargoPort>)> {
    let names = Component::ALL.map(Component::name).join(", ");
    eprintln!("cluster: starting {names}");
    let plane = ControlPlane::builder().with(Component::ALL).with_groups().folder(folder).start().await?;
    eprintln!("cluster: creating nodes ({})", up.nodes);
    nodes::create_all(&plane.client().await?, &nodes::kind(up.nodes.into())).await?;
    let (mut beside, mut port) = (Vec::new(), None);
    if !up.bare {
        let (process, its_port) = start_supercargo(&plane, up.nodes > 0).await?;
        beside.push(process);
        port = Some(its_port);
    }
    for program in programs(&plane.admin(), &up.with) {
        eprintln!("cluster: starting {}", program.name);
        beside.push(plane.launch(&program)?);
    }
    Ok((plane, beside, port))
}

/// Installs `manifests/base` and starts supercargo as a process, while the Deployment's pod only appears to run on
/// kwok. Nothing renews the token, so it is valid for a month.
async fn start_supercargo(plane: &ControlPlane, has_nodes: bool) -> Result<(Process, SupercargoPort)> {
    eprintln!("cluster: applying manifests/base and starting supercargo");
    supercargo::install(plane).await?;
    let mut setup = Setup::installed(plane).await?.with_groups();
    setup.port = Some(HTTPS_PORT);
    setup.token_duration = Some(String::from("720h"));
    let mut supercargo = setup.launch(plane).await?;
    supercargo.wait_until_ready().await?;
    if has_nodes {
        supercargo::wait_for_the_deployment(plane).await?;
    }
    eprintln!("cluster: supercargo serves https://127.0.0.1:{}", supercargo.port());
    let port = SupercargoPort { number: supercargo.port(), token: supercargo.token().path().to_owned() };
    Ok((supercargo.into_process(), port))
}

/// Returns the programs of `--with`.
fn programs(admin: &Access, command_lines: &[CommandLine]) -> Vec<Program> {
    let kubeconfig = admin.kubeconfig().display().to_string();
    let named = command_lines.iter().enumerate().map(|(index, line)| {
        let name = format!("{}-{}", line.name(), index + 1);
        Program::new(name, &line.path).args(line.args.clone()).env("KUBECONFIG", &kubeconfig)
    });
    named.collect()
}

/// Waits for Ctrl-C, SIGTERM or the end of any process. Dropping the arguments stops everything.
async fn stay(plane: ControlPlane, mut beside: Vec<Process>) -> Result<()> {
    eprintln!("cluster: press Ctrl-C to stop it");
    let mut terminate = signal(SignalKind::terminate())?;
    let mut tick = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => break pressed?,
            _ = terminate.recv() => break,
            _ = tick.tick() => {
                plane.check()?;
                beside.iter_mut().try_for_each(Process::check)?;
            }
        }
    }
    eprintln!("cluster: stopping");
    Ok(())
}

fn down(folder: &Path) -> Result<()> {
    let _lock = cluster_state::lock(folder)?;
    let known = State::read(folder)?;
    if known.records.is_empty() {
        eprintln!("cluster: not up");
        return Ok(());
    }
    eprintln!("cluster: stopping {}", names(&known.records, true));
    // Clients stop first. etcd and the API server are last, because the others write to them while stopping.
    let (servers, clients) = known.records.split_at(2.min(known.records.len()));
    Record::stop_all(clients, GRACE)?;
    for server in servers.iter().rev() {
        Record::stop_all(std::slice::from_ref(server), GRACE)?;
    }
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

fn status(folder: &Path) -> Result<ExitCode> {
    let known = State::read(folder)?;
    let mut out = std::io::stdout().lock();
    if known.records.is_empty() {
        eprintln!("cluster: not up");
        return Ok(ExitCode::from(NOT_UP));
    }
    writeln!(out, "{:<28}{:<10}STATE", "NAME", "PID")?;
    for record in &known.records {
        let state = if record.is_alive() { "running" } else { "ended" };
        writeln!(out, "{:<28}{:<10}{state}", record.name, record.pid)?;
    }
    drop(out);
    print_export(&known)?;
    Ok(if known.standing() == Standing::Up { ExitCode::SUCCESS } else { ExitCode::from(NOT_UP) })
}

/// Joins the names of processes that run, or that have ended.
fn names(records: &[Record], alive: bool) -> String {
    let names: Vec<&str> = records
        .iter()
        .filter(|record| record.is_alive() == alive)
        .map(|record| record.name.as_str())
        .collect();
    if names.is_empty() { String::from("none") } else { names.join(", ") }
}

/// Prints the export line for the shell, and to standard error how to reach supercargo.
fn print_export(state: &State) -> Result<()> {
    writeln!(std::io::stdout(), "export KUBECONFIG={}", quoted(&state.kubeconfig))?;
    if let Some(port) = &state.port {
        eprintln!("{}", port.describe());
    }
    Ok(())
}
