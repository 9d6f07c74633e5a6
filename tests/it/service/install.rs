//! Owns that an installation is whole: what `make install` puts in place works there, and `make uninstall` takes all of it away;
//! the Debian package has the same.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
};

use crate::{
    service::machine::{command, good},
    support::programs::{repository, trunkline},
};

/// `make` in the repository, with the program under test.
fn make(target: &str, settings: &[&str]) -> Output {
    command("make")
        .args(["--silent", target])
        .arg(format!("PROGRAM={}", trunkline().display()))
        .args(settings)
        .current_dir(repository(""))
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap()
}

/// Installs below a folder.
pub(crate) fn install(dir: &Path, prefix: &str) {
    let dest = format!("DESTDIR={}", dir.display());
    let told = good(&make("install", &[&dest, &format!("PREFIX={prefix}")]));
    assert!(told.starts_with("installed trunkline "), "{told}");
}

/// All files below a folder, relative to it.
fn files(root: &Path) -> Vec<String> {
    fn collect(dir: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, root, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    collect(root, root, &mut found);
    found.sort();
    found
}

fn run(program: &Path, args: &[&str]) -> String {
    good(&command(program).args(args).env_clear().output().unwrap())
}

/// The commands that the program has, by the names of their pages.
fn pages(program: &Path) -> Vec<String> {
    let page = run(program, &["man"]);
    page.lines()
        .filter_map(|line| line.strip_prefix("trunkline\\-")?.strip_suffix("(1)"))
        .filter(|name| *name != "help")
        .map(|name| format!("trunkline-{name}.1"))
        .collect()
}

#[test]
fn an_installation_has_all_of_the_program_and_is_taken_away_whole() {
    let place = tempfile::tempdir().unwrap();
    install(place.path(), "/opt/tl");
    let prefix = place.path().join("opt/tl");
    let program = prefix.join("bin/trunkline");
    let installed = files(&prefix);
    let man: Vec<&String> = installed
        .iter()
        .filter(|path| path.starts_with("share/man/man1/"))
        .collect();
    let others: Vec<&str> = installed
        .iter()
        .filter(|path| !path.starts_with("share/man/man1/"))
        .map(String::as_str)
        .collect();
    assert_eq!(
        others,
        [
            "bin/trunkline",
            "share/bash-completion/completions/trunkline",
            "share/fish/vendor_completions.d/trunkline.fish",
            "share/systemd/user/trunkline.service",
            "share/systemd/user/trunkline.socket",
            "share/zsh/site-functions/_trunkline",
        ]
    );

    // The program is stripped, and works. `strip` leaves `.debug_gdb_scripts`, which holds one path, since a program loads it.
    assert!(run(&program, &["version"]).starts_with("trunkline 0."));
    let sections = good(&command("readelf").arg("-SW").arg(&program).output().unwrap());
    assert!(
        !sections.contains(" .symtab")
            && !sections.contains(" .debug_info")
            && !sections.contains(" .debug_line"),
        "{sections}"
    );

    // Each command has its page, and a page is one.
    let pages = pages(&program);
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages
        .iter()
        .map(String::as_str)
        .chain(["trunkline.1", "trunkline-rules-add.1"])
    {
        assert!(
            man.iter().any(|path| path.ends_with(&format!("/{page}"))),
            "{page} in {man:?}"
        );
        let text = fs::read_to_string(prefix.join("share/man/man1").join(page)).unwrap();
        assert!(text.contains("\n.TH trunkline"), "{page}: {text}");
    }

    // A shell takes the completions.
    let script = prefix.join("share/bash-completion/completions/trunkline");
    let completed = r#". "$1"; COMP_WORDS=(trunkline rest); COMP_CWORD=1; _trunkline trunkline rest trunkline; echo "${COMPREPLY[@]}""#;
    let completed = command("bash")
        .args(["-c", completed, "bash"])
        .arg(script)
        .output()
        .unwrap();
    assert_eq!(good(&completed).trim(), "restart");
    let zsh = fs::read_to_string(prefix.join("share/zsh/site-functions/_trunkline")).unwrap();
    assert!(zsh.starts_with("#compdef trunkline"), "{zsh}");
    let fish = fs::read_to_string(prefix.join("share/fish/vendor_completions.d/trunkline.fish")).unwrap();
    assert!(fish.contains("complete -c trunkline"), "{fish}");

    // The unit starts what was installed.
    let unit = fs::read_to_string(prefix.join("share/systemd/user/trunkline.service")).unwrap();
    assert!(
        unit.contains("\nExecStart=/opt/tl/bin/trunkline serve\n"),
        "{unit}"
    );

    // Everybody can read it.
    for path in &installed {
        let mode = fs::metadata(prefix.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            mode,
            if path == "bin/trunkline" { 0o755 } else { 0o644 },
            "{path}"
        );
    }

    // Over a program that runs another can be installed, and what others put there stays.
    let mut running = command(&program)
        .args(["sim"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    install(place.path(), "/opt/tl");
    running.kill().unwrap();
    running.wait().unwrap();
    let other = prefix.join("share/man/man1/other.1");
    fs::write(&other, "").unwrap();
    let dest = format!("DESTDIR={}", place.path().display());
    good(&make("uninstall", &[&dest, "PREFIX=/opt/tl"]));
    assert_eq!(files(&prefix), ["share/man/man1/other.1"]);
}

#[test]
fn without_a_built_program_an_installation_says_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let dest = format!("DESTDIR={}", place.path().display());
    let refused = make("install", &[&dest, "PROGRAM=/nowhere/trunkline"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("make build"), "{said}");
    assert_eq!(files(place.path()), [] as [&str; 0]);
}

/// The assets that Cargo.toml lists: where each comes from, and where it goes.
fn assets() -> Vec<(String, String)> {
    let text = fs::read_to_string(repository("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let assets = manifest["package"]["metadata"]["deb"]["assets"]
        .as_array()
        .unwrap();
    let word = |value: &toml::Value| value.as_str().unwrap().to_owned();
    assets
        .iter()
        .map(|asset| (word(&asset[0]), word(&asset[1])))
        .collect()
}

/// Every file that is staged is in the package, and every file that the package lists is there.
#[test]
fn the_debian_package_has_what_is_installed_and_starts_in_its_place() {
    let place = tempfile::tempdir().unwrap();
    let stage = place.path().join("stage");
    good(&make("stage", &[&format!("STAGE={}", stage.display())]));
    let mut listed: Vec<PathBuf> = Vec::new();
    for (from, _) in assets() {
        let Some(staged) = from.strip_prefix("target/debian-root/") else {
            assert!(repository(&from).is_file(), "{from}");
            continue;
        };
        match staged.strip_suffix("/*") {
            Some(dir) => listed.extend(
                fs::read_dir(stage.join(dir))
                    .unwrap()
                    .map(|it| it.unwrap().path()),
            ),
            None => listed.push(stage.join(staged)),
        }
    }
    listed.sort();
    let staged: Vec<PathBuf> = files(&stage).iter().map(|path| stage.join(path)).collect();
    assert_eq!(listed, staged);
    for kind in ["user", "system"] {
        let unit = stage.join("usr/lib/systemd").join(kind).join("trunkline.service");
        let unit = fs::read_to_string(unit).unwrap();
        assert!(unit.contains("\nExecStart=/usr/bin/trunkline serve\n"), "{unit}");
    }
    for script in ["postinst", "prerm", "postrm"] {
        let script = repository("packaging/debian").join(script);
        good(&command("sh").arg("-n").arg(&script).output().unwrap());
    }
    // The configuration that the package installs is one that the program takes.
    let config = place.path().join("config.toml");
    fs::copy(repository("config/trunkline.toml"), &config).unwrap();
    let home = format!("HOME={}", place.path().display());
    let program = stage.join("usr/bin/trunkline");
    let line = [
        home.as_str(),
        program.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
        "config",
    ];
    good(&command("env").arg("-i").args(line).output().unwrap());
}
