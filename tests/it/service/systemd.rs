//! Owns the units under a real systemd, process 1 of namespaces and of a cgroup of its own: it starts what `make install` and the
//! units' own words put in place, and a restart in the middle of a turn keeps a session's processes.

use std::{ffi::OsStr, fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    service::{
        install::install,
        machine::{Machine, SUDO, command, executable, good, lacks},
    },
    support::{
        pages::command_of,
        proc,
        programs::repository,
        wait::{PATIENCE, wait_until},
    },
};

/// No real machine knows them.
const PERSON: (&str, &str) = ("person", "61234:61234");
const SERVICE: (&str, &str) = ("trunkline", "61235:61235");

/// A login of the agent CLI: what it keeps is in its home.
const AGENT: &str = "#!/bin/sh\nid -un > \"$HOME/.login\"\n";

/// Makes a machine of this one's `/usr` and becomes its systemd. $1: the folder with what is installed.
///
/// Without a cgroup namespace systemd would move all processes of the real machine, so it is looked for twice.
const BOOT: &str = r#"
base=$1
[ "$(sed -n 's/^0:://p' /proc/self/cgroup)" = / ] || { echo "no cgroup namespace"; exit 1; }
umount --lazy /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
tries=0
others=yes
while [ -n "$others" ]; do
    others=
    while read -r pid; do [ "$pid" = 1 ] || others="$others $pid"; done < /sys/fs/cgroup/cgroup.procs
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { echo "others are in this cgroup:$others"; exit 1; }
    [ -z "$others" ] || sleep 0.05
done
for dir in /run /var/lib /home /etc/default /etc/systemd/system /etc/systemd/user; do
    mkdir -p $dir
    mount -t tmpfs -o mode=755 tmpfs $dir
done
mount --bind /proc/sys /proc/sys
mount -o remount,ro,bind /proc/sys
for file in passwd group; do
    cp /etc/$file /run/$file
    cat "$base/$file" >> /run/$file
    mount --bind /run/$file /etc/$file
