//! Owns what a real browser lets pages of other origins do.

use std::{
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{daemon::TestDaemon, programs::fake_prompt, server::Server};

/// A browser takes its time to start on a machine that has much to do.
pub(crate) const BROWSER_PATIENCE: Duration = Duration::from_secs(120);

/// The modules that `make clients` has installed.
const MODULES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/target/clients/typescript/node_modules"
);

/// Uses the API as a front end would, and tells its own server what came of it.
const PAGE: &str = r#"<!doctype html><meta charset="utf-8"><script>
const { daemon, token, cwd } = SETUP;
const told = {};
async function use() {
  const headers = { authorization: `Bearer ${token}` };
  const made = await fetch(`${daemon}/v1/sessions?wait=ready`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', 'idempotency-key': 'one' },
    body: JSON.stringify({ cwd }),
  });
  told.made = made.status;
  told.location = made.headers.get('location');
  told.request = made.headers.get('x-request-id') !== null;
  const path = `${daemon}${told.location}`;
  const stream = await fetch(`${path}/events`, {
    headers: { ...headers, accept: 'text/event-stream', 'last-event-id': '0' },
  });
  told.stream = stream.status;
  const { value } = await stream.body.getReader().read();
  told.events = new TextDecoder().decode(value).includes('data: ');
  const unknown = await fetch(`${daemon}/v1/none`, { headers });
  told.problem = (await unknown.json()).code;
  told.anonymous = (await fetch(`${daemon}/v1/sessions`)).status;
  told.changed = (await fetch(path, {
    method: 'PATCH',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ title: 'from a page' }),
  })).status;
  told.deleted = (await fetch(path, { method: 'DELETE', headers })).status;
}
use().catch((error) => { told.error = String(error); })
  .finally(() => fetch('/told', { method: 'POST', body: JSON.stringify(told) }));
</script>"#;

/// Opens what takes no header: an event stream and sockets, each with a ticket of its own.
const TICKETS: &str = r#"<!doctype html><meta charset="utf-8"><script>
const { daemon, token, id } = SETUP;
const told = {};
async function ticket(path, role) {
  const made = await fetch(`${daemon}/v1/tickets`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ path, role }),
  });
  return (await made.json()).ticket;
}
function event(target, name) {
  return new Promise((resolve, reject) => {
    target.addEventListener(name, resolve, { once: true });
    target.addEventListener('error', () => reject(new Error(`no ${name}`)), { once: true });
  });
}
async function use() {
  const events = `/v1/sessions/${id}/events`;
  const source = new EventSource(`${daemon}${events}?after=1&ticket=${await ticket(events, 'viewer')}`);
  told.event = (await event(source, 'message')).lastEventId;
  source.close();
  const path = `/v1/sessions/${id}/ws`;
  const url = `${daemon.replace('http', 'ws')}${path}`;
  const shown = await ticket(path, 'viewer');
  const socket = new WebSocket(url, ['trunkline.v1', `ticket.${shown}`]);
  told.frame = JSON.parse((await event(socket, 'message')).data).type;
  told.protocol = socket.protocol;
  socket.send(JSON.stringify({ type: 'user', message: { role: 'user', content: 'PLANTED' } }));
  told.refused = JSON.parse((await event(socket, 'message')).data).code;
  const again = new WebSocket(`${url}?ticket=${shown}`);
  told.again = await event(again, 'open').then(() => 'opened', () => 'refused');
}
use().catch((error) => { told.error = String(error); })
  .finally(() => fetch('/told', { method: 'POST', body: JSON.stringify(told) }));
</script>"#;

