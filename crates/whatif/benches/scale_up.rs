//! Times the scale-up question of `supercargo whatif serve`: how many nodes of a template do 1,000 pending pods need in
//! a cluster of 5,000 nodes? From the JSON of the request to that of the answer, without the network.
//!
//! `cargo bench -p supercargo-whatif --bench scale_up`

#![allow(clippy::print_stdout, reason = "the program prints its results")]

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use supercargo_whatif::cluster::{Interrupt, Setup};
use supercargo_whatif::server::{Limits, Method, Request, Service, User};

const NODES: usize = 5_000;
/// Running pods of each node: together 7 of its 8 CPUs.
const RUNNING: usize = 10;
const PENDING: usize = 1_000;
/// Workloads of the pending pods in the second scenario.
const WORKLOADS: usize = 20;
const RUNS: usize = 11;

fn node(name: &str, zone: usize) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "uid": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{zone}") } },
        "status": { "allocatable": { "cpu": "8", "memory": "32Gi", "pods": "110" } } })
}

fn pod(name: &str, app: &str, cpu: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "uid": name, "labels": { "app": app } },
        "spec": { "containers": [{ "name": "c", "image": "i", "resources":
            { "requests": { "cpu": cpu, "memory": "1Gi" } } }] } })
}

struct Asker {
    service: Service,
    started: Instant,
}

impl Asker {
    fn ask(&mut self, path: &str, body: Vec<u8>) -> (Value, Duration) {
        let user = User { name: "bench".to_owned(), uid: String::new() };
        let (method, path) = (Method::Post, path.to_owned());
        let request = Request { user, method, path, body, reads_cluster: true };
        let began = Instant::now();
        let answer = self.service.answer(&request, self.started.elapsed(), &Interrupt::default());
        let took = began.elapsed();
        assert!(answer.status < 300, "{}: {}", answer.status, answer.body);
        (serde_json::from_str(&answer.body).expect("it is JSON"), took)
    }

    /// Asks the question several times, and then really adds the nodes.
    fn scenario(&mut self, name: &str, snapshot: &str, pods: &[Value]) {
        let body =
            json!({ "templates": [{ "name": "t", "node": node("t", 0) }], "objects": pods }).to_string();
        let mut times = Vec::new();
        let mut answer = Value::Null;
        for _ in 0..RUNS {
            let (answered, took) = self.ask(&format!("snapshots/{snapshot}/scaleUp"), body.clone().into());
            times.push(took);
            answer = answered;
        }
        times.sort();
        let fork = json!({ "of": snapshot }).to_string();
        let (fork, _) = self.ask("forks", fork.into());
        let fork = fork["id"].as_str().expect("it has an id").to_owned();
        let count = answer["nodes"][0]["count"].clone();
        let add = json!({ "template": node("t", 0), "count": count }).to_string();
        self.ask(&format!("forks/{fork}/addNodes"), add.into());
        let place = json!({ "objects": pods }).to_string();
        let (placed, _) = self.ask(&format!("forks/{fork}/place"), place.into());
        let (said, really) = (answer["placements"].as_array(), placed["placements"].as_array());
        let pairs = said.into_iter().flatten().zip(really.into_iter().flatten());
        let differences = pairs.filter(|(said, really)| said != really).count();
        let lengths = [said, really].map(|list| list.map_or(0, Vec::len));
        println!(
            "{name}: {count} nodes, {} of {} pods pending without them, {} with them; {differences} differences of {lengths:?} \
             from really adding them; median {:.1?}, {:.1?} to {:.1?} of {RUNS}",
            answer["pendingWithout"],
            pods.len(),
            answer["pending"],
            times[RUNS / 2],
            times[0],
            times[RUNS - 1],
        );
        assert_eq!((differences, lengths), (0, [pods.len(); 2]), "the answer must come true");
    }
}

fn main() {
    let mut objects: Vec<Value> = (0..NODES).map(|at| node(&format!("n{at}"), at % 3)).collect();
    for at in 0..NODES * RUNNING {
        let mut running = pod(&format!("r{at}"), &format!("app-{}", at % 500), "700m");
        running["spec"]["nodeName"] = format!("n{}", at % NODES).into();
        objects.push(running);
    }
    let upload = json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string();
    let service = Service::new(Setup::default(), Limits::default(), None).expect("the defaults are valid");
    let mut asker = Asker { service, started: Instant::now() };
    let (bytes, began) = (upload.len(), Instant::now());
    let (snapshot, _) = asker.ask("snapshots", upload.into());
    println!("{NODES} nodes, {} pods, {bytes} bytes: loaded in {:.1?}", NODES * RUNNING, began.elapsed());
    let snapshot = snapshot["id"].as_str().expect("it has an id").to_owned();

    let pods: Vec<Value> = (0..PENDING).map(|at| pod(&format!("p{at}"), "new", "1500m")).collect();
    asker.scenario("identical pods", &snapshot, &pods);
    let pods: Vec<Value> = (0..PENDING)
        .map(|at| {
            let app = format!("new-{}", at % WORKLOADS);
            let mut pod = pod(&format!("p{at}"), &app, &format!("{}m", 1_100 + 100 * (at % WORKLOADS)));
            pod["spec"]["topologySpreadConstraints"] = json!([{ "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway",
                "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": app } } }]);
            pod
        })
        .collect();
    asker.scenario("pods of 20 workloads with soft spreading", &snapshot, &pods);
}
