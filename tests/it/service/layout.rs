//! Owns that the image works: the runtime stage's layout, user, variables and command lines are the Dockerfile's, with the program
//! under test in it; only the base is this machine's `/usr`.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::Output,
};

use serde_json::Value;

use crate::{
    service::machine::{Machine, good, lacks},
    support::{
        programs::{fake_claude, repository, trunkline},
        wait::{PATIENCE, wait_until},
    },
};

/// A stage of the Dockerfile, with all that it takes over from the stages below it.
#[derive(Clone, Debug, Default)]
struct Stage {
    env: BTreeMap<String, String>,
    user: String,
    work_dir: String,
    volumes: Vec<String>,
    health: Vec<String>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    /// The lines that it runs, without those that fetch packages.
    runs: Vec<String>,
}

/// The stages by name; the last one, which is built when none is named, is the one without a name.
fn stages() -> BTreeMap<String, Stage> {
    let text = fs::read_to_string(repository("Dockerfile")).unwrap();
    let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let text = text.join("\n").replace("\\\n", " ");
    let mut stages: BTreeMap<String, Stage> = BTreeMap::new();
    let mut name = String::new();
    let list = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap();
    for (keyword, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
        let rest = rest.trim();
        if keyword == "FROM" {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let base = stages.get(words[0]).cloned().unwrap_or_default();
            words.get(2).copied().unwrap_or_default().clone_into(&mut name);
            stages.insert(name.clone(), base);
            continue;
        }
        let stage = stages.entry(name.clone()).or_default();
        match keyword {
            "ENV" => stage.env.extend(rest.split_whitespace().map(|pair| {
                let (name, value) = pair.split_once('=').unwrap();
                (name.to_owned(), value.to_owned())
            })),
            "USER" => rest.clone_into(&mut stage.user),
            "WORKDIR" => rest.clone_into(&mut stage.work_dir),
            "VOLUME" => stage.volumes.extend(list(rest)),
            "HEALTHCHECK" => stage.health = list(rest.split_once("CMD ").unwrap().1),
            "ENTRYPOINT" => stage.entrypoint = list(rest),
            "CMD" => stage.command = list(rest),
            "RUN" if !rest.contains("apt-get") && !rest.contains("npm ") => stage.runs.push(rest.to_owned()),
            _ => {}
        }
    }
    stages
}

/// Puts the layout together and becomes process 1 of it. $1: where; $2: volumes; $3: the program; $4: an agent CLI or nothing;
/// $5: the lines of the stage; $6: the user; $7: where it works; then the command line.
const START: &str = r#"
root=$1 volumes=$2 program=$3 agent=$4 runs=$5 user=$6 work_dir=$7
shift 7
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir -p usr etc proc dev tmp root run opt/claude/bin
chmod 1777 tmp
mount --rbind /usr usr
mount -t tmpfs -o mode=755 tmpfs usr/local
mkdir -p usr/local/bin
for link in bin sbin lib lib64; do
    if [ -L /$link ]; then cp -P /$link .; elif [ -d /$link ]; then mkdir $link; mount --rbind /$link $link; fi
done
for file in ld.so.cache ssl nsswitch.conf alternatives; do [ ! -e /etc/$file ] || cp -a /etc/$file etc; done
echo 'root:x:0:0:root:/root:/bin/sh' > etc/passwd
echo 'root:x:0:' > etc/group
mount -t proc proc proc
mount --rbind /dev dev
install -m 755 "$program" usr/local/bin/trunkline
if [ -n "$agent" ]; then
    mkdir -p opt/agent
    mount --bind "$(dirname "$agent")" opt/agent
    ln -s "/opt/agent/$(basename "$agent")" opt/claude/bin/claude
fi
chroot . sh -euc "$runs"
# A volume that is new gets the mode of the image's folder.
for volume in data work; do
    if [ ! -d "$volumes/$volume" ]; then
        mkdir "$volumes/$volume"
        chmod "$(stat -c %a $volume)" "$volumes/$volume"
        chown "$(stat -c %u:%g $volume)" "$volumes/$volume"
    fi
    mount --bind "$volumes/$volume" $volume
done
# It ends with its parent, also as another user.
exec chroot . setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --pdeathsig=KILL \
    sh -c 'cd "$0" && exec "$@"' "$work_dir" "$@"
"#;

/// A container of the image.
struct Container {
    machine: Machine,
    user: String,
    env: Vec<(String, String)>,
    health: Vec<String>,
}

impl Container {
    /// `docker run`, and the wait until it is healthy.
    async fn run(stage: &Stage, user: &str, place: &Path, agent: Option<&Path>) -> Self {
        let root = place.join("root");
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(place.join("volumes")).unwrap();
        let mut env = stage.env.clone();
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        env.entry("PATH".to_owned()).or_insert_with(|| path.to_owned());
        let env: Vec<(String, String)> = env.into_iter().collect();
        let pairs: Vec<String> = env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let runs = stage.runs.join("\n");
        let (volumes, program) = (place.join("volumes"), trunkline());
        let mut args: Vec<&OsStr> = vec![root.as_ref(), volumes.as_ref(), program.as_ref()];
        args.push(agent.map_or(OsStr::new(""), Path::as_os_str));
        args.extend([&runs, user, &stage.work_dir].map(OsStr::new));
        args.extend(["/usr/bin/env", "-i"].map(OsStr::new));
        let line = pairs.iter().chain(&stage.entrypoint).chain(&stage.command);
        args.extend(line.map(OsStr::new));
        let log = place.join("log");
        let machine = Machine::start(START, &args, &log).await;
        let container = Self {
            machine,
            user: user.to_owned(),
            env,
            health: stage.health.clone(),
        };
        wait_until("it is healthy", PATIENCE, || {
            container.machine.told().contains("http://") && container.is_healthy()
        })
        .await;
        container
    }

