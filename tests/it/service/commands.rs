//! Owns that the lines of the documents that build, start, install and remove the program do so, as a person types them. Each is
//! taken from its page; a stand-in for cargo has the program under test, so that no test compiles a release.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tempfile::TempDir;

use crate::{
    service::machine::{Machine, SUDO, command, executable, good, lacks},
    support::{
        pages::command_of,
        programs::{repository, trunkline},
        wait::{PATIENCE, wait_until},
    },
};

/// The files of a checkout that the lines read.
const CHECKOUT: [&str; 13] = [
    ".ci",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Makefile",
    "README.md",
    "benches",
    "build.rs",
    "config",
    "packaging",
    "src",
];

/// Stands in for cargo: the program is there. The packager is the real one; it compresses less than for a release.
const CARGO: &str = r#"#!/bin/sh
set -eu
echo "cargo $*" >> 'SAID'
case $1 in
run)
    while [ "$1" != -- ]; do shift; done
    shift
    exec 'PROGRAM' "$@"
    ;;
build)
    mkdir -p target/release
    cp 'PROGRAM' target/release/trunkline
    ;;
deb)
    shift
    HOME='HOME_OF_CARGO' exec 'CARGO' deb --fast "$@"
    ;;
*) HOME='HOME_OF_CARGO' exec 'CARGO' "$@" ;;
esac
"#;

/// Stands in for npm: it installs nothing, and the console is the one that the program under test has.
const NPM: &str = r#"#!/bin/sh
set -eu
echo "npm $*" >> 'SAID'
case "$*" in
"ci "*) mkdir -p node_modules ;;
"run build")
    mkdir -p dist
    if [ -e 'DIST' ]; then cp -r 'DIST/.' dist; else echo '<!doctype html>' > dist/index.html; fi
    ;;
esac
"#;

/// An engine that builds nothing. It notes what it is asked to do; $0 is its name.
const ENGINE: &str = r#"#!/bin/sh
echo "$(basename "$0") $*" >> "$(dirname "$0")/said"
case "$(basename "$0") $*" in
"docker info" | "docker compose version") [ -e "$(dirname "$0")/engine" ] ;;
"docker compose ps "*) echo healthy ;;
"docker compose exec "*" new "*) printf 'Hello to you\n- session so far $0.00\n'; cat > /dev/null ;;
esac
"#;

/// A checkout of the repository, and somebody who types in it.
struct Checkout {
    place: TempDir,
}

impl Checkout {
    fn new() -> Self {
        let place = tempfile::Builder::new().prefix("tl-").tempdir().unwrap();
        for name in ["bin", "home", "run", "checkout/openapi", "checkout/web"] {
            fs::create_dir_all(place.path().join(name)).unwrap();
        }
        for name in CHECKOUT {
            copy(&repository(name), &place.path().join("checkout").join(name));
        }
        let checkout = Self { place };
        for name in ["openapi/trunkline.json", "web/package-lock.json"] {
            fs::write(checkout.dir("checkout").join(name), "{}").unwrap();
        }
        let bin = checkout.dir("bin");
        let home = std::env::var("HOME").unwrap();
        let cargo = CARGO
            .replace("SAID", bin.join("said").to_str().unwrap())
            .replace("PROGRAM", trunkline().to_str().unwrap())
            .replace("'HOME_OF_CARGO'", &format!("'{home}'"))
            .replace("'CARGO'", &format!("'{}'", env!("CARGO")));
        executable(&bin.join("cargo"), &cargo);
        let npm = NPM
            .replace("SAID", bin.join("said").to_str().unwrap())
            .replace("DIST", repository("web/dist").to_str().unwrap());
        executable(&bin.join("npm"), &npm);
        executable(&bin.join("sudo"), SUDO);
        for engine in ["docker", "buildah"] {
            executable(&bin.join(engine), ENGINE);
        }
        checkout
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A line, in a shell in the checkout.
    fn shell(&self, line: &str) -> Command {
        let mut shell = command("sh");
        shell
            .args(["-c", line])
            .env_clear()
            .env("HOME", self.dir("home"))
            .env("PATH", self.path())
            .env("LANG", "C.UTF-8")
            .env("XDG_RUNTIME_DIR", self.dir("run"))
            .current_dir(self.dir("checkout"))
            .stdin(Stdio::null());
        shell
    }

    #[track_caller]
    fn typed(&self, line: &str) -> String {
        good(&self.shell(line).output().unwrap())
    }

    /// The PATH of this process without an agent CLI, and with the stand-ins first.
    fn path(&self) -> OsString {
        let inherited = std::env::var_os("PATH").unwrap();
        let dirs = std::env::split_paths(&inherited).filter(|dir| !dir.join("claude").exists());
        std::env::join_paths(std::iter::once(self.dir("bin")).chain(dirs)).unwrap()
    }

    /// The commands that the stand-ins were given.
    fn said(&self) -> String {
        fs::read_to_string(self.dir("bin/said")).unwrap_or_default()
    }
}

fn copy(from: &Path, to: &Path) {
    let output = command("cp").arg("-r").args([from, to]).output().unwrap();
    good(&output);
}

/// Makes a machine of this one: what is written to its `/usr`, `/etc` and `/var` is gone with it. $1: the place with the checkout.
const START: &str = r#"
base=$1
root=$base/root
mkdir "$root"
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir -p proc dev tmp root run home/person
chmod 1777 tmp
for dir in usr etc var; do
    mkdir -p $dir over/$dir/upper over/$dir/work
    mount -t overlay overlay -o "lowerdir=/$dir,upperdir=$root/over/$dir/upper,workdir=$root/over/$dir/work" $dir
done
for link in bin sbin lib lib64; do
    if [ -L /$link ]; then cp -P /$link .; elif [ -d /$link ]; then mkdir $link; mount --rbind /$link $link; fi
done
mount -t proc proc proc
mount --rbind /dev dev
mkdir -p ".$base"
mount --rbind "$base" ".$base"
touch made-for-a-test
exec chroot . sleep infinity
"#;

/// Only there does a line run: before the machine is put together, its root is the real one.
const INSIDE: &str = "test -e /made-for-a-test";

/// The same person on a machine that can be written to, as root.
struct Owner<'a> {
    checkout: &'a Checkout,
    machine: Machine,
}

