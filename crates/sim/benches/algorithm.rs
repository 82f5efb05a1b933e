//! Times decisions of the engine in process: no network, no conversion of objects, one thread.
//!
//! ```text
//! cargo bench -p supercargo-sim --bench algorithm
//! cargo bench -p supercargo-sim --bench algorithm -- --workload spread --nodes 5000 --existing 0 --pods 1000 --json
//! ```
//!
//! Timed is what the engine does with one pod: taking it in, deciding, assuming, handing out the binding and its answer;
//! a pod's own time ends with its decision. Times are told, never judged. It needs Linux for processor time and memory.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::effect::{Effect, Lane};
use supercargo_core::event::{BindOutcome, Event, Kind};
use supercargo_core::queue::QueueConfig;
use supercargo_core::report::Outcome;
use supercargo_core::rng::Seed;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use supercargo_core::time::Time;
use supercargo_sim::workloads::{self, Workload};

const USAGE: &str = "usage: algorithm [--workload NAME] [--nodes N] [--existing E] [--pods P] [--json]
without --workload, all of them: basic soft-anti hard-anti zone-affinity spread soft-spread node-affinity";

struct Args {
    workload: Option<Workload>,
    nodes: usize,
    existing: usize,
    pods: usize,
    json: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args { workload: None, nodes: 1_000, existing: 2_000, pods: 200, json: false };
    while let Some(flag) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{flag} needs a value"));
        let number = |text: String| {
            let number = text.parse::<usize>().ok().filter(|&number| number > 0 || flag == "--existing");
            number.ok_or_else(|| format!("{flag}: \"{text}\" is not a number it can take"))
        };
        match flag.as_str() {
            "--workload" => {
                let name = value()?;
                let found = Workload::ALL.into_iter().find(|workload| workload.as_str() == name);
                args.workload = Some(found.ok_or_else(|| format!("there is no workload \"{name}\""))?);
            }
            "--nodes" => args.nodes = number(value()?)?,
            "--existing" => args.existing = number(value()?)?,
            "--pods" => args.pods = number(value()?)?,
            "--json" => args.json = true,
            // cargo adds it.
            "--bench" => {}
            other => return Err(format!("there is no flag {other}")),
        }
    }
    Ok(args)
}

/// What one workload took.
struct Measured {
    workload: Workload,
    scheduled: usize,
    /// Of all pods.
    wall: Duration,
    cpu: Duration,
    /// Of each decision, sorted.
    decisions: Vec<Duration>,
    rss_bytes: u64,
}

