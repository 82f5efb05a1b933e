//! `supercargo explain`: why a pod is where it is, or nowhere, and what would help. Changes nothing.
//!
//! Reads a cluster, from files or from an API server, and asks `crate::explain`; `render` puts the answer on a screen.

mod args;
mod render;

pub use args::{ExplainArgs, Kind};

use super::cluster::Cluster;
use super::live::{self, LiveError};
use super::simulate::decide::profile_of;
use super::simulate::{InputError, Output, profiles};
use crate::config::{DEFAULT_NAME, OWN_NAME};
use crate::explain::{Explanation, Place, Question, explain};
use std::io::{self, Read, Write as _};
use std::process::ExitCode;

/// Exit code when something is in the pod's way.
const NOT_WELL: u8 = 3;
/// Exit code for flags, files and names that cannot be taken.
const BAD_INPUT: u8 = 2;
/// Exit code for anything else.
const FAILED: u8 = 1;

/// Runs the command on the process's own streams.
pub fn main(args: &ExplainArgs) -> ExitCode {
    match answer(args, &mut io::stdin().lock()) {
        Ok((answer, notices)) => {
            for notice in notices {
                complain(&notice);
            }
            match write(args, &answer) {
                Ok(()) => ExitCode::from(if answer.verdict.is_well() { 0 } else { NOT_WELL }),
                Err(error) => {
                    // Whoever read it may have seen enough.
                    if error.kind() != io::ErrorKind::BrokenPipe {
                        complain(&format!("error: the answer cannot be written: {error}"));
                    }
                    ExitCode::from(FAILED)
                }
            }
        }
        Err(wrong) => {
            let (text, code) = match wrong {
                Wrong::Input(InputError(text)) => (text, BAD_INPUT),
                Wrong::Live(LiveError::Settings(text)) => (text, BAD_INPUT),
                Wrong::Live(LiveError::Cluster(text)) => (text, FAILED),
            };
            complain(&format!("error: {text}"));
            ExitCode::from(code)
        }
    }
}

fn complain(text: &str) {
    // There is nobody left to tell.
    let _ = writeln!(io::stderr(), "{}", super::screen::plain(text));
}

/// Why there is no answer.
enum Wrong {
    Input(InputError),
    Live(LiveError),
}

impl From<InputError> for Wrong {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

impl From<LiveError> for Wrong {
    fn from(error: LiveError) -> Self {
        Self::Live(error)
    }
}

fn answer(args: &ExplainArgs, stdin: &mut dyn Read) -> Result<(Explanation, Vec<String>), Wrong> {
    let mut cluster;
    if args.cluster.is_empty() {
        let listed = live::list(&args.live)?;
        let namespace = args.namespace.as_deref().unwrap_or(&listed.namespace);
        cluster = Cluster::looking_for(namespace, &args.name);
        listed.into_cluster(&mut cluster);
    } else {
        cluster = Cluster::looking_for(args.namespace.as_deref().unwrap_or("default"), &args.name);
        cluster.read(&args.cluster, args.as_written, stdin)?;
    }
    let profiles = profiles(args.config.as_deref(), &mut cluster.world.tables)?;
    let (pod, has_ended) = cluster.asked()?;
    let scheduler = cluster.world.tables.text(pod.scheduler_name).to_owned();
    let is_named = |name: &str| profiles.iter().any(|(own, _)| own == name);
    // Without a configuration the default plugins are asked, which are default-scheduler's as well.
    let is_default = args.config.is_none() && [OWN_NAME, DEFAULT_NAME, ""].contains(&scheduler.as_str());
    let question = Question {
        has_ended,
        is_ours: is_default || is_named(&scheduler),
        scores: args.scores,
        by_node: args.output != Output::Table,
    };
    let mut place = Place {
        tables: &mut cluster.world.tables,
        cache: &mut cluster.world.cache,
        framework: profile_of(&profiles, &scheduler),
        pending: &cluster.pending,
    };
    Ok((explain(&mut place, &pod, question), cluster.notices))
}

fn write(args: &ExplainArgs, answer: &Explanation) -> io::Result<()> {
    let text = match args.output {
        Output::Table => render::text(answer, false),
        Output::Wide => render::text(answer, true),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
        Output::Yaml => serde_saphyr::to_string(&serde_json::to_value(answer)?).map_err(io::Error::other)?,
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
