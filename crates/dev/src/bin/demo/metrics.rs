//! Shows `/metrics` at the end of the demo, and its access control.

use anyhow::Result;

use crate::page::{Ink, Page};
use supercargo_dev::harness::ControlPlane;
use supercargo_dev::harness::objects::service_account_token;
use supercargo_dev::harness::supercargo::Supercargo;

/// The families whose series are shown.
const FAMILIES: [&str; 5] = [
    "scheduler_schedule_attempts_total",
    "scheduler_pending_pods",
    "scheduler_queue_incoming_pods_total",
    "scheduler_scheduling_attempt_duration_seconds_count",
    "scheduler_pod_scheduling_attempts_count",
];

const NAMESPACE: &str = "default";
const ACCOUNT: &str = "onlooker";

/// Requests the metrics without and with permission. Returns whether both responses are as expected.
pub(crate) async fn show(plane: &ControlPlane, supercargo: &Supercargo, page: &mut Page) -> Result<bool> {
    let (admin, client) = (plane.admin(), plane.client().await?);
    page.heading("Metrics")?;
    page.blank()?;
    admin.kubectl(&["create", "serviceaccount", ACCOUNT, "-n", NAMESPACE]).await?;
    let stranger = service_account_token(&client, NAMESPACE, ACCOUNT).await?;
    ask(page, supercargo, ACCOUNT)?;
    let (refused, _) = supercargo.get("/metrics", Some(&stranger)).await?;
    answer(page, refused, 403, "a ServiceAccount without permission is denied")?;

    let reader = format!("{ACCOUNT}-reader");
    let subject = format!("--serviceaccount={NAMESPACE}:{reader}");
    let role = "--clusterrole=supercargo-metrics-reader";
    admin.kubectl(&["create", "serviceaccount", &reader, "-n", NAMESPACE]).await?;
    admin.kubectl(&["create", "clusterrolebinding", &reader, role, &subject]).await?;
    let token = service_account_token(&client, NAMESPACE, &reader).await?;
    ask(page, supercargo, &reader)?;
    let (answered, text) = supercargo.get("/metrics", Some(&token)).await?;
    answer(page, answered, 200, "one bound to the ClusterRole supercargo-metrics-reader is served:")?;
    let lines: Vec<&str> =
        text.lines().filter(|line| FAMILIES.iter().any(|name| is_of(line, name))).collect();
    for line in &lines {
        page.item("", 6, Ink::Plain, line)?;
    }
    Ok(refused == 403 && answered == 200 && !lines.is_empty())
}

fn ask(page: &mut Page, supercargo: &Supercargo, account: &str) -> Result<()> {
    let url = format!("https://127.0.0.1:{}/metrics", supercargo.port());
    let command = format!("curl -k -H \"Authorization: Bearer $(kubectl create token {account})\" {url}");
    page.item("   $", 5, Ink::Plain, &command)
}

fn answer(page: &mut Page, status: u16, wanted: u16, what: &str) -> Result<()> {
    let (mark, ink) = if status == wanted { ("✓", Ink::Good) } else { ("✗", Ink::Bad) };
    page.item(&format!("   {mark} {status}"), 9, ink, what)
}

fn is_of(line: &str, family: &str) -> bool {
    line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']))
}
