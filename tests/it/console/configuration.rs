//! Owns the layers of the configuration as a person meets them: which one wins, and what a wrong value or name is told.

use std::fs;

use serde_json::Value;

use crate::console::common::{Ran, command, run};

fn config(home: &std::path::Path, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = command(home, args);
    command.envs(env.iter().copied());
    run(command)
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join(".config/trunkline");
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join("config.toml");
    let value = |args: &[&str], env: &[(&str, &str)], key: &str| -> (Value, String) {
        let shown = config(home.path(), &[&["config", "--json"], args].concat(), env).json();
        let entry = &shown["values"][key];
        (
            entry["value"].clone(),
            entry["origin"].as_str().unwrap().to_owned(),
        )
    };
    let (_, origin) = value(&[], &[], "data.dir");
    assert_eq!(origin, "default");
    fs::write(&file, "[data]\ndir = \"/from/file\"\n[stop]\ndrain_ms = 1234\n").unwrap();
    let (dir, origin) = value(&[], &[], "data.dir");
    assert_eq!(
        (dir, origin),
        ("/from/file".into(), format!("file {}", file.display()))
    );
    let env = [("TRUNKLINE_DATA_DIR", "/from/env")];
    assert_eq!(
        value(&[], &env, "data.dir"),
        ("/from/env".into(), "environment TRUNKLINE_DATA_DIR".into())
    );
    assert_eq!(
        value(&["--data-dir", "/from/flag"], &env, "data.dir"),
        ("/from/flag".into(), "flag --data-dir".into())
    );
    // An empty variable is none, and other keys keep their own origin.
    assert_eq!(
        value(&[], &[("TRUNKLINE_DATA_DIR", "")], "data.dir").0,
        "/from/file"
    );
    assert_eq!(value(&[], &env, "stop.drain_ms").0, 1234);
    assert_eq!(
        value(&[], &[("TRUNKLINE_LISTEN", "127.0.0.1:9")], "server.listen"),
        ("127.0.0.1:9".into(), "environment TRUNKLINE_LISTEN".into())
    );
    let text = config(home.path(), &["config"], &[]).good();
    assert!(
        text.contains("stop.drain_ms = 1234") && text.contains(file.to_str().unwrap()),
        "{text}"
    );
    // Another file by flag and by variable.
    let other = home.path().join("other.toml");
    fs::write(&other, "[stop]\ndrain_ms = 77\n").unwrap();
    let path = other.to_str().unwrap();
    assert_eq!(value(&["--config", path], &[], "stop.drain_ms").0, 77);
    assert_eq!(value(&[], &[("TRUNKLINE_CONFIG", path)], "stop.drain_ms").0, 77);
}

#[test]
fn what_is_wrong_is_named_with_its_key_and_its_origin() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    let path = file.to_str().unwrap();
    for (text, expected) in [
        (
            "[server]\nlistn = \"127.0.0.1:1\"\n",
            &["server.listn", "did you mean server.listen", path][..],
        ),
        ("[sever]\nlisten = \"127.0.0.1:1\"\n", &["sever", path]),
        ("listen = \"127.0.0.1:1\"\n", &["listen", path]),
        ("[server]\nlisten = 5\n", &["server.listen", path]),
        (
            "[server]\nlisten = \"nowhere\"\n",
            &["server.listen", path, "nowhere"],
        ),
        ("[stop]\ndrain_ms = \"soon\"\n", &["stop.drain_ms", path]),
        (
            "[stop]\non_shutdown = \"explode\"\n",
            &["stop.on_shutdown", path, "detach"],
        ),
        ("[server\n", &[path, "line 1"]),
    ] {
        fs::write(&file, text).unwrap();
        for command in ["config", "serve"] {
            let told = config(home.path(), &[command, "--config", path], &[]).failed(2);
            for word in expected {
                assert!(told.contains(word), "{word} is missing for {text:?}: {told}");
            }
        }
    }
    let told = config(home.path(), &["config", "--config", "/nonexistent.toml"], &[]).failed(2);
    assert!(told.contains("/nonexistent.toml"), "{told}");
    for (name, value, expected) in [
        (
            "TRUNKLINE_STOP_DRAIN_MS",
            "soon",
            "stop.drain_ms (environment TRUNKLINE_STOP_DRAIN_MS)",
        ),
        (
            "TRUNKLINE_SERVER_INSECURE",
            "perhaps",
            "server.insecure (environment TRUNKLINE_SERVER_INSECURE)",
        ),
        (
            "TRUNKLINE_LISTEN",
            "7433",
            "server.listen (environment TRUNKLINE_LISTEN)",
        ),
        ("TRUNKLINE_STOP_DRAIN_MS", "-1", "stop.drain_ms"),
    ] {
        let told = config(home.path(), &["serve"], &[(name, value)]).failed(2);
        assert!(told.contains(expected), "{name}={value}: {told}");
    }
    // An unknown variable is reported, and is no reason not to go on.
    let ran = config(home.path(), &["config"], &[("TRUNKLINE_STOP_DRAIN", "5")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stderr.contains("TRUNKLINE_STOP_DRAIN is set") && ran.stderr.contains("TRUNKLINE_STOP_DRAIN_MS"),
        "{ran:?}"
    );
}