impl Measured {
    fn decisions_per_s(&self) -> f64 {
        self.decisions.len() as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    fn cpu_us_per_decision(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.decisions.len() as f64
    }

    fn percentile_us(&self, percent: usize) -> f64 {
        self.decisions[self.decisions.len() * percent / 100].as_secs_f64() * 1e6
    }

    fn rss_mb(&self) -> f64 {
        self.rss_bytes as f64 / 1e6
    }

    fn json(&self, args: &Args) -> String {
        let mut line = format!("{{\"workload\":\"{}\"", self.workload);
        let counts = [("nodes", args.nodes), ("existing", args.existing), ("pods", args.pods)];
        for (name, value) in counts.into_iter().chain([("scheduled", self.scheduled)]) {
            let _ = write!(line, ",\"{name}\":{value}");
        }
        for (name, value) in [
            ("decisions_per_s", self.decisions_per_s()),
            ("cpu_us_per_decision", self.cpu_us_per_decision()),
            ("p50_us", self.percentile_us(50)),
            ("p99_us", self.percentile_us(99)),
            ("rss_mb", self.rss_mb()),
        ] {
            let _ = write!(line, ",\"{name}\":{value:.1}");
        }
        line.push('}');
        line
    }
}

/// Processor time of this thread, which is the only one: to the nanosecond where the kernel counts so, else in ticks of
/// a hundredth of a second.
fn cpu_time() -> Duration {
    let of_scheduler = || {
        // The kernel brings the number up to date when the thread gives way.
        std::thread::yield_now();
        let text = fs::read_to_string("/proc/self/schedstat").ok()?;
        let nanos: u64 = text.split_whitespace().next()?.parse().ok()?;
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    };
    let in_ticks = || {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        // Behind the name, which may hold anything: utime and stime are fields 14 and 15 of the line.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(Duration::from_millis(ticks * 10))
    };
    of_scheduler().or_else(in_ticks).unwrap_or_default()
}

/// Memory of this process that is resident, in bytes.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    kilobytes.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// An engine with the nodes, and the pods that are there already.
fn furnished(args: &Args, workload: Workload, now: Time) -> Scheduler {
    let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
    let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
    let mut scheduler = Scheduler::new(config, now);
    for kind in Kind::ALL {
        scheduler.handle(now, Event::ListBegan(kind));
    }
    let tables = scheduler.tables();
    let (name, labels) = (tables.symbol(workloads::NAMESPACE), tables.label_set(Vec::new()));
    scheduler.handle(now, Event::NamespaceApplied { name, labels });
    for number in 0..args.nodes {
        let node = workloads::node(scheduler.tables(), number);
        scheduler.handle(now, Event::NodeApplied(Box::new(node)));
    }
    for number in 0..args.existing {
        let pod = workload.existing_pod(scheduler.tables(), number, args.nodes);
        scheduler.handle(now, Event::PodApplied(Box::new(pod)));
    }
    for kind in Kind::ALL {
        scheduler.handle(now, Event::ListEnded(kind));
    }
    for lane in Lane::ALL {
        scheduler.handle(now, Event::Credits { lane, count: usize::MAX / 2 });
    }
    scheduler
}

fn measure(args: &Args, workload: Workload) -> Measured {
    let now = Time::from_secs(1_000);
    let mut scheduler = furnished(args, workload, now);
    let numbers = args.existing..args.existing + args.pods;
    let pods: Vec<_> = numbers.map(|number| Box::new(workload.pod(scheduler.tables(), number))).collect();
    let mut scheduled = 0;
    let mut decisions = Vec::with_capacity(args.pods);
    let (all_began, cpu_began) = (Instant::now(), cpu_time());
    for pod in pods {
        let began = Instant::now();
        scheduler.handle(now, Event::PodApplied(pod));
        loop {
            match scheduler.step(now, &mut NoProbe) {
                Step::Report(report) => match report.outcome {
                    Outcome::Bound { .. } => {}
                    outcome => {
                        decisions.push(began.elapsed());
                        scheduled += usize::from(matches!(outcome, Outcome::Placed { .. }));
                    }
                },
                Step::Effect(Effect::Bind { pod, .. }) => {
                    let outcome = BindOutcome::Accepted;
                    scheduler.handle(now, Event::BindFinished { uid: pod.uid, outcome });
                }
                Step::Effect(_) | Step::Notice(_) => {}
                Step::Idle { .. } => break,
            }
        }
    }
    let (wall, cpu) = (all_began.elapsed(), cpu_time().saturating_sub(cpu_began));
    decisions.sort_unstable();
    Measured { workload, scheduled, wall, cpu, decisions, rss_bytes: resident() }
}

fn main() -> ExitCode {
    let mut out = io::stdout();
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if !args.json {
        let _ = writeln!(
            out,
            "{} nodes, {} pods on them, {} pods to place",
            args.nodes, args.existing, args.pods
        );
        let _ = writeln!(
            out,
            "{:<14} {:>9} {:>12} {:>10} {:>10} {:>10} {:>8}",
            "workload", "scheduled", "decisions/s", "cpu us", "p50 us", "p99 us", "rss MB"
        );
    }
    let all = args.workload.map_or(Workload::ALL.to_vec(), |one| vec![one]);
    for workload in all {
        let measured = measure(&args, workload);
        let line = if args.json {
            measured.json(&args)
        } else {
            format!(
                "{:<14} {:>9} {:>12.0} {:>10.1} {:>10.1} {:>10.1} {:>8.1}",
                workload,
                measured.scheduled,
                measured.decisions_per_s(),
                measured.cpu_us_per_decision(),
                measured.percentile_us(50),
                measured.percentile_us(99),
                measured.rss_mb()
            )
        };
        let _ = writeln!(out, "{line}");
    }
    ExitCode::SUCCESS
}