impl<'a> Owner<'a> {
    async fn of(checkout: &'a Checkout) -> Self {
        let log = checkout.dir("log");
        let machine = Machine::start(START, &[checkout.place.path().as_ref()], &log).await;
        let owner = Self { checkout, machine };
        wait_until("the machine is put together", PATIENCE, || {
            owner.shell("test -e Makefile").status.success()
        })
        .await;
        owner
    }

    fn shell(&self, line: &str) -> Output {
        let path = format!(
            "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            self.checkout.dir("bin").display()
        );
        let env = [
            ("PATH", path.as_str()),
            ("HOME", "/home/person"),
            ("LANG", "C.UTF-8"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let checkout = self.checkout.dir("checkout");
        let line = format!(
            "{INSIDE} || exit 1; cd '{}' || exit 1; {line}",
            checkout.display()
        );
        self.machine.run("0:0", &env, &["sh", "-c", &line])
    }

    #[track_caller]
    fn typed(&self, line: &str) -> String {
        good(&self.shell(line))
    }
}

/// Commands that run in a terminal.
struct Terminal(Child);

impl Terminal {
    /// Ctrl-C reaches all of it.
    fn ctrl_c(&self) {
        killpg(self.group(), Signal::SIGINT).unwrap();
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.0.id().try_into().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        killpg(self.group(), Signal::SIGKILL).ok();
        self.0.wait().ok();
    }
}

#[test]
fn make_run_says_what_to_try_and_ends_with_ctrl_c() {
    for (beginning, profile) in [("make run", "release"), ("make run PROFILE", "dev")] {
        let checkout = Checkout::new();
        let line = command_of("README.md", beginning);
        let shell = checkout
            .shell(&format!("{line} 2>&1"))
            .env("TRUNKLINE_SERVER_LISTEN", "127.0.0.1:0")
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Terminal(shell);
        let mut out = BufReader::new(running.0.stdout.take().unwrap());
        let mut told = String::new();
        while !told.contains("stop:   Ctrl-C") {
            assert_ne!(out.read_line(&mut told).unwrap(), 0, "{line} ended: {told}");
        }
        assert!(
            told.contains("listening on http://127.0.0.1:") && told.contains("SIMULATED"),
            "{told}"
        );
        let shown = told.lines().find_map(|line| line.strip_prefix("try:"));
        let program = shown.and_then(|line| line.split_once(" new ")).unwrap().0;
        let answer = checkout.typed(&format!("{program} new --wait Hello"));
        assert!(answer.contains("simulated agent"), "{answer}");
        running.ctrl_c();
        out.read_to_string(&mut told).unwrap();
        running.0.wait().unwrap();
        assert!(!told.contains("ERROR"), "{told}");
        let started = checkout.said();
        let (before, started) = started.split_once("cargo ").unwrap();
        assert!(started.contains(&format!("--profile {profile} ")), "{started}");
        assert!(before.ends_with("npm run build\n"), "{before}");
        let data = checkout.dir("home/.local/state/trunkline");
        assert!(!data.join("daemon.json").exists(), "{told}");
    }
}

#[test]
fn the_console_is_built_once_and_a_machine_without_node_goes_on_without_it() {
    let line = command_of("README.md", "make build");
    let checkout = Checkout::new();
    checkout.typed(&line);
    checkout.typed(&line);
    assert_eq!(checkout.said().matches("npm run build").count(), 1);
    fs::write(checkout.dir("checkout/web/page.tsx"), "").unwrap();
    checkout.typed(&line);
    assert_eq!(checkout.said().matches("npm run build").count(), 2);

    let checkout = Checkout::new();
    executable(&checkout.dir("bin/node"), "#!/bin/sh\nexit 1\n");
    let told = checkout.typed(&line);
    assert_eq!(told.matches("without its console").count(), 1, "{told}");
    assert!(checkout.said().starts_with("cargo build"), "{}", checkout.said());
    let package = checkout
        .shell(&command_of("README.md", "make package"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&package.stderr);
    assert!(
        !package.status.success() && said.contains("the console is built by Node 20"),
        "{said}"
    );
}

#[test]
fn the_targets_that_write_files_write_them() {
    let checkout = Checkout::new();
    let help = checkout.typed(&command_of("README.md", "make help"));
    for target in ["run", "build", "install", "test", "package"] {
        assert!(help.lines().any(|line| line.starts_with(target)), "{help}");
    }
    checkout.typed(&command_of("docs/ARCHITECTURE.md", "make openapi"));
    let written = fs::read_to_string(checkout.dir("checkout/openapi/trunkline.json")).unwrap();
    let committed = fs::read_to_string(repository("openapi/trunkline.json")).unwrap();
    assert!(written == committed, "`make openapi` writes another document");
    let written = fs::read_to_string(checkout.dir("checkout/openapi/asyncapi.yaml")).unwrap();
    let committed = fs::read_to_string(repository("openapi/asyncapi.yaml")).unwrap();
    assert!(
        written == committed,
        "`make openapi` writes another document of the sockets"
    );
}

#[test]
fn an_installation_below_a_home_needs_no_sudo() {
    let checkout = Checkout::new();
    checkout.typed(&command_of("README.md", "make build"));
    checkout.typed(&command_of("README.md", "make install PREFIX"));
    let version = checkout.typed(r#"PATH="$HOME/.local/bin:$PATH" trunkline version"#);
    assert!(version.starts_with("trunkline "), "{version}");
    assert!(
        checkout
            .dir("home/.local/share/systemd/user/trunkline.service")
            .is_file()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_of_an_installation_put_it_in_place_and_take_it_away() {
    if lacks("namespaces") {
        return;
    }
    let checkout = Checkout::new();
    checkout.typed(&command_of("README.md", "make build"));
    let owner = Owner::of(&checkout).await;
    owner.typed("mkdir -p ~/.config/trunkline && touch ~/.config/trunkline/config.toml");
    owner.typed(&command_of("README.md", "sudo make install"));
    assert_eq!(owner.typed("command -v trunkline"), "/usr/local/bin/trunkline\n");
    assert!(owner.typed("trunkline version").starts_with("trunkline "));
    owner.typed("test -s /usr/local/share/man/man1/trunkline.1");
    owner.typed(&command_of("README.md", "sudo make uninstall"));
    assert!(!owner.shell("command -v trunkline").status.success());
    owner.typed("test -e ~/.config/trunkline/config.toml");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_package_is_installed_and_removed_with_apt() {
    if lacks("apt") {
        return;
    }
    let checkout = Checkout::new();
    let told = checkout.typed(&command_of("README.md", "make package"));
    assert!(
        told.contains("the container lines of README.md are not typed"),
        "{told}"
    );
    assert!(
        checkout
            .said()
            .contains("buildah build --format docker --tag trunkline"),
        "{told}"
    );
    let owner = Owner::of(&checkout).await;
    let install = command_of("README.md", "sudo apt install");
    owner.typed(&format!("yes | {install}"));
    assert_eq!(owner.typed("command -v trunkline"), "/usr/bin/trunkline\n");
    assert!(owner.typed("trunkline version").starts_with("trunkline "));
    // The system service's user, its settings, and what changed.
    owner.typed("getent passwd trunkline && test -e /etc/trunkline/config.toml");
    let changes = owner.typed("zcat /usr/share/doc/trunkline/changelog.Debian.gz");
    assert!(changes.starts_with("trunkline ("), "{changes}");
    let remove = command_of("docs/OPERATING.md", "apt remove");
    owner.typed(&format!("yes | {remove}"));
    assert!(!owner.shell("command -v trunkline").status.success());
    owner.typed("test -e /etc/trunkline/config.toml");
}

/// The check of `make package` types the README's lines: here to an engine that notes them.
#[test]
fn the_check_of_the_container_types_the_lines_of_the_readme() {
    let checkout = Checkout::new();
    fs::write(checkout.dir("bin/engine"), "").unwrap();
    copy(&repository("tests/it/docs/terminal.py"), &{
        let dir = checkout.dir("checkout/tests/it/docs");
        fs::create_dir_all(&dir).unwrap();
        dir
    });
    let told = checkout.typed("sh packaging/check-compose");
    let said = checkout.said();
    for beginning in [
        "docker compose exec trunkline claude",
        "docker compose exec trunkline trunkline",
    ] {
        let line = command_of("README.md", beginning);
        assert!(told.contains(&format!("$ {line}")), "{told}");
        let arguments = line.replace('"', "");
        assert!(said.contains(&arguments), "{said}");
    }
    assert!(said.contains("docker compose up --build --detach\n"), "{said}");
    assert!(
        said.ends_with("docker compose down --volumes --rmi local --timeout 45\n"),
        "{said}"
    );
}
