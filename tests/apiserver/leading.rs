//! Several replicas with one lease: the leader is killed, suspended, disconnected or stuck, and another takes over.
//! No pod is bound twice, no node is overcommitted, no pod is lost, and the audit log shows that only one replica
//! wrote at a time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::audited::Audited;
use crate::fleet::PodFleet;
use crate::harness::supercargo::{self, ROLES, Setup, Supercargo, elected_configuration};
use crate::harness::{Component, wait_for};
use crate::world::{World, play_on};

/// Timeout of a failover on a busy machine; its order is tested, not its speed.
const PATIENCE: Duration = Duration::from_secs(90);

/// Returns the replicas' writes to pods, volumes and claims, in order: account and request.
fn writes(entries: &[Value]) -> Vec<(String, String)> {
    let mut writes = Vec::new();
    for entry in entries {
        let (user, object) = (entry["user"]["username"].as_str().unwrap_or_default(), &entry["objectRef"]);
        let resource = object["resource"].as_str().unwrap_or_default();
        if !["pods", "persistentvolumes", "persistentvolumeclaims"].contains(&resource) {
            continue;
        }
        let account = user.rsplit(':').next().unwrap_or_default().to_owned();
        if account.starts_with("replica-") {
            let what = format!("{} {} {}", entry["verb"], object["subresource"], object["name"]);
            writes.push((account, what));
        }
    }
    writes
}

/// Starts a control plane with an audit log of writes and with the manifests.
async fn audited() -> Result<Audited> {
    let rule = json!({
        "level": "Metadata", "verbs": ["create", "update", "patch", "delete"], "userGroups": ["system:serviceaccounts"],
    });
    let audited = Audited::start([Component::ControllerManager, Component::Kwok], rule).await?;
    supercargo::install(&audited.plane).await?;
    Ok(audited)
}

/// Replicas that share a lease, each with its own ServiceAccount so that the audit log distinguishes them.
struct Replicas {
    running: Vec<Supercargo>,
    leases: Api<Lease>,
    lease: String,
}

impl Replicas {
    /// Starts replicas in place of the world's scheduler, and waits until all of them are ready.
    async fn start(world: &mut World<'_>, count: usize) -> Result<Self> {
        world.supercargo.terminate()?;
        let (admin, name) = (world.plane.admin(), world.name.clone());
        let group = format!("--group=system:serviceaccounts:{name}");
        for role in ROLES {
            let (binding, role) = (format!("{name}-all-{role}"), format!("--clusterrole={role}"));
            admin.kubectl(&["create", "clusterrolebinding", &binding, &role, &group]).await?;
        }
        let verbs = ["--verb=get,create,update", "--resource=leases.coordination.k8s.io"];
        admin.kubectl(&["create", "role", "lead", verbs[0], verbs[1], "-n", &name]).await?;
        admin.kubectl(&["create", "rolebinding", "lead", "--role=lead", &group, "-n", &name]).await?;
        let mut running = Vec::new();
        for number in 0..count {
            let account = format!("replica-{number}");
            admin.kubectl(&["create", "serviceaccount", &account, "-n", &name]).await?;
            let mut setup = Setup::called(&name);
            setup.name = format!("{name}-{account}");
            setup.account = account;
            setup.configuration = elected_configuration(&name);
            running.push(setup.launch(world.plane).await?);
        }
        let leases = Api::namespaced(world.client.clone(), &name);
        let mut replicas = Self { running, leases, lease: name };
        for replica in &mut replicas.running {
            // A standby replica is ready, too.
            replica.wait_until_ready().await?;
        }
        Ok(replicas)
    }

    /// Returns the holder's identity, or "".
    async fn holder(&self) -> Result<String> {
        let lease = self.leases.get_opt(&self.lease).await?;
        Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
    }

    /// Waits until another replica than `before` holds the lease, and returns which one.
    async fn leader_after(&self, before: &str) -> Result<(usize, String)> {
        wait_for("another replica to hold the lease", PATIENCE, || async {
            let holder = self.holder().await?;
            ensure!(!holder.is_empty() && holder != before, "it is held by {holder:?}");
            for (number, replica) in self.running.iter().enumerate() {
                if replica.log()?.contains(&holder) && is_candidate(replica, &holder)? {
                    return Ok((number, holder));
                }
            }
            anyhow::bail!("{holder} is not a replica of this test")
        })
        .await
    }