done
mount --bind "$base/installed/usr/local" /usr/local
cp "$base"/units/* /etc/systemd/system
mkdir -p /home/person/.config/trunkline
cp "$base/environment" /home/person/.config/trunkline/environment
cp "$base/environment" /etc/default/trunkline
chown -R person:person /home/person
exec env -i container=test PATH=/usr/local/bin:/usr/bin:/bin SYSTEMD_UNIT_PATH=/etc/systemd/system \
    /lib/systemd/systemd --system --unit=ready.target --log-target=null --show-status=no --default-standard-output=null
"#;

/// Units that stand in for a distribution's, so that nothing of this machine's is started.
const STAND_INS: &[(&str, &str)] = &[
    ("sysinit.target", "[Unit]\nDefaultDependencies=no\n"),
    ("basic.target", "[Unit]\nDefaultDependencies=no\n"),
    ("shutdown.target", "[Unit]\nDefaultDependencies=no\n"),
    ("sockets.target", "[Unit]\n"),
    ("network-online.target", "[Unit]\n"),
    ("multi-user.target", "[Unit]\n"),
    (
        "ready.target",
        "[Unit]\nRequires=person.service\nAfter=person.service\n",
    ),
    // As a login does it, without PAM.
    (
        "person.service",
        "[Service]\nType=notify\nUser=person\nWorkingDirectory=/home/person\nRuntimeDirectory=user\nRuntimeDirectoryMode=0700\n\
         Environment=XDG_RUNTIME_DIR=/run/user SYSTEMD_LOG_TARGET=null\nExecStart=/lib/systemd/systemd --user --unit=sockets.target\n\
         KillMode=mixed\nDelegate=yes\n",
    ),
];

/// A machine with systemd and the program.
struct Booted {
    machine: Machine,
    _place: TempDir,
}

/// One of the two ways to have the service.
struct Kind {
    account: (&'static str, &'static str),
    env: Vec<(String, String)>,
    systemctl: Vec<&'static str>,
    /// Where the unit's data directory is.
    data: &'static str,
}

impl Kind {
    fn new(is_user: bool) -> Self {
        let (account, home, systemctl, data) = if is_user {
            let data = "/home/person/.local/state/trunkline";
            (PERSON, "/home/person", vec!["systemctl", "--user"], data)
        } else {
            (
                SERVICE,
                "/var/lib/trunkline",
                vec!["systemctl"],
                "/var/lib/trunkline",
            )
        };
        let env = [
            ("HOME", home),
            (
                "PATH",
                "/usr/local/lib/stand-ins:/usr/local/bin:/usr/bin:/bin:/usr/sbin",
            ),
            ("XDG_RUNTIME_DIR", "/run/user"),
            ("TRUNKLINE_DATA_DIR", data),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            account,
            env: env.into(),
            systemctl,
            data,
        }
    }
}

impl Booted {
    async fn boot() -> Self {
        let place = tempfile::Builder::new().prefix("tl-").tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        install(&place.path().join("installed"), "/usr/local");
        let programs = place.path().join("installed/usr/local/lib/stand-ins");
        fs::create_dir_all(&programs).unwrap();
        for (name, text) in [("sudo", SUDO), ("claude", AGENT)] {
            executable(&programs.join(name), text);
        }
        let units = place.path().join("units");
        fs::create_dir(&units).unwrap();
        for (name, text) in STAND_INS {
            fs::write(units.join(name), text).unwrap();
        }
        let ours = repository("packaging/systemd/system");
        for name in ["trunkline.service", "trunkline.socket"] {
            fs::copy(ours.join(name), units.join(name)).unwrap();
        }
        let of_both = |line: &dyn Fn(&str, &str) -> String| {
            [(PERSON, "/home/person"), (SERVICE, "/var/lib/trunkline")]
                .map(|((name, ids), home)| line(&format!("{name}:x:{ids}"), home))
                .concat()
        };
        let passwd = of_both(&|start, home| format!("{start}::{home}:/bin/sh\n"));
        let group = of_both(&|start, _| format!("{}:\n", start.rsplit_once(':').unwrap().0));
        fs::write(place.path().join("passwd"), passwd).unwrap();
        fs::write(place.path().join("group"), group).unwrap();
        fs::write(
            place.path().join("environment"),
            "ANTHROPIC_API_KEY=of-the-service\n",
        )
        .unwrap();
        let log = place.path().join("log");
        let base: &OsStr = place.path().as_ref();
        let machine = Machine::start_in_cgroup(BOOT, &[base], &log).await;
        let booted = Self {
            machine,
            _place: place,
        };
        wait_until("systemd is up", PATIENCE, || {
            booted
                .root(&["systemctl", "is-active", "ready.target"])
                .status
                .success()
        })
        .await;
        booted
    }

    fn root(&self, line: &[&str]) -> std::process::Output {
        let env = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        self.machine.run("0:0", &env, line)
    }

    /// `systemctl`, for the user by himself.
    #[track_caller]
    fn systemctl(&self, kind: &Kind, args: &[&str]) {
        let line: Vec<&str> = kind.systemctl.iter().chain(args).copied().collect();
        let ids = if kind.systemctl.len() > 1 {
            kind.account.1
        } else {
            "0:0"
        };
        let output = self.machine.run(ids, &kind.env, &line);
        let status: Vec<&str> = kind
            .systemctl
            .iter()
            .copied()
            .chain(["status", "trunkline"])
            .collect();
        let status = self.machine.run(ids, &kind.env, &status);
        let status = String::from_utf8_lossy(&status.stdout);
        assert!(output.status.success(), "{args:?}: {output:?}\n{status}");
    }

    /// A line of the documents, as the user types it; for the system's service without `--user`, and as root.
    #[track_caller]
    fn typed(&self, kind: &Kind, line: &str) {
        let is_user = kind.account == PERSON;
        let line = if is_user {
            line.to_owned()
        } else {
            line.replace(" --user", "")
        };
        let ids = if is_user { kind.account.1 } else { "0:0" };
        let output = self.machine.run(ids, &kind.env, &["sh", "-c", &line]);
        assert!(output.status.success(), "{line}: {output:?}");
    }

    fn client(&self, kind: &Kind, args: &[&str]) -> std::process::Output {
        let line: Vec<&str> = std::iter::once("trunkline").chain(args.iter().copied()).collect();
        self.machine.run(kind.account.1, &kind.env, &line)
    }

    /// Whether `systemctl` says so of the service.
    fn is(&self, kind: &Kind, asked: &str) -> bool {
        let line: Vec<&str> = kind
            .systemctl
            .iter()
            .copied()
            .chain([asked, "trunkline"])
            .collect();
        self.machine
            .run(kind.account.1, &kind.env, &line)
            .status
            .success()
    }

    fn state(&self, kind: &Kind) -> Option<String> {
        let shown = self.client(kind, &["show", "last", "--json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).ok()?;
        Some(shown["state"].as_str()?.to_owned())
    }

    /// The keepers and the agents of the service, and not its daemon.
    fn session_processes(&self) -> Vec<i32> {
        let mut all = self.machine.processes_of("trunkline.service");
        all.retain(|pid| proc::read(*pid).is_some_and(|process| !process.command.contains(" serve")));
        all
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn systemd_starts_the_units_and_a_restart_in_a_turn_keeps_its_processes() {
    if lacks("systemd") {
        return;
    }
    let booted = Booted::boot().await;
    let enable = command_of("README.md", "systemctl --user enable");
    let restart = command_of("README.md", "systemctl --user restart");
    let disable = command_of("docs/OPERATING.md", "systemctl --user disable");
    for kind in [Kind::new(true), Kind::new(false)] {
        booted.typed(&kind, &enable);
        let told = good(&booted.client(&kind, &["new", "Use a tool, please"]));
        assert!(!told.is_empty());
        wait_until("the turn waits for a person", PATIENCE, || {
            booted.state(&kind).as_deref() == Some("waiting")
        })
        .await;
        let before = booted.session_processes();
        assert_eq!(before.len(), 2, "a keeper and an agent");
        // The key of the service's own file reaches the agent.
        let agent = before
            .iter()
            .find_map(|pid| proc::read(*pid)?.env("ANTHROPIC_API_KEY"));
        assert_eq!(agent.as_deref(), Some("of-the-service"));

        booted.typed(&kind, &restart);
        assert_eq!(booted.session_processes(), before);
        good(&booted.client(&kind, &["approve", "last"]));
        wait_until("the turn ends", PATIENCE, || {
            booted.state(&kind).as_deref() == Some("idle")
        })
        .await;
        assert_eq!(booted.session_processes(), before);

        // The socket starts the service at the first connection.
        good(&booted.client(&kind, &["stop", "last"]));
        booted.systemctl(&kind, &["stop", "trunkline.service"]);
        booted.systemctl(&kind, &["start", "trunkline.socket"]);
        let asked = ["curl", "-sS", "--fail", "http://127.0.0.1:7433/healthz"];
        good(&booted.machine.run(kind.account.1, &kind.env, &asked));
        let listed = good(&booted.client(&kind, &["ls"]));
        assert!(listed.contains("stopped"), "{listed}");
        booted.systemctl(&kind, &["stop", "trunkline.socket"]);
        booted.typed(&kind, &disable);
        assert!(!kind.data.is_empty() && booted.session_processes().is_empty());
        assert!(!booted.is(&kind, "is-active") && !booted.is(&kind, "is-enabled"));
    }
    // A login as the user of the system's service is where its sessions look for it.
    let service = Kind::new(false);
    let login = command_of("docs/OPERATING.md", "sudo -u trunkline");
    booted.typed(&service, &login);
    let kept = booted
        .machine
        .run(SERVICE.1, &service.env, &["sh", "-c", "cat \"$HOME/.login\""]);
    assert_eq!(good(&kept), "trunkline\n");
}

/// The figure is 0 for a service that can do nothing and 10 for one that can do all. A session does what its user does, so the user's
/// service is at the upper end.
#[test]
fn the_exposure_of_the_units_does_not_grow() {
    let place = tempfile::tempdir().unwrap();
    for (kind, most) in [("user", 9.8), ("system", 6.1)] {
        let unit = Path::new("packaging/systemd")
            .join(kind)
            .join("trunkline.service");
        let output = command("systemd-analyze")
            .args([&format!("--{kind}"), "security", "--offline=true", "--no-pager"])
            .arg(repository(unit.to_str().unwrap()))
            .env("XDG_RUNTIME_DIR", place.path())
            .output()
            .unwrap();
        let told = good(&output);
        let figure = told
            .lines()
            .find_map(|line| line.split_once("Overall exposure level for trunkline.service: "))
            .and_then(|(_, rest)| rest.split(' ').next())
            .and_then(|figure| figure.parse::<f64>().ok());
        let figure = figure.unwrap_or_else(|| panic!("{told}"));
        assert!(figure <= most, "{kind}: {figure}, at most {most}\n{told}");
    }
}
