//! Owns the translation of the configuration into the settings of the parts.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;

use super::super::CliError;
use crate::{
    claude::{Policy, environment},
    config::{Claude, Config, Loaded},
    domain::{Liveness, RestartPolicy, Secret, WebhookSpec},
    http::{HttpConfig, InForce},
    keeper::KeeperLimits,
    os::{given_open_files, open_files_limit},
    supervisor::{DeskTimes, JournalSettings, Limits, ParkSettings, Simulator, SupervisorSettings},
};

pub(super) fn http(config: &Config) -> HttpConfig {
    let server = &config.server;
    HttpConfig {
        allowed_hosts: server.allowed_hosts.clone(),
        allowed_origins: server.allowed_origins.clone(),
        max_prompt_bytes: size(server.max_prompt_bytes),
        max_connections_per_session: size(server.max_connections_per_session.into()),
        max_connections: size(server.max_connections.into()),
        // Others need descriptors too.
        max_unauthenticated_connections: size(server.max_unauthenticated_connections.into())
            .min(size(open_files_limit() / 4).max(8)),
        header_timeout_ms: server.header_timeout_ms,
        idle_timeout_ms: server.idle_timeout_ms,
        body_timeout_ms: server.body_timeout_ms,
        ping_interval_ms: server.ping_interval_ms,
        send_timeout_ms: server.send_timeout_ms,
        reconnect_after_ms: config.stop.reconnect_after_ms,
        profiles: config.sessions.profiles.clone(),
        ..HttpConfig::default()
    }
}

/// The configuration that the daemon began with, as it tells it.
pub(super) fn in_force(loaded: &Loaded, settings: &SupervisorSettings) -> InForce {
    let entries = loaded.config.entries().into_iter();
    let variables = environment::child(
        &settings.env_allow,
        settings.daemon_env.iter().cloned(),
        &[],
        &settings.env_fixed,
    );
    InForce {
        file: loaded.file.as_ref().map(|file| file.display().to_string()),
        values: entries
            .map(|(key, value)| {
                let origin = loaded.origin(&key).to_string();
                (key, value, origin)
            })
            .collect(),
        variables: variables.into_iter().map(|(name, _)| name).collect(),
    }
}

/// The webhooks of the configuration.
pub(super) fn webhooks(config: &Config) -> Vec<(String, WebhookSpec, Secret)> {
    let receivers = config.webhooks.receivers.iter();
    receivers
        .map(|receiver| (receiver.name.clone(), receiver.spec(), receiver.secret.clone()))
        .collect()
}

/// The program that runs, which is not the file at its path any more once that was upgraded.
fn this_program() -> Result<PathBuf, CliError> {
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    Ok(std::env::current_exe().context("cannot find the path of this program")?)
}