    /// `docker exec`
    fn exec(&self, line: &[&str]) -> Output {
        self.machine.run(&self.user, &self.env, line)
    }

    fn is_healthy(&self) -> bool {
        let line: Vec<&str> = self.health.iter().map(String::as_str).collect();
        self.exec(&line).status.success()
    }

    #[track_caller]
    fn client(&self, args: &[&str]) -> String {
        let line: Vec<&str> = std::iter::once("trunkline").chain(args.iter().copied()).collect();
        good(&self.exec(&line))
    }
}

/// All below a folder belongs to a user.
fn all_of(dir: &Path, uid: u32) -> bool {
    fs::read_dir(dir).unwrap().flatten().all(|entry| {
        let about = entry.metadata().unwrap();
        about.uid() == uid && (!about.is_dir() || all_of(&entry.path(), uid))
    })
}

#[test]
fn an_engine_sees_that_the_image_is_not_root_and_what_must_survive() {
    let stages = stages();
    let last = &stages[""];
    for stage in [last, &stages["runtime"], &stages["with-claude"]] {
        let (uid, gid) = stage.user.split_once(':').unwrap();
        assert_ne!(uid.parse::<u32>().unwrap(), 0);
        assert_eq!(
            gid, "0",
            "as on OpenShift, so that a change of the user changes no more"
        );
        assert_eq!(stage.env["HOME"], "/data");
        assert!(stage.volumes.contains(&"/data".to_owned()));
        assert!(stage.env["TRUNKLINE_DATA_DIR"].starts_with("/data/"));
        assert_eq!(stage.command, last.command);
    }
    assert!(
        !last.env.contains_key("CLAUDE_BIN"),
        "the daemon alone is the default"
    );
    // The compose file runs the same volume, and gives the daemon the time that it may take to stop.
    let compose = fs::read_to_string(repository("compose.yaml")).unwrap();
    for said in [
        ":/data\n",
        ":/work\"\n",
        "stop_grace_period: 45s\n",
        "127.0.0.1:${TRUNKLINE_PORT:-7433}:7433",
        "target: with-claude ",
    ] {
        assert!(compose.contains(said), "{said}");
    }
}

/// A user that the image does not know, as `OpenShift` makes one up, and one with a group of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_container_of_any_user_goes_on_with_its_sessions() {
    if lacks("namespaces") {
        return;
    }
    let stage = &stages()[""];
    for user in ["1000680000:0", "1234:1234"] {
        let place = tempfile::Builder::new().prefix("tl-").tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut first = Container::run(stage, user, place.path(), None).await;
        let said = first.client(&["new", "--wait", "Remember the word heron."]);
        assert!(said.contains("simulated"), "{said}");
        let uid = user.split_once(':').unwrap().0.parse().unwrap();
        let data = place.path().join("volumes/data");
        assert!(all_of(&data, uid), "{user}");
        // The token is where it is said to be, and works with curl.
        let url = "http://127.0.0.1:7433/v1/sessions";
        let asked =
            format!("curl -sS --fail -H \"Authorization: Bearer $(cat /data/trunkline/token)\" {url}");
        assert!(good(&first.exec(&["sh", "-c", &asked])).contains("heron"));
        assert_eq!(first.machine.stop(), Some(0));
        drop(first);

        let mut second = Container::run(stage, user, place.path(), None).await;
        assert!(second.client(&["ls"]).contains("stopped"));
        second.client(&["resume", "last"]);
        second.client(&["send", "last", "--wait", "And now?"]);
        let conversation = second.client(&["log", "last"]);
        assert!(
            conversation.contains("heron") && conversation.contains("And now?"),
            "{conversation}"
        );
        assert_eq!(second.machine.stop(), Some(0));
    }
}

/// The CLI keeps its conversations in its home: they must be there for the next container.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_container_has_the_conversations_of_the_agent() {
    if lacks("namespaces") {
        return;
    }
    let stage = &stages()["with-claude"];
    let place = tempfile::Builder::new().prefix("tl-").tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let agent = fake_claude();
    let mut first = Container::run(stage, &stage.user, place.path(), Some(&agent)).await;
    first.client(&["new", "--wait", "hello"]);
    let shown: Value = serde_json::from_str(&first.client(&["show", "last", "--json"])).unwrap();
    assert_eq!(shown["simulated"], false, "{shown}");
    assert_eq!(first.machine.stop(), Some(0));
    drop(first);
    let second = Container::run(stage, &stage.user, place.path(), Some(&agent)).await;
    second.client(&["resume", "last"]);
    second.client(&["send", "last", "--wait", "still there?"]);
    drop(second);

    // Without the volume the agent knows nothing of it.
    fs::remove_dir_all(place.path().join("volumes/data/.claude-fake")).unwrap();
    let third = Container::run(stage, &stage.user, place.path(), Some(&agent)).await;
    let refused = third.exec(&["trunkline", "send", "last", "--wait", "still there?"]);
    assert!(
        !refused.status.success(),
        "the fake CLI looks its conversations up"
    );
}
