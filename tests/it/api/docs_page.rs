//! Owns the page of the documents in a real browser: what a person sees of it without a token and without a network.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use crate::{
    api::browser::{BROWSER_PATIENCE, Browser},
    support::{daemon::TestDaemon, rest::Rest, wait::wait_for, ws::Ws},
};

/// A page that is looked at through the browser's own protocol.
struct Page {
    socket: Ws,
    asked: u64,
    /// Everything that the browser told of.
    told: Vec<Value>,
}

impl Page {
    async fn of(profile: &Path) -> Self {
        let port = wait_for("the browser's port", BROWSER_PATIENCE, async || {
            let file = std::fs::read_to_string(profile.join("DevToolsActivePort")).ok()?;
            file.lines().next().map(str::to_owned)
        });
        let base = format!("http://127.0.0.1:{}", port.await);
        let rest = Rest::new(&base, None);
        let path = wait_for("the browser's page", BROWSER_PATIENCE, async || {
            let pages = rest.get("/json").await.body;
            let page = pages.as_array()?.iter().find(|it| it["type"] == "page")?;
            let url = page["webSocketDebuggerUrl"].as_str()?;
            Some(format!("/devtools/page/{}", url.rsplit('/').next()?))
        });
        let socket = Ws::try_connect(&base, &path.await, &[], None).await.unwrap();
        Self {
            socket,
            asked: 0,
            told: Vec::new(),
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.socket
            .send(&json!({"id": id, "method": method, "params": params}))
            .await;
        let mut frames = self.socket.until(method, |frame| frame["id"] == id).await;
        let mut answer = frames.pop().unwrap();
        self.told.extend(frames);
        assert!(answer.get("error").is_none(), "{method}: {answer:#}");
        answer["result"].take()
    }

    /// The value of an expression on the page.
    async fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", params).await;
        answer["result"]["value"].clone()
    }

    async fn open(&mut self, url: &str) {
        self.ask("Page.navigate", json!({ "url": url })).await;
        let frames = self
            .socket
            .until("the page", |frame| frame["method"] == "Page.loadEventFired");
        let frames = frames.await;
        self.told.extend(frames);
    }

    async fn key(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key == "Enter" && kind == "keyDown" {
                "\r"
            } else {
                ""
            };
            let params =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.ask("Input.dispatchKeyEvent", params).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documents_are_read_in_a_browser_without_a_token() {
    let daemon = TestDaemon::with_fake().start().await;
    let profile = tempfile::tempdir().unwrap();
    let _browser = Browser::open("about:blank", profile.path());
    let mut page = Page::of(profile.path()).await;
    for domain in ["Network", "Log", "Runtime", "Page"] {
        page.ask(&format!("{domain}.enable"), json!({})).await;
    }
    let narrow = json!({"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": true});
    page.ask("Emulation.setDeviceMetricsOverride", narrow).await;
    page.open(&format!("{}/docs", daemon.url())).await;

    // Both documents are there, and a person finds an operation by the keyboard.
    let text = page.value("document.body.textContent").await;
    let text = text.as_str().unwrap();
    for part in [
        "/v1/sessions/{id}/messages",
        "trunkline.subscribe",
        "session_not_found",
        "curl -X POST",
    ] {
        assert!(text.contains(part), "no {part}");
    }
    let closed = "document.querySelectorAll('details[open]').length";
    assert_eq!(page.value(closed).await, 0);
    let is_summary = "document.activeElement.tagName";
    let mut steps = 0;
    while page.value(is_summary).await != "SUMMARY" {
        steps += 1;
        assert!(steps < 40, "Tab leads to no part");
        page.key("Tab", 9).await;
    }
    page.key("Enter", 13).await;
    assert_eq!(page.value(closed).await, 1);

    // An address of a part opens it.
    page.value("location.hash = '#schema-Session'").await;
    wait_for("the part opens", Duration::from_secs(10), async || {
        let open = page
            .value("document.getElementById('schema-Session').parentElement.open")
            .await;
        (open == true).then_some(())
    })
    .await;

    // All of it fits into a narrow window.
    let wide = "document.querySelectorAll('details').forEach((it) => { it.open = true; }); \
                document.documentElement.scrollWidth";
    assert_eq!(page.value(wide).await, 360);

    let colour = "getComputedStyle(document.body).backgroundColor";
    let mut colours = Vec::new();
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        page.ask("Emulation.setEmulatedMedia", features).await;
        colours.push(page.value(colour).await);
    }
    assert_ne!(colours[0], colours[1], "one look for day and night");

    let told = |method: &str| {
        page.told
            .iter()
            .filter(|it| it["method"] == method)
            .collect::<Vec<_>>()
    };
    let requests = told("Network.requestWillBeSent");
    let foreign: Vec<_> = requests
        .iter()
        .filter_map(|it| it["params"]["request"]["url"].as_str())
        .filter(|url| !url.starts_with(daemon.url()) && !url.starts_with("data:"))
        .collect();
    assert!(!requests.is_empty() && foreign.is_empty(), "{foreign:?}");
    for method in [
        "Log.entryAdded",
        "Runtime.consoleAPICalled",
        "Runtime.exceptionThrown",
    ] {
        let entries = told(method);
        assert!(entries.is_empty(), "{entries:#?}");
    }
}
