//! Owns the tests that programs with an official SDK, unmodified, are given the same through a daemon as by the CLI itself.
//!
//! `web-test/sdk-stories.mjs` and `web-test/sdk_stories.py` are the programs, `web-test/same-stream.mjs` compares.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::{Builder, NamedTempFile};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use crate::{
    elicitation::ASKING_SERVER,
    support::{
        daemon::TestDaemonBuilder,
        programs::{clean_env, real_claude, repository, trunkline},
    },
    world::{World, text},
};

/// Longest time for all stories.
const LIMIT: Duration = Duration::from_secs(240);

/// A version of an SDK.
#[derive(Clone, Copy, Debug)]
enum Sdk {
    TypeScript,
    EarlierTypeScript,
    Python,
}

impl Sdk {
    /// The program that tells its stories.
    fn program(self) -> Command {
        if matches!(self, Self::Python) {
            let mut command = Command::new(repository("target/sdk-venv/bin/python"));
            command.arg(repository("web-test/sdk_stories.py"));
            return command;
        }
        let mut command = Command::new("node");
        command.args(["--no-deprecation", "--experimental-websocket", "--no-warnings"]);
        command.arg(repository("web-test/sdk-stories.mjs"));
        command
    }

    const fn package(self) -> &'static str {
        match self {
            Self::EarlierTypeScript => "claude-agent-sdk-earlier",
            Self::TypeScript | Self::Python => "@anthropic-ai/claude-agent-sdk",
        }
    }
}