/// Follows a session with our client, whose modules the page's server has as `npm` installed them.
const CLIENT: &str = r#"<!doctype html><meta charset="utf-8"><script type="importmap">{"imports": {
  "trunkline-client": "/trunkline-client/dist/index.js",
  "openapi-fetch": "/openapi-fetch/dist/index.mjs"
}}</script><script type="module">
const { daemon, token, cwd, prompt } = SETUP;
const told = { asked: [], seqs: [] };
async function use() {
  const { Trunkline, TrunklineError, cli } = await import('trunkline-client');
  const trunkline = new Trunkline({
    url: daemon, token,
    ticket: async (path) => (await trunkline.rest.POST('/v1/tickets', { body: { path } })).ticket,
  });
  const onApproval = ({ subject }) => { told.asked.push(subject); return { decision: 'allow' }; };
  const agent = await trunkline.start({ cwd, prompt }, { onApproval });
  // More records come than a loop that has not begun may leave in memory.
  while ((await agent.session.view()).turns === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  for await (const record of agent) {
    told.seqs.push(record.seq);
    const result = cli(record, 'result');
    if (result) { told.result = result.subtype; break; }
  }
  agent.close();
  await agent.session.delete();
  told.gone = await agent.session.view().catch((error) => error instanceof TrunklineError && error.code);
}
use().catch((error) => { told.error = String(error.stack); })
  .finally(() => fetch('/told', { method: 'POST', body: JSON.stringify(told) }));
</script>"#;

/// A browser, which ends with this.
pub(crate) struct Browser(Child);

impl Browser {
    #[expect(clippy::disallowed_methods, reason = "starts the browser")]
    pub(crate) fn open(url: &str, profile: &std::path::Path) -> Self {
        let mut command = Command::new("chromium");
        command
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--no-proxy-server",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Self(command.spawn().expect("chromium is installed"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        killpg(group, Signal::SIGKILL).ok();
        self.0.wait().ok();
    }
}

/// The outcome of a page of this server.
async fn told_by(server: &mut Server, page: &str, setup: &Value) -> Value {
    let profile = tempfile::tempdir().unwrap();
    let _browser = Browser::open(&server.url("/page").to_string(), profile.path());
    let page = page.replace("SETUP", &setup.to_string());
    let told = async {
        loop {
            let asked = server.next().await;
            match asked.path.as_str() {
                "/page" => asked.answer("200 OK\ncontent-type: text/html", &page).await,
                "/told" => {
                    let told = serde_json::from_str(&asked.body).unwrap();
                    asked.answer("204 No Content", "").await;
                    return told;
                }
                module => match std::fs::read_to_string(format!("{MODULES}{module}")) {
                    Ok(text) => asked.answer("200 OK\ncontent-type: text/javascript", &text).await,
                    Err(_) => asked.answer("404 Not Found", "").await,
                },
            }
        }
    };
    timeout(BROWSER_PATIENCE, told)
        .await
        .expect("the page told in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_lets_only_allowed_pages_use_the_api() {
    let (mut allowed, mut other) = (Server::start().await, Server::start().await);
    let origin = allowed.url("").to_string();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_ALLOWED_ORIGINS", origin.trim_end_matches('/'))
        .start()
        .await;
    let setup = json!({ "daemon": daemon.url(), "token": daemon.token(), "cwd": daemon.work_dir("a") });
    let told = told_by(&mut allowed, PAGE, &setup).await;
    let location = told["location"].as_str().unwrap_or_default();
    assert!(location.starts_with("/v1/sessions/"), "{told:#}");
    let expected = json!({
        "made": 201, "location": location, "request": true, "stream": 200, "events": true,
        "problem": "route_not_found", "anonymous": 401, "changed": 200, "deleted": 204,
    });
    assert_eq!(told, expected);

    let told = told_by(&mut other, PAGE, &setup).await;
    assert_eq!(told, json!({ "error": "TypeError: Failed to fetch" }));
    let sessions = daemon.rest().get("/v1/sessions").await.expect(200);
    assert_eq!(sessions["items"], json!([]), "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_opens_streams_and_sockets_with_tickets() {
    let mut server = Server::start().await;
    let origin = server.url("").to_string();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_ALLOWED_ORIGINS", origin.trim_end_matches('/'))
        .start()
        .await;
    let session = json!({"cwd": daemon.work_dir("w")});
    let id = daemon.rest().create_ready(session).await;
    let setup = json!({ "daemon": daemon.url(), "token": daemon.token(), "id": id });
    let told = told_by(&mut server, TICKETS, &setup).await;
    let expected = json!({
        "event": "2", "frame": "trunkline.snapshot", "protocol": "trunkline.v1", "refused": "role_forbidden",
        "again": "refused",
    });
    assert_eq!(told, expected);
    assert!(!daemon.journal(&id).contains("PLANTED"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_follows_a_session_and_decides_with_our_client() {
    let is_made = std::path::Path::new(MODULES).exists();
    assert!(is_made, "`make clients` makes what this test needs");
    let mut server = Server::start().await;
    let origin = server.url("").to_string();
    let daemon = TestDaemon::with_fake()
        .env("TRUNKLINE_SERVER_ALLOWED_ORIGINS", origin.trim_end_matches('/'))
        .start()
        .await;
    let ask = json!({ "ask": { "tool": "Bash", "input": { "command": "ls" } } });
    let prompt = fake_prompt(&json!([{ "flood": 6000 }, ask]));
    let cwd = daemon.work_dir("w");
    let setup = json!({ "daemon": daemon.url(), "token": daemon.token(), "cwd": cwd, "prompt": prompt });
    let told = told_by(&mut server, CLIENT, &setup).await;
    let seqs: Vec<u64> = serde_json::from_value(told["seqs"].clone()).unwrap();
    let count = seqs.len() as u64;
    assert!(count > 6000 && seqs.into_iter().eq(1..=count), "{told}");
    assert_eq!(
        (&told["asked"], &told["result"], &told["gone"], &told["error"]),
        (
            &json!(["Bash"]),
            &json!("success"),
            &json!("session_not_found"),
            &Value::Null
        ),
        "{told:#}"
    );
}
