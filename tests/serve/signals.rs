//! Signals that come while the program starts: an API server accepts its connection and never answers.

use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::TcpListener;

use crate::server::{HANG, soon};

/// Runs the program, and sends it a signal after its first connection to the API server.
async fn stopped_by(signal: Signal, arguments: &[&str]) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let server = format!("http://{}", listener.local_addr().unwrap());
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: a, clusters: [{{name: a, cluster: {{server: '{server}'}}}}], \
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}], users: [{{name: a, user: {{}}}}]}}"
    );
    std::fs::write(&file, kubeconfig).unwrap();
    let program = Command::new(env!("CARGO_BIN_EXE_supercargo"))
        .args(arguments)
        .args(["--kubeconfig", file.to_str().unwrap(), "--secure-port=0"])
        .env_clear()
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let process = Pid::from_raw(program.id().try_into().unwrap());
    let ended = tokio::task::spawn_blocking(move || program.wait_with_output());
    let _connection = soon("a connection", listener.accept()).await.unwrap();
    kill(process, signal).unwrap();
    let Ok(output) = tokio::time::timeout(HANG, ended).await else {
        kill(process, Signal::SIGKILL).unwrap();
        panic!("the program did not end");
    };
    output.unwrap().unwrap()
}

#[tokio::test]
async fn signal_during_the_start_ends_the_program_with_exit_code_0() {
    let starts: [(Signal, &[&str]); 3] = [
        (Signal::SIGTERM, &[]),
        (Signal::SIGINT, &["--leader-elect=false"]),
        (Signal::SIGTERM, &["--shadow-of=default-scheduler"]),
    ];
    for (signal, arguments) in starts {
        let output = stopped_by(signal, arguments).await;
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {log}");
        assert!(log.contains("stopped before the start was complete"), "{arguments:?}: {log}");
    }
}

#[tokio::test]
async fn signal_while_whatif_serve_connects_ends_it_with_exit_code_0() {
    let output = stopped_by(Signal::SIGTERM, &["whatif", "serve"]).await;
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(!log.contains("serving whatif"), "{log}");
}
