//! Environment variables for proxies: an API server behind a proxy, and a local one, which is never accessed
//! through a proxy.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::Component;
use crate::harness::proxy::Proxy;
use crate::harness::supercargo::Setup;
use crate::world::{play, requesting};

#[tokio::test]
async fn environment_proxy_is_used_except_for_this_machine() -> Result<()> {
    play("proxied", async |world| {
        world.node("a").allocatable("cpu", "4").create(&world.client).await?;
        let proxy = Proxy::tunnel_to(world.plane.port(Component::ApiServer)).await?;
        world.supercargo.terminate()?;
        // A name that only the proxy can resolve.
        let server = Some("https://kubernetes.default.svc".to_owned());
        let env = vec![("HTTPS_PROXY", proxy.url())];
        let setup = Setup { server, env, ..Setup::called(&world.name) };
        world.supercargo = setup.launch(world.plane).await?;
        world.supercargo.wait_until_ready().await?;
        world.create("through", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("through").await?;
        ensure!(proxy.tunnels() > 0, "it found another way");

        let through = proxy.tunnels();
        world.supercargo.terminate()?;
        let env = vec![("https_proxy", proxy.url()), ("no_proxy", "10.0.0.0/8,127.0.0.0/8".to_owned())];
        world.supercargo = Setup { env, ..Setup::called(&world.name) }.launch(world.plane).await?;
        world.supercargo.wait_until_ready().await?;
        world.create("beside", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("beside").await?;
        assert_eq!(proxy.tunnels(), through, "this machine is never behind a proxy");
        Ok(())
    })
    .await
}
