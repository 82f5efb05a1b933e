//! A headless browser, controlled over WebDriver (<https://www.w3.org/TR/webdriver2/>).

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of each action.
const PATIENCE: Duration = Duration::from_secs(60);
/// Key of an element reference in WebDriver's JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Maximum size of a screenshot in bytes.
const PICTURE_MAX: usize = 300_000;
/// Number of lines of a page's text that are kept beside its picture.
const TEXT_LINES: usize = 150;

/// WebDriver's code points of keys.
pub(crate) mod keys {
    pub(crate) const ENTER: &str = "\u{e007}";
    pub(crate) const ESCAPE: &str = "\u{e00c}";
    pub(crate) const LEFT: &str = "\u{e012}";
    pub(crate) const RIGHT: &str = "\u{e014}";
    pub(crate) const DOWN: &str = "\u{e015}";
    pub(crate) const UP: &str = "\u{e013}";
    pub(crate) const CONTROL: &str = "\u{e009}";
    pub(crate) const TAB: &str = "\u{e004}";
    pub(crate) const END: &str = "\u{e010}";
}

/// The chromedriver process.
pub(crate) struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    /// Starts chromedriver on a free port.
    pub(crate) fn start() -> Self {
        let mut process =
            Command::new(std::env::var_os("CHROMEDRIVER").unwrap_or_else(|| "chromedriver".into()))
                .arg("--port=0")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("chromedriver can be started: tests/release/chromium.sh installs it");
        let out = process.stdout.take().expect("it was asked for");
        let mut lines = BufReader::new(out).lines();
        let port = loop {
            let line = lines.next().expect("it says on which port it listens").expect("it speaks UTF-8");
            if let Some((_, port)) = line.rsplit_once("started successfully on port ") {
                break port.trim_end_matches('.').parse().expect("a port is a number");
            }
        };
        // Keep reading its output, so that it never blocks.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, port }
    }

    /// Returns the largest resident size, in bytes, of a process that shows a page.
    pub(crate) fn peak_memory(&self) -> u64 {
        let pids = std::fs::read_dir("/proc").expect("a Linux system").flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let read =
            |pid: u32, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let field = |pid: u32, name: &str| {
            let status = read(pid, "status");
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap_or_default()
        };
        let is_ours = |pid: u32| {
            let parents = std::iter::successors(Some(u64::from(pid)), |&pid| {
                Some(field(u32::try_from(pid).ok()?, "PPid:")).filter(|&parent| parent > 1)
            });
            parents.take(20).any(|pid| pid == u64::from(self.process.id()))
        };
        let pages = pids.filter(|&pid| read(pid, "cmdline").contains("--type=renderer") && is_ours(pid));
        pages.map(|pid| field(pid, "VmHWM:") * 1024).max().unwrap_or_default()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = Vec::new();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).map_err(|error| error.to_string())?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((_, value)) =
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                length = value.trim().parse().map_err(|_| format!("{line} is no length"))?;
            }
        }
        reader.take(length).read_to_end(&mut answer).map_err(|error| error.to_string())?;
        let mut answer: Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        let value = answer["value"].take();
        if value["error"].is_string() {
            return Err(format!("{method} {path}: {}: {}", value["error"], value["message"]));
        }
        Ok(value)
    }

    /// Opens a browser with a window of this size.
    pub(crate) fn open(&self, width: u32, height: u32, is_dark: bool) -> Browser<'_> {
        let mut args = vec![
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--hide-scrollbars".to_owned(),
            "--force-device-scale-factor=1".to_owned(),
            // No host is reachable, and attempts are recorded.
            "--disable-background-networking".to_owned(),
            format!("--window-size={width},{height}"),
        ];
        if is_dark {
            args.push("--force-dark-mode".to_owned());
        }
        let mut options = json!({ "args": args });
        if let Some(binary) = std::env::var_os("CHROMIUM") {
            options["binary"] = json!(binary.to_string_lossy());
        }
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        } } });
        let session =
            self.ask("POST", "/session", &wanted).unwrap_or_else(|error| panic!("no browser: {error}"));
        let id = session["sessionId"].as_str().expect("a session has an id").to_owned();
        let browser = Browser { driver: self, id };
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.command("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!({ "features": [
            { "name": "prefers-color-scheme", "value": if is_dark { "dark" } else { "light" } },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] });
        browser.command("Emulation.setEmulatedMedia", &scheme);
        browser
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A browser with one page.
pub(crate) struct Browser<'a> {
    driver: &'a Driver,
    id: String,
}

