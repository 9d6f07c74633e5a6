//! Owns that the image can be built: what the Dockerfile copies is a package, and what it names is let through to it.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{daemon::TestDaemon, programs::trunkline};

#[expect(clippy::disallowed_methods, reason = "runs what a person runs")]
fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Dockerfile from this stage on.
fn from_stage(name: &str) -> String {
    let text = fs::read_to_string(root().join("Dockerfile")).unwrap();
    let at = text.find(&format!(" AS {name}\n")).unwrap();
    text.split_at(at).1.to_owned()
}

/// The files that a stage copies from the checkout.
fn copied(stage: &str) -> Vec<PathBuf> {
    let text = from_stage(stage);
    let text = text.split("\nFROM ").next().unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("COPY "));
    let lines = lines.filter(|line| !line.starts_with("--from"));
    lines
        .flat_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (_to, from) = words.split_last().unwrap();
            from.iter().map(PathBuf::from).collect::<Vec<_>>()
        })
        .collect()
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

#[test]
fn what_the_image_copies_is_let_through() {
    let text = fs::read_to_string(root().join(".dockerignore")).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(lines.next(), Some("*"), "nothing else is sent to the engine");
    let (let_through, kept): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('!'));
    let mut let_through: Vec<PathBuf> = let_through.iter().map(|line| line[1..].into()).collect();
    let mut copied = [copied("web"), copied("build")].concat();
    copied.sort();
    let_through.sort();
    assert_eq!(let_through, copied);
    assert_eq!(kept, ["web/dist", "web/node_modules"], "the image makes its own");
}

/// The engine stops where there is no console.
#[test]
fn the_image_has_the_console() {
    assert!(copied("web").contains(&PathBuf::from("web")));
    let text = from_stage("build");
    let (before, _) = text.split_once("RUN cargo build").unwrap();
    assert!(
        before.contains("\nCOPY --from=web /src/web/dist web/dist\n"),
        "{before}"
    );
}

/// As far as the image's first command goes without compiling: each target has its file, and the lock file fits.
#[test]
fn what_the_image_copies_is_a_package() {
    let place = tempfile::tempdir().unwrap();
    for path in copied("build") {
        copy(&root().join(&path), &place.path().join(&path));
    }
    let read = command(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--offline",
            "--no-deps",
        ])
        .current_dir(place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{said}");
    // Names the files that a build of the program reads.
    let package: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    let targets = package["packages"][0]["targets"].as_array().unwrap();
    assert!(
        targets
            .iter()
            .any(|target| target["name"] == "trunkline" && target["kind"][0] == "bin")
    );
    for target in targets {
        let source = Path::new(target["src_path"].as_str().unwrap());
        assert!(source.is_file(), "{}", source.display());
    }
    // The compiler reads the migrations of the database.
    assert!(place.path().join("migrations").is_dir());
}

/// As the image starts it: the program's own client and the line that people are told to try must reach it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_on_every_address_is_reached_by_its_own_client() {
    let script = r#"exec "${@/127.0.0.1:0/0.0.0.0:0}" --insecure"#;
    let daemon = TestDaemon::with_fake()
        .launcher(["bash", "-c", script, "bash"])
        .start()
        .await;
    let (_, port) = daemon.url().rsplit_once(':').unwrap();
    assert_eq!(daemon.url(), format!("http://127.0.0.1:{port}"));
    let tried = daemon.log();
    let tried = tried
        .lines()
        .find_map(|line| line.strip_prefix("curl:"))
        .unwrap()
        .trim();
    let shell = command("bash")
        .args(["-c", &format!("{tried} --fail")])
        .output()
        .unwrap();
    assert!(
        shell.status.success(),
        "{tried}: {}",
        String::from_utf8_lossy(&shell.stderr)
    );
    for url in [None, Some(format!("http://0.0.0.0:{port}"))] {
        let mut client = command(trunkline());
        client.arg("ls").arg("--data-dir").arg(daemon.data_dir());
        if let Some(url) = &url {
            client.args(["--url", url]);
        }
        let output = client.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{url:?}: {said}");
    }
}
