//! Checks the layers, their errors and the example file.

use serde_json::{Value, json};

use super::*;

const EXAMPLE: &str = include_str!("../../config/trunkline.toml");

fn sources(environment: &[(&str, &str)]) -> Sources {
    let mut variables = vec![("HOME".to_owned(), "/home/me".to_owned())];
    variables.extend(
        environment
            .iter()
            .map(|&(name, value)| (name.into(), value.into())),
    );
    Sources {
        environment: variables,
        current_dir: "/work/here".into(),
        ..Sources::default()
    }
}

fn with_file(text: &str, environment: &[(&str, &str)]) -> (tempfile::TempDir, Sources) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trunkline.toml");
    std::fs::write(&file, text).unwrap();
    let mut sources = sources(environment);
    sources.file = Some(file);
    (dir, sources)
}

fn flag(key: &'static str, flag: &'static str, value: impl Into<Value>) -> FlagValue {
    FlagValue {
        key,
        flag,
        value: value.into(),
    }
}

fn message(result: Result<Loaded, ConfigError>) -> String {
    crate::telemetry::chain(&result.and_then(|loaded| loaded.check()).unwrap_err())
}

/// The example with every `# key = value` line made real.
fn example_uncommented() -> String {
    EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("#: ") {
            Some(setting) => setting,
            None => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn later_layers_win_and_are_named() {
    let (_dir, mut sources) = with_file(
        "[server]\nlisten = \"127.0.0.1:1\"\nmax_connections = 5\n[stop]\ndrain_ms = 7\n",
        &[
            ("TRUNKLINE_SERVER_LISTEN", "127.0.0.1:2"),
            ("TRUNKLINE_STOP_DRAIN_MS", "8"),
        ],
    );
    let loaded = load(&sources).unwrap();
    assert_eq!(loaded.config.server.listen.port(), 2);
    assert_eq!(loaded.config.server.max_connections, 5);
    assert_eq!(loaded.config.stop.drain_ms, 8);
    assert_eq!(loaded.config.log.level, "info");
    assert_eq!(
        loaded.origin("server.listen"),
        Origin::Environment("TRUNKLINE_SERVER_LISTEN".into())
    );
    assert!(matches!(loaded.origin("server.max_connections"), Origin::File(_)));
    assert_eq!(loaded.origin("log.level"), Origin::Default);

    sources
        .flags
        .push(flag("server.listen", "--listen", "127.0.0.1:3"));
    let loaded = load(&sources).unwrap();
    assert_eq!(loaded.config.server.listen.port(), 3);
    assert_eq!(loaded.origin("server.listen"), Origin::Flag("--listen"));
    loaded.check().unwrap();
}

#[test]
fn the_three_short_names_work() {
    let loaded = load(&sources(&[
        ("TRUNKLINE_LISTEN", "localhost:0"),
        ("TRUNKLINE_DATA_DIR", "data"),
        ("TRUNKLINE_CLAUDE_BIN", "~/bin/claude"),
    ]))
    .unwrap();
    assert_eq!(loaded.config.server.listen.to_string(), "127.0.0.1:0");
    assert_eq!(loaded.config.data.dir, Path::new("/work/here/data"));
    assert_eq!(
        loaded.config.claude.bin.as_deref(),
        Some(Path::new("/home/me/bin/claude"))
    );
    assert!(loaded.warnings.is_empty());
}

#[test]
fn directories_follow_the_environment() {
    let loaded = load(&sources(&[])).unwrap();
    assert_eq!(
        loaded.config.data.dir,
        Path::new("/home/me/.local/state/trunkline")
    );
    let loaded = load(&sources(&[
        ("XDG_STATE_HOME", "/s"),
        ("XDG_RUNTIME_DIR", "/run/user/7"),
    ]))
    .unwrap();
    assert_eq!(loaded.config.data.dir, Path::new("/s/trunkline"));
    assert_eq!(loaded.config.data.runtime_dir, Path::new("/run/user/7/trunkline"));
    let homeless = Sources::default();
    assert!(message(load(&homeless)).contains("give --data-dir"));
}

#[test]
fn every_kind_of_value_can_come_from_the_environment() {
    let loaded = load(&sources(&[
        ("TRUNKLINE_SERVER_INSECURE", "yes"),
        ("TRUNKLINE_SESSIONS_MAX_LINE_BYTES", "100_000_000"),
        ("TRUNKLINE_SESSIONS_CWD_ROOTS", "/a, ~/b"),
        ("TRUNKLINE_CLAUDE_ENV_ALLOW", "[\"A\", \"B_*\"]"),
        ("TRUNKLINE_CLAUDE_ENV", "{ A = \"b\" }"),
        ("TRUNKLINE_STOP_ON_SHUTDOWN", "detach"),
        ("TRUNKLINE_LOG_FORMAT", "json"),
        ("TRUNKLINE_LOG_LEVEL", ""),
    ]))
    .unwrap();
    loaded.check().unwrap();
    let config = &loaded.config;
    assert!(config.server.insecure);
    assert_eq!(config.sessions.max_line_bytes, 100_000_000);
    assert_eq!(
        config.sessions.cwd_roots,
        [Path::new("/a"), Path::new("/home/me/b")]
    );
    assert_eq!(config.claude.env_allow, ["A", "B_*"]);
    assert_eq!(config.claude.env["A"], "b");
    assert_eq!(config.stop.on_shutdown, OnShutdown::Detach);
    assert_eq!(config.log.format, LogFormat::Json);
    assert_eq!(config.log.level, "info", "an empty variable counts as not set");
}

#[test]
fn values_of_the_wrong_kind_name_key_and_origin() {
    for (name, value, expected) in [
        (
            "TRUNKLINE_SERVER_INSECURE",
            "maybe",
            "server.insecure (environment TRUNKLINE_SERVER_INSECURE)",
        ),
        ("TRUNKLINE_STOP_DRAIN_MS", "5s", "\"5s\" is not a whole number"),
        (
            "TRUNKLINE_LISTEN",
            "7433",
            "server.listen (environment TRUNKLINE_LISTEN): \"7433\" is not an address",
        ),
        ("TRUNKLINE_CLAUDE_ENV", "A=b", "claude.env"),
        (
            "TRUNKLINE_STOP_ON_SHUTDOWN",
            "explode",
            "expected `stop` or `detach`",
        ),
    ] {
        let text = message(load(&sources(&[(name, value)])));
        assert!(text.contains(expected), "{name}={value}: {text}");
    }
    let (_dir, sources) = with_file("[server]\nmax_connections = \"many\"\n", &[]);
    let text = message(load(&sources));
    assert!(
        text.starts_with("server.max_connections (file ") && text.contains("expected u32"),
        "{text}"
    );
    let (_dir, sources) = with_file("[server\n", &[]);
    assert!(message(load(&sources)).contains("is not valid TOML"));
    let missing = Sources {
        file: Some("/nonexistent/trunkline.toml".into()),
        ..sources
    };
    assert!(message(load(&missing)).contains("cannot read the configuration file"));
}

#[test]
fn unknown_keys_are_refused_and_unknown_variables_reported() {
    let text = "top = 1\n[server]\nmax_conections = 5\n[sever]\nlisten = \"x\"\n";
    let (_dir, sources_with_file) = with_file(text, &[]);
    let text = message(load(&sources_with_file));
    assert!(
        text.contains("server.max_conections (did you mean server.max_connections?)"),
        "{text}"
    );
    assert!(text.contains("top") && text.contains("sever"), "{text}");

    let loaded = load(&sources(&[
        ("TRUNKLINE_SERVER_LISTN", "x"),
        ("TRUNKLINE_SESSION", "set for children of a session"),
        ("TRUNKLINE_FROBNICATE", "x"),
    ]))
    .unwrap();
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].contains("did you mean TRUNKLINE_SERVER_LISTEN?"));
}