/// The launch options of stories that an address of `/v1/connect` cannot carry, by their names in the configuration.
fn profiles(asking: &Path) -> String {
    let asking = format!(
        r#"asking = {{mcp_servers = {{asking = {{type = "stdio", command = "node", args = [{}]}}}}}}"#,
        json!(asking)
    );
    let city = r#"city = {json_schema = {type = "object", properties = {city = {type = "string"}}, required = ["city"], additionalProperties = false}}"#;
    format!(r#"{{writing = {{allowed_tools = ["Write"]}}, {asking}, {city}}}"#)
}

/// A daemon, and the files that the stories need.
struct Stage {
    world: World,
    /// The program of an MCP server.
    asking: NamedTempFile,
}

impl Stage {
    async fn new() -> Self {
        // A daemon that keeps permission checks on says so to the CLI, which then lists a plugin more.
        let bypass = "TRUNKLINE_SESSIONS_ALLOW_BYPASS_PERMISSIONS";
        let asking = Builder::new().suffix(".cjs").tempfile().unwrap();
        fs::write(&asking, ASKING_SERVER).unwrap();
        let with = |daemon: TestDaemonBuilder| {
            let daemon = daemon.env(bypass, "true");
            daemon.env("TRUNKLINE_SESSIONS_PROFILES", profiles(asking.path()))
        };
        let world = World::with(with).await;
        // The SDKs take a program without arguments.
        symlink(trunkline(), world.dir().join("claude")).unwrap();
        Self { world, asking }
    }

    /// Has an SDK begin to tell stories.
    fn begin(&self, sdk: Sdk, way: &str, stories: &BTreeSet<String>) -> Telling {
        let (world, daemon) = (&self.world, &self.world.daemon);
        let name = format!("{sdk:?}-{way}");
        let setup = json!({
            "name": name, "sdk": sdk.package(), "way": way, "stories": stories, "dir": daemon.work_dir(&name),
            "claude": real_claude(), "trunkline": trunkline(), "standIn": world.dir().join("claude"),
            "asking": self.asking.path(), "api": world.api.url(),
            "daemon": { "url": daemon.url(), "token": daemon.token() },
        });
        let mut command = sdk.program();
        command
            .arg(setup.to_string())
            .env_clear()
            .envs(clean_env(&daemon.home(), world.api.url()))
            .env("TRUNKLINE_DATA_DIR", daemon.data_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if matches!(sdk, Sdk::TypeScript) {
            // The CLI says other things to other hosts, and a browser cannot say which it is.
            command.env("CLAUDE_CODE_ENTRYPOINT", "trunkline");
        }
        Telling {
            file: daemon.home().join(&name).with_extension("ndjson"),
            child: command.spawn().expect("the SDK is installed: run `make test`"),
            name,
        }
    }

    async fn tell(&self, sdk: Sdk, way: &str, stories: &BTreeSet<String>) -> PathBuf {
        self.begin(sdk, way, stories).end().await
    }
}

/// An SDK that tells stories.
struct Telling {
    name: String,
    child: Child,
    file: PathBuf,
}

impl Telling {
    /// The file with all that the stories were given.
    async fn end(self) -> PathBuf {
        let Self { name, child, file } = self;
        let output = timeout(LIMIT, child.wait_with_output()).await;
        let output = output.expect("all stories have an end").unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        for story in told.lines() {
            let story: Value = serde_json::from_str(story).unwrap();
            assert_eq!(story["failed"], Value::Null, "{name} {}: {said}", story["story"]);
        }
        fs::write(&file, told).unwrap();
        file
    }
}

/// Asserts that each of the second stories was given what the first one of its name was; their names.
async fn same(first: &Path, second: &Path, way: &str) -> BTreeSet<String> {
    let mut command = Command::new("node");
    command
        .arg(repository("web-test/same-stream.mjs"))
        .args([first, second]);
    if way == "browser" {
        command.arg("--attached");
    }
    let output = command.output().await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told = String::from_utf8(output.stdout).unwrap();
    let stories: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let others: Vec<_> = stories
        .iter()
        .filter(|story| story["differences"] != json!([]))
        .collect();
    assert!(others.is_empty(), "{way} is given otherwise: {others:#?}");
    stories.iter().map(|story| text(story, "story")).collect()
}

/// The stories that docs/CLIENTS.md says to be the same, by the title of a column of its table.
fn promised(column: &str) -> BTreeSet<String> {
    let page = fs::read_to_string(repository("docs/CLIENTS.md")).unwrap();
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let mut rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| the program uses"));
    let titles = cells(rows.next().expect("the table"));
    let at = titles.iter().position(|title| title == column);
    let at = at.unwrap_or_else(|| panic!("no column {column}: {titles:?}"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    rows.filter(|row| row[at] == "same")
        .map(|row| row[0].rsplit('`').nth(1).expect("a story's name").to_owned())
        .collect()
}

/// Has an SDK tell its stories on the CLI itself, and then in these ways, each with its column in the table.
async fn compare(sdk: Sdk, ways: &[(&str, &str)]) {
    let stage = Stage::new().await;
    let stories = ways.iter().flat_map(|(column, _)| promised(column)).collect();
    let direct = stage.tell(sdk, "direct", &stories).await;
    for (column, way) in ways {
        let promised = promised(column);
        let told = stage.tell(sdk, way, &promised).await;
        assert_eq!(same(&direct, &told, way).await, promised, "{column}");
    }
}

#[tokio::test]
async fn a_typescript_program_is_given_the_same_through_a_daemon() {
    let ways = [
        ("`pathToClaudeCodeExecutable`", "stand_in"),
        ("`spawnClaudeCodeProcess`", "spawned"),
        ("`/browser`", "browser"),
        ("`/browser` and `/v1/connect`", "connect"),
    ];
    compare(Sdk::TypeScript, &ways).await;
}

#[tokio::test]
async fn a_program_of_an_earlier_sdk_is_given_the_same_through_a_daemon() {
    compare(Sdk::EarlierTypeScript, &[("an earlier version", "stand_in")]).await;
}

#[tokio::test]
async fn a_python_program_is_given_the_same_through_a_daemon() {
    compare(Sdk::Python, &[("`cli_path`", "stand_in")]).await;
}

#[tokio::test]
async fn an_sdk_does_not_notice_that_the_daemon_died_in_its_turn() {
    let mut stage = Stage::new().await;
    let story = BTreeSet::from(["held".to_owned()]);
    stage.world.api.release("TypeScript-direct-held").await;
    let direct = stage.tell(Sdk::TypeScript, "direct", &story).await;
    let telling = stage.begin(Sdk::TypeScript, "stand_in", &story);
    stage.world.api.at_gate("TypeScript-stand_in-held").await;
    stage.world.daemon.kill();
    stage.world.daemon.start().await;
    stage.world.api.release("TypeScript-stand_in-held").await;
    let told = telling.end().await;
    assert_eq!(same(&direct, &told, "stand_in").await, story);
}
