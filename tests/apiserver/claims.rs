//! Pods that share a ResourceClaim, or ask for an extended resource that only devices provide.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::harness::binaries::chosen_minor;
use crate::harness::wait::PATIENCE;
use crate::harness::{nodes, wait_for};
use crate::world::{World, play, requesting};

/// Creates a node with two devices, and the class that selects them.
async fn devices(world: &World<'_>) -> Result<String> {
    let node = world.node("a");
    nodes::create_all(&world.client, std::slice::from_ref(&node)).await?;
    let node = format!("{}-a", world.name);
    let driver = format!("{}.example.com", world.name);
    let class = json!({
        "metadata": {"name": world.name},
        "spec": {
            "selectors": [{"cel": {"expression": format!("device.driver == '{driver}' && device.attributes['{driver}'].good")}}],
            "config": [{"opaque": {"driver": driver, "parameters": {"mode": "<shared>"}}}],
            "extendedResourceName": format!("{driver}/gpu"),
        },
    });
    let device = |name: &str, good: bool| json!({"name": name, "attributes": {"good": {"bool": good}}});
    let slice = json!({
        "metadata": {"name": world.name},
        "spec": {
            "driver": driver, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [device("g0", false), device("g1", true), device("g2", true)],
        },
    });
    let class: DeviceClass = serde_json::from_value(class)?;
    Api::all(world.client.clone()).create(&PostParams::default(), &class).await?;
    let slice: ResourceSlice = serde_json::from_value(slice)?;
    Api::all(world.client.clone()).create(&PostParams::default(), &slice).await?;
    Ok(driver)
}

async fn claims(world: &World<'_>) -> Result<Vec<Value>> {
    let claims: Api<ResourceClaim> = Api::namespaced(world.client.clone(), &world.name);
    let list = claims.list(&ListParams::default()).await?;
    list.items.iter().map(|claim| serde_json::to_value(claim).context("a claim is JSON")).collect()
}

#[tokio::test]
async fn claims_get_devices_and_reservations_before_their_pods_are_bound() -> Result<()> {
    play("claims", async |world| {
        let driver = devices(world).await?;
        let request = json!({"name": "r", "exactly": {"deviceClassName": world.name}});
        let claim = json!({"metadata": {"name": "shared"}, "spec": {"devices": {"requests": [request]}}});
        let claim: ResourceClaim = serde_json::from_value(claim)?;
        let api: Api<ResourceClaim> = Api::namespaced(world.client.clone(), &world.name);
        api.create(&PostParams::default(), &claim).await?;
        let mut sharing = requesting(&json!({"cpu": "1"}));
        sharing["resourceClaims"] = json!([{"name": "c", "resourceClaimName": "shared"}]);
        for name in ["one", "two"] {
            world.create(name, &sharing).await?;
            world.bound(name).await?;
        }
        let shared = claims(world).await?.pop().context("the claim is there")?;
        ensure!(
            shared["metadata"]["finalizers"] == json!(["resource.kubernetes.io/delete-protection"]),
            "{shared}"
        );
        let devices = &shared["status"]["allocation"]["devices"];
        ensure!(devices["results"][0]["device"] == "g1", "{shared}");
        ensure!(devices["config"][0]["opaque"]["parameters"]["mode"] == "<shared>", "{shared}");
        ensure!(shared["status"]["reservedFor"].as_array().is_some_and(|pods| pods.len() == 2), "{shared}");

        let resource = format!("{driver}/gpu");
        let mut extended = requesting(&json!({"cpu": "1", &resource: "1"}));
        extended["containers"][0]["resources"]["limits"] = json!({ &resource: "1" });
        world.create("extended", &extended).await?;
        if chosen_minor() < 36 {
            // The gate DRAExtendedResource is off, so the resource is one that no node has.
            world.waiting("extended", &format!("Insufficient {resource}")).await?;
            return forget(world).await;
        }
        world.bound("extended").await?;
        let all = claims(world).await?;
        let made =
            all.iter().find(|claim| claim["metadata"]["name"] != "shared").context("a claim was made")?;
        ensure!(made["status"]["allocation"]["devices"]["results"][0]["device"] == "g2", "{made}");
        let pod = serde_json::to_value(world.pods().get("extended").await?)?;
        let named = &pod["status"]["extendedResourceClaimStatus"];
        ensure!(named["resourceClaimName"] == made["metadata"]["name"], "{pod}");
        ensure!(named["requestMappings"][0]["resourceName"] == *resource, "{pod}");

        world.create("last", &extended).await?;
        world.waiting("last", "cannot allocate all claims").await?;
        forget(world).await
    })
    .await
}

/// Deletes what [`devices`] has created.
async fn forget(world: &World<'_>) -> Result<()> {
    let (slices, classes) = (world.client.clone(), world.client.clone());
    Api::<ResourceSlice>::all(slices).delete(&world.name, &DeleteParams::default()).await?;
    Api::<DeviceClass>::all(classes).delete(&world.name, &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test]
async fn claims_are_not_reserved_without_the_right_to_bind_them() -> Result<()> {
    play("binder", async |world| {
        let request = json!({"name": "r", "exactly": {"deviceClassName": world.name}});
        let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}});
        let claim: ResourceClaim = serde_json::from_value(claim)?;
        let api: Api<ResourceClaim> = Api::namespaced(world.client.clone(), &world.name);
        api.create(&PostParams::default(), &claim).await?;
        let admin = world.plane.admin();
        let account = format!("system:serviceaccount:{}:binder", world.name);
        // The API server asks for the right in the whole cluster.
        let names = |resource: &str| format!("{}-{}", world.name, resource.replace('/', "-"));
        let grant = async |resource: &str| {
            let (name, resource) = (
                names(resource),
                format!("--resource={}", resource.replacen("claims", "claims.resource.k8s.io", 1)),
            );
            admin.kubectl(&["create", "clusterrole", &name, "--verb=get,patch", &resource]).await?;
            let (role, user) = (format!("--clusterrole={name}"), format!("--user={account}"));
            admin.kubectl(&["create", "clusterrolebinding", &name, &role, &user]).await
        };
        let device = json!({"request": "r", "driver": "d.example.com", "pool": "p", "device": "g"});
        let status = json!({"status": {"allocation": {"devices": {"results": [device]}}}}).to_string();
        let kind = ["resourceclaims.v1.resource.k8s.io", "c", "-n", &world.name];
        let write = ["--subresource=status", "--type=merge", "-p", &status, "--as", &account];
        let patch = [&["patch"][..], &kind, &write].concat();
        let rights = ["resourceclaims", "resourceclaims/status", "resourceclaims/binding"];
        grant(rights[0]).await?;
        grant(rights[1]).await?;
        // The API server learns of the roles from its watches. Before 1.36, it does not ask for the third right.
        let asked = if chosen_minor() < 36 { &rights[..2] } else { &rights };
        if asked.len() == 3 {
            wait_for("the missing right to be named", PATIENCE, || async {
                let Err(refused) = admin.kubectl(&patch).await else { bail!("the patch was accepted") };
                ensure!(format!("{refused:#}").contains("resourceclaims/binding"), "{refused:#}");
                Ok(())
            })
            .await?;
            grant(rights[2]).await?;
        }
        wait_for("the patch to be accepted", PATIENCE, || admin.kubectl(&patch)).await?;
        for right in asked {
            admin.kubectl(&["delete", "clusterrolebinding,clusterrole", &names(right)]).await?;
        }
        Ok(())
    })
    .await
}