    /// Hands one replica over to the world, which checks it at the end.
    fn leave(mut self, world: &mut World<'_>, number: usize) -> Result<()> {
        world.supercargo = self.running.remove(number);
        world.supercargo.forgive_refusals()
    }
}

/// Reports whether the process is a candidate with this identity.
fn is_candidate(replica: &Supercargo, identity: &str) -> Result<bool> {
    let stood = |line: &str| line.contains("attempting to acquire leader lease") && line.contains(identity);
    Ok(replica.log()?.lines().any(stood))
}

/// Checks in the audit log that each leader writes in one contiguous period, and never two at a time.
async fn check_that_one_wrote_at_a_time(audited: &Audited, leaders: &[usize]) -> Result<()> {
    let expected: Vec<String> = leaders.iter().map(|number| format!("replica-{number}")).collect();
    let check = |entries: Vec<Value>| {
        let mut order: Vec<_> = writes(&entries).into_iter().map(|(account, _)| account).collect();
        order.dedup();
        ensure!(order == expected, "{order:?} wrote to pods, in this order, instead of {expected:?}");
        Ok(())
    };
    audited.once("the audit log to show each leader's writes", check).await
}

#[tokio::test]
async fn killed_leader_is_replaced_and_no_pod_is_bound_twice() -> Result<()> {
    let audited = audited().await?;
    play_on(&audited.plane, "three", async |world| {
        let mut replicas = Replicas::start(world, 3).await?;
        let (first, holder) = replicas.leader_after("").await?;
        let pod_fleet = PodFleet::new(world, 300).await?;
        let creating = pod_fleet.create(world);
        pod_fleet.placed_at_least(world, 60).await?;
        replicas.running[first].kill()?;
        let began = Instant::now();
        let placed = pod_fleet.placed(world).await?.len();
        ensure!(placed < 300, "it was too fast to be killed in the middle");
        let (second, holder) = replicas.leader_after(&holder).await?;
        eprintln!("leading: the lease taken over {:?} after its holder was killed", began.elapsed());
        assert_ne!(first, second);
        // A replica that is stopped releases the lease, so the third need not wait for its expiry.
        pod_fleet.placed_at_least(world, placed + 20).await?;
        let status = replicas.running[second].terminate()?;
        assert_eq!(status.code(), Some(0), "{}", replicas.running[second].log_tail());
        ensure!(replicas.running[second].log()?.contains("released the lease"), "it did not log the release");
        let began = Instant::now();
        let (third, _) = replicas.leader_after(&holder).await?;
        eprintln!("leading: a released lease taken {:?} after its holder was gone", began.elapsed());
        creating.await??;
        pod_fleet.check_in_the_end(world).await?;
        // The second may have left no work to the third.
        world.node("more").create(&world.client).await?;
        world.create("last", &json!({})).await?;
        world.bound("last").await?;
        check_that_one_wrote_at_a_time(&audited, &[first, second, third]).await?;
        replicas.leave(world, third)
    })
    .await
}

/// A process suspended for longer than the lease resumes with unsent bindings.
#[tokio::test]
async fn b19_leader_suspended_beyond_its_lease_writes_nothing_and_exits() -> Result<()> {
    let audited = audited().await?;
    play_on(&audited.plane, "paused", async |world| {
        let mut replicas = Replicas::start(world, 2).await?;
        let (first, holder) = replicas.leader_after("").await?;
        let pod_fleet = PodFleet::new(world, 300).await?;
        let creating = pod_fleet.create(world);
        pod_fleet.placed_at_least(world, 60).await?;
        replicas.running[first].pause()?;
        let placed = pod_fleet.placed(world).await?.len();
        ensure!(placed < 300, "it was too fast to be stopped in the middle");
        let began = Instant::now();
        let (second, _) = replicas.leader_after(&holder).await?;
        eprintln!("leading: the lease taken over {:?} after its holder was stopped", began.elapsed());
        assert_ne!(first, second);
        // The second is at work when the first resumes.
        pod_fleet.placed_at_least(world, placed + 20).await?;
        replicas.running[first].resume()?;
        let status = replicas.running[first].end()?;
        assert_eq!(status.code(), Some(1), "{}", replicas.running[first].log_tail());
        ensure!(
            replicas.running[first].log()?.contains("leaderelection lost"),
            "{}",
            replicas.running[first].log_tail()
        );
        creating.await??;
        pod_fleet.check_in_the_end(world).await?;
        check_that_one_wrote_at_a_time(&audited, &[first, second]).await?;
        // After a restart, it is a standby replica.
        replicas.running[first].start_again(world.plane)?;
        replicas.running[first].wait_until_ready().await?;
        replicas.leave(world, second)
    })
    .await
}