impl Browser<'_> {
    fn post(&self, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}{path}", self.id);
        self.driver.ask("POST", &path, body).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Sends a command of the DevTools protocol.
    pub(crate) fn command(&self, name: &str, params: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": name, "params": params }))
    }

    /// Opens a file.
    pub(crate) fn go(&self, file: &Path) {
        self.visit(&format!("file://{}", file.display()));
    }

    /// Opens an address.
    pub(crate) fn visit(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Evaluates an expression in the page.
    pub(crate) fn eval(&self, expression: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": format!("return {expression}"), "args": [] }))
    }

    /// Evaluates an expression to a string.
    pub(crate) fn text(&self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while self.eval(expression) != Value::Bool(true) {
            assert!(Instant::now() < until, "never true: {expression}");
            std::thread::yield_now();
        }
    }

    fn element(&self, css: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": css }));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("{css} is nowhere")).to_owned()
    }

    /// Clicks an element like a user: it must be reachable by the pointer.
    pub(crate) fn click(&self, css: &str) {
        let element = self.element(css);
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    /// Empties a text field.
    pub(crate) fn clear(&self, css: &str) {
        let element = self.element(css);
        self.post(&format!("/element/{element}/clear"), &json!({}));
    }

    /// Types into an element.
    pub(crate) fn write(&self, css: &str, text: &str) {
        let element = self.element(css);
        self.post(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Presses keys in the focused element.
    pub(crate) fn press(&self, keys: &[&str]) {
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| {
                [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
            })
            .collect();
        self.post(
            "/actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        );
    }

    /// Presses a key while another one is held.
    pub(crate) fn press_with(&self, held: &str, key: &str) {
        let action = |kind: &str, value: &str| json!({ "type": kind, "value": value });
        let actions =
            [action("keyDown", held), action("keyDown", key), action("keyUp", key), action("keyUp", held)];
        self.post(
            "/actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        );
    }

    /// Returns new console messages, and all requested addresses, since the last call.
    pub(crate) fn heard(&self) -> (Vec<String>, Vec<String>) {
        let log = |kind: &str| self.post("/se/log", &json!({ "type": kind }));
        let said = log("browser").as_array().cloned().unwrap_or_default();
        let said =
            said.iter().map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect();
        let events = log("performance").as_array().cloned().unwrap_or_default();
        let asked = events.iter().filter_map(|entry| {
            let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let event = &event["message"];
            let is_request = event["method"] == "Network.requestWillBeSent";
            is_request.then(|| event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned())
        });
        (said, asked.collect())
    }

    /// Takes a screenshot as PNG, and compares the text of the page with the text that was kept when its picture was
    /// taken. Stores both if `SCREENSHOTS` is set.
    pub(crate) fn picture(&self, folder: &Path, name: &str) {
        let path = format!("/session/{}/screenshot", self.id);
        let shot = self.driver.ask("GET", &path, &Value::Null).unwrap_or_else(|error| panic!("{error}"));
        let bytes: k8s_openapi::ByteString = serde_json::from_value(shot).expect("a picture is base64");
        assert!(
            bytes.0.starts_with(b"\x89PNG") && bytes.0.len() < PICTURE_MAX,
            "{name}: {} bytes",
            bytes.0.len()
        );
        let lines = self.text("`${document.querySelector('#panel').innerText}\n${document.body.innerText}`");
        let text =
            lines.lines().take(TEXT_LINES).flat_map(|line| [line.trim_end(), "\n"]).collect::<String>();
        let file = folder.join(name).with_extension("txt");
        if std::env::var_os("SCREENSHOTS").is_some() {
            std::fs::create_dir_all(folder).expect("a folder can be made");
            std::fs::write(folder.join(name), bytes.0).expect("a picture can be written");
            std::fs::write(&file, &text).expect("a text can be written");
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(text, stored, "{name} shows an older page: `make screenshots` takes it again");
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        let _ = self.driver.ask("DELETE", &format!("/session/{}", self.id), &Value::Null);
    }
}
