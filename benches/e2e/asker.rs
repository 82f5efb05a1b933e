//! A client that continuously queries the running scheduler about pending pods, alternating between one pod's reasons
//! and all pending pods.

use anyhow::{Result, ensure};
use http::Request;
use http::header::AUTHORIZATION;
use kube::Client;
use kube::client::Body;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::load::NAMESPACE;

/// Timeout of a query.
const PATIENCE: Duration = Duration::from_secs(60);
/// Delay before a retry if the server is not listening or not ready.
const PAUSE: Duration = Duration::from_millis(20);

/// Type of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// The reasons of one pending pod.
    Explain,
    /// All pending pods of the namespace.
    Pending,
}

/// A complete answer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    page: Page,
    at: Instant,
    took: Duration,
}

/// Results of the queries in a time span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryResults {
    pub(crate) answers_per_s: f64,
    /// Median and 99th percentile of explain queries, in milliseconds.
    pub(crate) explain_ms: [f64; 2],
    /// Median and 99th percentile of list queries, in milliseconds.
    pub(crate) pending_ms: [f64; 2],
}

/// The client, which queries until it is dropped.
pub(crate) struct Asker {
    answers: Arc<Mutex<Vec<Answer>>>,
    refusal: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

impl Asker {
    /// Starts querying the scheduler at this port about these pods in turn, with a token.
    pub(crate) fn begin(port: u16, token: &str, pods: Vec<String>) -> Result<Self> {
        let mut config = kube::Config::new(format!("https://127.0.0.1:{port}/").parse()?);
        config.accept_invalid_certs = true;
        config.default_retry = false;
        let client = Client::try_from(config)?;
        let (answers, token) = (Arc::<Mutex<Vec<Answer>>>::default(), format!("Bearer {token}"));
        let (into, refusal) = (Arc::clone(&answers), Arc::<Mutex<String>>::default());
        let why = Arc::clone(&refusal);
        let task = tokio::spawn(async move {
            for question in 0_usize.. {
                let pod = &pods[question / 2 % pods.len()];
                let page = if question.is_multiple_of(2) { Page::Explain } else { Page::Pending };
                let began = Instant::now();
                let answer = tokio::time::timeout(PATIENCE, get(&client, &token, page, pod)).await;
                let error = match answer {
                    Ok(Ok(())) => {
                        let at = Instant::now();
                        let answer = Answer { page, at, took: at - began };
                        into.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
                        continue;
                    }
                    Ok(Err(why)) => format!("{why:#}"),
                    Err(_) => format!("no answer within {PATIENCE:?}"),
                };
                *why.lock().unwrap_or_else(PoisonError::into_inner) = error;
                tokio::time::sleep(PAUSE).await;
            }
        });
        Ok(Self { answers, refusal, task })
    }

    /// Reports whether there was no answer yet.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns the last error, or "".
    pub(crate) fn refusal(&self) -> String {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the results of queries answered between two times.
    pub(crate) fn between(&self, from: Instant, to: Instant) -> Result<QueryResults> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let within: Vec<Answer> =
            answers.iter().filter(|answer| (from..=to).contains(&answer.at)).copied().collect();
        ensure!(!within.is_empty(), "no query was answered meanwhile; {}", self.refusal());
        let of = |page: Page| {
            let mut took: Vec<Duration> =
                within.iter().filter(|answer| answer.page == page).map(|answer| answer.took).collect();
            took.sort_unstable();
            [50, 99].map(|percent| {
                let at = (took.len() * percent / 100).min(took.len().saturating_sub(1));
                took.get(at).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
            })
        };
        Ok(QueryResults {
            answers_per_s: within.len() as f64 / (to - from).as_secs_f64(),
            explain_ms: of(Page::Explain),
            pending_ms: of(Page::Pending),
        })
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends one query. An answer that does not name the pod is an error.
async fn get(client: &Client, token: &str, page: Page, pod: &str) -> Result<()> {
    let path = match page {
        Page::Explain => format!("/debug/explain?namespace={NAMESPACE}&name={pod}"),
        Page::Pending => format!("/debug/pending?namespace={NAMESPACE}"),
    };
    let request = Request::get(&path).header(AUTHORIZATION, token).body(Body::empty())?;
    let answer = client.send(request).await?;
    let status = answer.status();
    let body = String::from_utf8_lossy(&answer.into_body().collect_bytes().await?).into_owned();
    ensure!(status.is_success(), "{path}: {status}: {body}");
    ensure!(body.contains(pod), "{path}: {pod} is missing in the answer");
    Ok(())
}