pub(super) fn supervisor(config: &Config) -> Result<SupervisorSettings, CliError> {
    let this_program = this_program()?;
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let sessions = &config.sessions;
    let (limits, stop) = (&config.limits, &config.stop);
    let mut env_allow = environment::default_allow();
    env_allow.extend(config.claude.env_allow.iter().cloned());
    Ok(SupervisorSettings {
        data_dir: config.data.dir.clone(),
        runtime_dir: config.data.runtime_dir.clone(),
        keeper_program: this_program.clone(),
        claude_bin: config.claude.bin.clone(),
        executables: config.claude.executables.clone(),
        simulator: Simulator::WhenNoCli(this_program, vec!["sim".into()]),
        env_allow,
        env_fixed: config.claude.env.clone(),
        daemon_env: daemon_environment(&config.claude, variables),
        cwd_roots: sessions.cwd_roots.clone(),
        policy: Policy {
            allow_bypass_permissions: sessions.allow_bypass_permissions,
            allow_extra_args: sessions.allow_extra_args,
        },
        rules: Arc::new(config.rules.clone()),
        max_prompt_bytes: size(config.server.max_prompt_bytes),
        start_timeout_ms: sessions.start_timeout_ms,
        desk: DeskTimes {
            offer_ms: sessions.offer_ms,
            return_grace_ms: sessions.return_grace_ms,
            host_grace_ms: sessions.host_grace_ms,
        },
        restart: RestartPolicy {
            max_restarts: config.restart.max_restarts,
            window_ms: config.restart.window_ms,
            first_delay_ms: config.restart.first_delay_ms,
            longest_delay_ms: config.restart.longest_delay_ms,
            stable_ms: config.restart.stable_ms,
        },
        liveness: Liveness {
            after_ms: config.liveness.after_ms,
            action: config.liveness.action,
        },
        park: ParkSettings {
            idle_ms: config.park.idle_ms,
            grace_ms: config.park.grace_ms,
            make_room: config.park.make_room,
            memory_budget_bytes: config.park.memory_budget_bytes,
            measure_ms: config.park.measure_ms,
        },
        limits: Limits {
            live: size(limits.live_processes.into()),
            live_per_cwd: size(limits.live_per_cwd.into()),
            starts: size(limits.parallel_starts.into()),
            waiting: size(limits.queued_starts.into()),
        },
        warm: super::super::warm::settings(config)?,
        keeper: KeeperLimits {
            max_line_bytes: size(sessions.max_line_bytes),
            stdin_queue_bytes: size(sessions.stdin_queue_bytes),
            stderr_tail_bytes: size(sessions.stderr_tail_bytes),
            segment_bytes: sessions.segment_bytes,
            eof_grace_ms: stop.eof_grace_ms,
            term_grace_ms: stop.term_grace_ms,
            drain_ms: stop.drain_ms,
            orphan_grace_ms: stop.orphan_grace_ms,
            sync_interval_ms: sessions.sync_interval_ms,
            open_files: given_open_files(),
            ..KeeperLimits::default()
        },
        journal: journals(config),
        ring_bytes: size(sessions.ring_bytes),
    })
}

/// How long journals are kept, and how large.
pub(in crate::cli) const fn journals(config: &Config) -> JournalSettings {
    let journal = &config.journal;
    JournalSettings {
        compact_after_ms: journal.compact_after_ms,
        keep_ms: journal.keep_ms,
        keep_bytes: journal.keep_bytes,
        look_every_ms: journal.look_every_ms,
    }
}

/// The daemon's environment as sessions may see it: without what is denied, and with the extra directories on `PATH`.
fn daemon_environment(
    claude: &Claude,
    variables: impl Iterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let is_denied = |name: &str| claude.env_deny.iter().any(|pattern| matches(pattern, name));
    let mut kept: Vec<(String, String)> = variables.filter(|(name, _)| !is_denied(name)).collect();
    if claude.path_extra.is_empty() {
        return kept;
    }
    let old = kept
        .iter()
        .position(|(name, _)| name == "PATH")
        .map(|index| kept.swap_remove(index).1)
        .unwrap_or_default();
    let dirs: Vec<PathBuf> = claude
        .path_extra
        .iter()
        .cloned()
        .chain(std::env::split_paths(&old).filter(|dir| !dir.as_os_str().is_empty()))
        .collect();
    // The configuration refuses directories with a colon, and those of PATH have none.
    if let Some(path) = std::env::join_paths(dirs)
        .ok()
        .and_then(|path| path.into_string().ok())
    {
        kept.push(("PATH".into(), path));
    }
    kept
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            let ends = (0..=rest.len()).filter(|&end| rest.is_char_boundary(end));
            ends.into_iter()
                .any(|end| rest.get(end..).is_some_and(|rest| matches(after, rest)))
        }),
    }
}

/// A size in memory. One that this machine cannot count has no limit.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_names_are_left_out_and_extra_directories_come_first() {
        let claude = Claude {
            env_deny: vec!["ANTHROPIC_*".into(), "X".into()],
            path_extra: vec!["/opt/node".into()],
            ..Claude::default()
        };
        let variables = [
            ("ANTHROPIC_API_KEY", "k"),
            ("PATH", "/bin:/usr/bin"),
            ("X", "1"),
            ("XY", "2"),
        ];
        let kept = daemon_environment(
            &claude,
            variables
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let expected = [("XY", "2"), ("PATH", "/opt/node:/bin:/usr/bin")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(kept, expected);
        let kept = daemon_environment(&claude, std::iter::empty());
        assert_eq!(kept, [("PATH".to_owned(), "/opt/node".to_owned())]);
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("A", "A", true),
            ("A", "AB", false),
            ("A*", "AB", true),
            ("*", "", true),
            ("A_*_B", "A_x_y_B", true),
            ("A_*_B", "A_x_C", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