#[tokio::test]
async fn api_server_outage_beyond_the_lease_ends_the_leader() -> Result<()> {
    let audited = audited().await?;
    play_on(&audited.plane, "away", async |world| {
        let mut replicas = Replicas::start(world, 2).await?;
        let (first, holder) = replicas.leader_after("").await?;
        let second = 1 - first;
        let pod_fleet = PodFleet::new(world, 300).await?;
        let creating = pod_fleet.create(world);
        pod_fleet.placed_at_least(world, 60).await?;
        audited.plane.kill(Component::ApiServer)?;
        let status = replicas.running[first].end()?;
        assert_eq!(status.code(), Some(1), "{}", replicas.running[first].log_tail());
        ensure!(
            replicas.running[first].log()?.contains("leaderelection lost"),
            "{}",
            replicas.running[first].log_tail()
        );
        replicas.running[second].check()?;
        audited.plane.start(Component::ApiServer).await?;
        let began = Instant::now();
        let (leader, _) = replicas.leader_after(&holder).await?;
        eprintln!("leading: the lease taken over {:?} after the API server was back", began.elapsed());
        assert_eq!(leader, second);
        creating.await??;
        pod_fleet.check_in_the_end(world).await?;
        check_that_one_wrote_at_a_time(&audited, &[first, second]).await?;
        replicas.leave(world, second)
    })
    .await
}

/// Only its scheduling thread is suspended, as in a deadlock; the rest of the process runs, including lease renewal.
#[tokio::test]
async fn b18_stuck_scheduling_thread_fails_liveness_and_releases_lease() -> Result<()> {
    let audited = audited().await?;
    play_on(&audited.plane, "stuck", async |world| {
        let replicas = Replicas::start(world, 2).await?;
        let (first, holder) = replicas.leader_after("").await?;
        world.node("a").create(&world.client).await?;
        world.create("before", &json!({})).await?;
        world.bound("before").await?;
        let stuck = &replicas.running[first];
        let thread = scheduling_thread(stuck.pid())?;
        let suspended = Suspended::new(thread)?;

        let began = Instant::now();
        let (second, next) = replicas.leader_after(&holder).await?;
        eprintln!("leading: the lease of a stuck scheduling thread taken over after {:?}", began.elapsed());
        assert_ne!(first, second);
        world.create("meanwhile", &json!({})).await?;
        world.bound("meanwhile").await?;
        wait_for("the stuck replica's liveness to fail", PATIENCE, || async {
            let (status, body) = stuck.get("/livez", None).await?;
            ensure!(
                status == 500 && body.contains("[-]scheduling-thread failed"),
                "/livez answers {status}: {body}"
            );
            Ok(())
        })
        .await?;
        ensure!(
            stuck.log()?.contains("released the lease"),
            "it did not release the lease: {}",
            stuck.log_tail()
        );
        assert_eq!(replicas.running[second].get("/livez", None).await?.0, 200);

        drop(suspended);
        wait_for("it to recover", PATIENCE, || async {
            let (status, body) = stuck.get("/livez", None).await?;
            ensure!(status == 200, "/livez answers {status}: {body}");
            Ok(())
        })
        .await?;
        world.create("after", &json!({})).await?;
        world.bound("after").await?;
        assert_eq!(replicas.holder().await?, next, "it is a standby replica");
        check_that_one_wrote_at_a_time(&audited, &[first, second]).await?;
        replicas.leave(world, second)
    })
    .await
}

/// A suspended thread of a child process. It continues at the end, also if the test fails: a process whose thread is
/// traced cannot be waited for.
struct Suspended(Pid);

impl Suspended {
    fn new(thread: Pid) -> Result<Self> {
        ptrace::seize(thread, ptrace::Options::empty()).context("cannot trace our own child")?;
        let suspended = Self(thread);
        ptrace::interrupt(thread)?;
        waitpid(thread, Some(WaitPidFlag::__WALL))?;
        Ok(suspended)
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        // It fails only if the process has ended.
        let _ = ptrace::detach(self.0, None);
    }
}

/// Returns the process's scheduling thread.
fn scheduling_thread(process: u32) -> Result<Pid> {
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?;
        if std::fs::read_to_string(thread.path().join("comm"))?.trim() == "scheduler" {
            return Ok(Pid::from_raw(thread.file_name().to_string_lossy().parse()?));
        }
    }
    anyhow::bail!("it has no thread named scheduler")
}
