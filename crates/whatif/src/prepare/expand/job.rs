//! Expands Jobs, and CronJobs as one run.

use crate::load::files::{Origin, Wrong, text_at};
use crate::prepare::expand::{Controller, Expanded, PODS_MAX, count, is_set, object_at, pods};
use crate::prepare::identity::{controlled_by, derived_uid, generated_name};
use crate::prepare::job::{INDEX, is_indexed};
use serde_json::{Value, json};

/// A CronJob names its Job after the scheduled minute since 1970; this number represents any run.
const MINUTE: u32 = 30_000_000;

/// Expands a new Job into the pods that it starts in parallel. A suspended Job has none.
pub(super) fn job(job: &Value, origin: Origin) -> Result<Expanded, Wrong> {
    let parallelism = count(job, "parallelism")?.unwrap_or(1);
    let completions = count(job, "completions")?.unwrap_or(parallelism);
    let at_once = if is_set(job, "suspend") { 0 } else { parallelism.min(completions) };
    // One more than allowed is enough for the error.
    let numbers: Vec<usize> = (0..at_once.min(PODS_MAX + 1)).collect();
    pods_of(job, origin, &numbers)
}

/// Makes the pods of a Job with these numbers, which are the indexes of an indexed Job.
pub(super) fn pods_of(job: &Value, origin: Origin, numbers: &[usize]) -> Result<Expanded, Wrong> {
    let owner = Controller::new(job)?;
    let mut expanded = Expanded::default();
    count(job, "parallelism")?;
    count(job, "completions")?;
    if numbers.len() > PODS_MAX {
        pods(job, "parallelism")?;
    }
    let mut labels = vec![
        ("batch.kubernetes.io/controller-uid", owner.uid),
        ("batch.kubernetes.io/job-name", owner.name),
        ("controller-uid", owner.uid),
        ("job-name", owner.name),
    ];
    if is_set(job, "manualSelector") {
        labels.clear();
    }
    let is_indexed = is_indexed(job);
    for &at in numbers {
        let index = at.to_string();
        let (base, own) = if is_indexed {
            (indexed_base(owner.name, &index), Some((INDEX, index.as_str())))
        } else {
            (format!("{}-", owner.name), None)
        };
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain(own).collect();
        let name = generated_name(&base, "Job", owner.namespace, at);
        expanded.add_pod(owner.pod(&name, &labels), origin);
    }
    Ok(expanded)
}

/// Returns the `generateName` of an indexed pod. A long name is cut so that the index remains
/// (`pkg/controller/job/indexed_job_utils.go#podGenerateNameWithIndex`).
fn indexed_base(name: &str, index: &str) -> String {
    let kept: String = name.chars().take(58 - index.len() - 2).collect();
    format!("{kept}-{index}-")
}

/// Expands a CronJob into the Job of one run. A suspended CronJob has none.
pub(super) fn cron_job(cron_job: &Value, origin: Origin) -> Result<Expanded, Wrong> {
    let Some(template) = cron_job.pointer("/spec/jobTemplate").filter(|template| template.is_object()) else {
        return Err(Wrong::new("spec.jobTemplate", "expected spec.jobTemplate to be a job template"));
    };
    if is_set(cron_job, "suspend") {
        return Ok(Expanded::default());
    }
    let of = |field: &str| text_at(cron_job, &format!("/metadata/{field}"));
    let name = format!("{}-{MINUTE}", of("name"));
    let run = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": of("namespace"),
            "uid": derived_uid("Job", of("namespace"), &name),
            "labels": object_at(template, "/metadata/labels"),
            "ownerReferences": controlled_by("batch/v1", "CronJob", of("name"), of("uid")),
        },
        "spec": template.get("spec"),
    });
    let in_template = |wrong: Wrong| Wrong { path: format!("spec.jobTemplate.{}", wrong.path), ..wrong };
    job(&run, origin.within("spec.jobTemplate.spec.template.")).map_err(in_template)
}