#[test]
fn values_that_make_no_sense_are_all_told_at_once() {
    let text = "
        [server]
        listen = \"0.0.0.0:1\"
        allowed_hosts = [\"https://x\"]
        allowed_origins = [\"x.example\"]
        max_connections = 0
        [data]
        dir = \"relative\"
        runtime_dir = \"/a/very/long/directory/name/that/leaves/no/room/for/the/name/of/a/socket\"
        [claude]
        bin = \"bin/claude\"
        env_allow = [\"A B\"]
        env = { \"1X\" = \"\" }
        [sessions]
        cwd_roots = [\"x\"]
        max_line_bytes = 100000
        [stop]
        shutdown_deadline_ms = 10
        [log]
        level = \"trunkline=loud\"
    ";
    let (_dir, sources) = with_file(text, &[]);
    let ConfigError::Invalid(problems) = load(&sources).unwrap().check().unwrap_err() else {
        panic!("another error");
    };
    let keys: Vec<&str> = problems.iter().map(|(problem, _)| problem.key).collect();
    assert_eq!(
        keys,
        [
            "server.listen",
            "server.allowed_hosts",
            "server.allowed_origins",
            "server.max_connections",
            "data.dir",
            "data.runtime_dir",
            "claude.bin",
            "claude.env_allow",
            "claude.env",
            "sessions.cwd_roots",
            "stop.shutdown_deadline_ms",
            "log.level",
            "sessions.max_line_bytes",
        ]
    );
    assert!(
        problems
            .iter()
            .all(|(_, origin)| matches!(origin, Origin::File(_)))
    );
}

#[test]
fn other_machines_are_let_in_only_by_saying_so() {
    let mut sources = sources(&[("TRUNKLINE_LISTEN", "0.0.0.0:7433")]);
    assert!(message(load(&sources)).contains("--insecure"));
    sources.flags.push(flag("server.insecure", "--insecure", true));
    load(&sources).unwrap().check().unwrap();
}

#[test]
fn values_of_variables_are_not_printed() {
    let loaded = load(&sources(&[(
        "TRUNKLINE_CLAUDE_ENV",
        "{ KEY = \"planted-secret\" }",
    )]))
    .unwrap();
    let entries = format!("{:?}", loaded.config.entries());
    assert!(
        entries.contains("KEY") && !entries.contains("planted-secret"),
        "{entries}"
    );
}

#[test]
fn the_example_file_changes_nothing() {
    let (_dir, sources) = with_file(EXAMPLE, &[]);
    let loaded = load(&sources).unwrap();
    assert!(
        loaded.origins.is_empty(),
        "everything in the example is commented out"
    );
    loaded.check().unwrap();
}

#[test]
fn the_example_file_names_every_key_with_its_default() {
    let (_dir, sources) = with_file(&example_uncommented(), &[]);
    let loaded = load(&sources).unwrap();
    let environment = |name: &str| sources.variable(name);
    let defaults = Config::defaults(&environment);
    let in_file: Vec<&String> = loaded.origins.keys().collect();
    for (key, default) in layers::entries(&defaults) {
        // Unset and the system's own directory have no form that a file could hold.
        if matches!(key.as_str(), "claude.bin" | "data.runtime_dir") {
            assert!(
                EXAMPLE.contains(&format!("\n# {} = ", key.split_once('.').unwrap().1)),
                "{key}"
            );
            continue;
        }
        assert!(in_file.contains(&&key), "{key} is missing");
        // Its example is not its default, which is an empty list.
        if matches!(key.as_str(), "warm.profiles" | "webhooks.receivers") {
            continue;
        }
        let value = layers::entries(&loaded.config)
            .into_iter()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| value);
        assert_eq!(value, Some(default), "{key}");
    }
}

#[test]
fn the_example_rules_name_every_member() {
    let (_dir, sources) = with_file(&example_uncommented(), &[]);
    let rules = load(&sources).unwrap().config.rules.specs();
    let text = serde_json::to_string(&rules).unwrap();
    for member in [
        "id",
        "action",
        "tool",
        "input",
        "cwd",
        "agent",
        "mode",
        "kind",
        "expires_at",
        "deadline_ms",
        "on_deadline",
        "message",
        "command_prefix",
        "path_prefix",
        "regex",
    ] {
        assert!(text.contains(&format!("\"{member}\":")), "{member}: {text}");
        assert!(EXAMPLE.contains(member), "{member} is not explained");
    }
}

#[test]
fn the_example_profile_names_every_member() {
    let (_dir, sources) = with_file(&example_uncommented(), &[]);
    let warm = load(&sources).unwrap().config.warm;
    let [profile] = warm.profiles.as_slice() else {
        panic!("not one profile: {warm:?}");
    };
    assert_eq!((profile.name.as_str(), profile.count), ("app", 2));
    assert_eq!(profile.cwd, Path::new("/home/me/src/app"));
    let options = serde_json::to_value(&profile.options).unwrap();
    assert_eq!(
        options,
        json!({ "model": "opus", "permission_mode": "acceptEdits" })
    );
}

#[test]
fn profiles_have_names_and_bounds_and_keep_secrets() {
    let profile = "[[warm.profiles]]\ncwd = \"/w\"\noptions.env.KEY = \"s3cret\"\n";
    let (_dir, sources) = with_file(&profile.repeat(2), &[]);
    let loaded = load(&sources).unwrap();
    loaded.check().unwrap();
    let names: Vec<&str> = loaded
        .config
        .warm
        .profiles
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["profile-1", "profile-2"]);
    let shown = format!("{:?}", loaded.config.entries());
    assert!(
        !shown.contains("s3cret") && shown.contains("profile-2"),
        "{shown}"
    );

    for (text, reason) in [
        ("cwd = \"/w\"\nname = \"a b\"", "is no name"),
        (
            "cwd = \"/w\"\nname = \"a\"\n[[warm.profiles]]\ncwd = \"/x\"\nname = \"a\"",
            "two are named a",
        ),
        ("cwd = \"w\"", "must be an absolute path"),
        (
            "cwd = \"/w\"\ncount = 9",
            "ask for 9 processes together; warm.max_processes allows 8",
        ),
        ("cwd = \"/w\"\ncuont = 9", "unknown field"),
        ("count = 1", "missing field `cwd`"),
    ] {
        let (_dir, sources) = with_file(&format!("[[warm.profiles]]\n{text}"), &[]);
        let message = message(load(&sources));
        assert!(
            message.contains(reason) && message.contains("warm.profiles"),
            "{message}"
        );
    }
}

#[test]
fn a_wrong_rule_is_a_start_error_with_its_place() {
    let (_dir, sources) = with_file(
        "[log]\nlevel = \"info\"\n\n[[rules]]\naction = \"allow\"\ntool = \"[\"\n",
        &[],
    );
    let text = message(load(&sources));
    assert!(
        text.starts_with("rules[0].tool (file ") && text.contains(", line 4): is no glob"),
        "{text}"
    );
}

#[test]
fn every_variable_name_is_its_own() {
    let entries = Config::defaults(&|_| None).entries();
    let mut names: Vec<String> = entries
        .iter()
        .map(|(key, _)| layers::variable_name(key))
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), entries.len());
    assert!(names.contains(&"TRUNKLINE_DATA_DIR".to_owned()));
    assert_eq!(
        entries.iter().find(|(key, _)| key == "claude.bin").unwrap().1,
        json!(null)
    );
}
