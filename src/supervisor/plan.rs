//! Owns the way from launch options to a launch: argv, environment, files, first lines.

use std::{
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crate::{
    claude::{
        self, LaunchFile, LaunchOptions, Start,
        control::Fields,
        hooks::{self, HookMatcher},
        options::PermissionMode,
        stdin,
    },
    domain::{AgentKind, ClientId, RestartOverride, RestartTerms, RunId, Seq, SessionId, fact::CliTotals},
    keeper::{DATA_MARKER, LaunchPlan, RUN_MARKER, SESSION_MARKER, StdinLine},
    session::{self, INITIALIZE_ID, Launch, Occasion, Routes, SessionError},
    store::SessionRow,
};

use super::{
    CliFound, Supervisor, SupervisorError, SupervisorSettings, messages::read_options, requests::Opening,
    settings::make_private_dir,
};

/// Where the simulated agent keeps its conversations.
const SIMULATOR_DIR: &str = "TRUNKLINE_SIM_DIR";

/// The parts of a launch.
pub(super) struct LaunchParts<'a> {
    pub(super) session: SessionId,
    pub(super) cwd: PathBuf,
    pub(super) options: &'a LaunchOptions,
    /// Directories that were taken out of the options.
    pub(super) left_out: Vec<String>,
    /// The names of options that were left out, as no process starts with them.
    pub(super) without: Vec<&'static str>,
    pub(super) start: Start,
    pub(super) base: CliTotals,
    pub(super) opening: Opening,
    pub(super) restart: Option<RestartTerms>,
    /// The requests that give the process what was set, by their ids.
    pub(super) restores: Vec<String>,
    /// The hooks that named clients registered in earlier processes.
    pub(super) hooks: Vec<HookMatcher>,
}

impl Supervisor {
    pub(super) fn launch(&self, cli: &CliFound, start: LaunchParts<'_>) -> Result<Launch, SupervisorError> {
        let settings = &self.shared.settings;
        let launch_dir = settings.launch_dir(start.session);
        let mut invocation =
            claude::invocation::build(start.options, &settings.policy, &start.start, &launch_dir);
        write_files(&launch_dir, &invocation.files)?;
        let Opening { host, prompt } = start.opening;
        let mut more_hooks = start.hooks;
        let mut by = "daemon".to_owned();
        if let Some(host) = &host {
            invocation.args.retain(|arg| !host.left_out.contains(arg));
            invocation.args.extend(host.args.iter().cloned());
            set_all(&mut invocation.env, &host.env);
            if let Some(request) = &host.initialize {
                by = session::name_of_client(&host.client);
                let own = session::own_hooks(&host.client, request);
                let own = own.map_err(SessionError::InvalidLine)?;
                more_hooks.retain(|matcher| !is_of(&host.client, matcher));
                more_hooks.extend(own.unwrap_or_default());
                let said = Fields::of_object(request).unwrap_or_default();
                for (name, value) in said
                    .iter()
                    .filter(|(name, _)| !["subtype", "hooks"].contains(name))
                {
                    invocation.initialize.set_raw(name, value.to_owned());
                }
            }
        }
        if !more_hooks.is_empty() {
            let mut all = hooks::of_options(start.options.hooks.as_deref().unwrap_or_default());
            all.extend(more_hooks);
            if let Some(all) = hooks::to_raw(&all) {
                invocation.initialize.set_raw("hooks", all);
            }
        }
        let run = RunId::new();
        let initialize = stdin::control_request(INITIALIZE_ID, "initialize", &invocation.initialize);
        let mut first_lines = vec![StdinLine {
            by: Some(by),
            line: String::from_utf8_lossy(&initialize).into_owned(),
        }];
        first_lines.extend(prompt);
        let mut marked = invocation.env;
        marked.push((SESSION_MARKER.to_owned(), start.session.to_string()));
        marked.push((DATA_MARKER.to_owned(), self.shared.data_mark.clone()));
        marked.push((RUN_MARKER.to_owned(), run.to_string()));
        if cli.simulated {
            let dir = settings.data_dir.join("simulated").display().to_string();
            marked.push((SIMULATOR_DIR.to_owned(), dir));
        }
        let args = cli.first_args.iter().cloned().chain(invocation.args).collect();
        let plan = LaunchPlan {
            session: start.session,
            run,
            program: cli.path.clone(),
            args,
            env: match host.as_ref().is_some_and(|host| host.has_whole_env) {
                true => child_environment(settings, &[], marked, start.options),
                false => environment(settings, marked, start.options),
            },
            cwd: start.cwd,
            journal_dir: settings.session_dir(start.session),
            // The session knows it.
            journal_floor: Seq::ZERO,
            socket: settings.socket(&self.shared.data_mark, start.session),
            identity_file: settings.identity_file(start.session),
            lease_file: Some(settings.lease_file(start.start.cli_session())),
            start_note: String::new(),
            first_lines,
            limits: settings.keeper.clone(),
        };
        Ok(Launch {
            plan,
            mode: start.start.mode(),
            agent: if cli.simulated {
                AgentKind::Simulated
            } else {
                AgentKind::Real
            },
            cli_session: start.start.cli_session(),
            base: start.base,
            routes: Routes::of(start.options),
            left_out: start.left_out,
            without: start.without,
            restart: start.restart,
            permission_mode: start.options.permission_mode.map(|mode| mode.as_str().to_owned()),
            keeps_conversation: keeps_conversation(start.options),
            restores: start.restores,
            occasion: Occasion::Asked,
            resume_at: start.start.goes_on_at(),
        })
    }
}

/// Puts variables in the place of those of the same name.
fn set_all(env: &mut Vec<(String, String)>, others: &[(String, String)]) {
    env.retain(|(name, _)| !others.iter().any(|(other, _)| other == name));
    env.extend(others.iter().cloned());
}

/// Whether all hooks of a matcher are those of a client, which it says anew.
fn is_of(client: &ClientId, matcher: &HookMatcher) -> bool {
    let prefix = format!("{client}/");
    matcher.callback_ids.iter().all(|id| id.starts_with(&prefix))
}

/// Whether the CLI keeps the conversation of a session with these options.
pub(super) fn keeps_conversation(options: &LaunchOptions) -> bool {
    options.persist_session.unwrap_or(true)
}

pub(super) fn environment(
    settings: &SupervisorSettings,
    fixed: Vec<(String, String)>,
    options: &LaunchOptions,
) -> Vec<(String, String)> {
    let is_replaced = options.replace_env == Some(true);
    let of_daemon = if is_replaced {
        &[]
    } else {
        settings.daemon_env.as_slice()
    };
    child_environment(settings, of_daemon, fixed, options)
}

fn child_environment(
    settings: &SupervisorSettings,
    of_daemon: &[(String, String)],
    fixed: Vec<(String, String)>,
    options: &LaunchOptions,
) -> Vec<(String, String)> {
    let mut asked = settings.env_fixed.clone();
    asked.extend(options.env.clone().unwrap_or_default());
    claude::environment::child(&settings.env_allow, of_daemon.iter().cloned(), &fixed, &asked)
}

/// Writes the files that the CLI reads. They may hold secrets, so only the owner can read them.
fn write_files(dir: &Path, files: &[LaunchFile]) -> Result<(), SupervisorError> {
    // Files that an earlier start left there may hold secrets of settings that are gone.
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(SupervisorError::files(dir)(error));
        }
        _ => {}
    }
    make_private_dir(dir).map_err(SupervisorError::files(dir))?;
    for file in files {
        let path = dir.join(file.name);
        let write = || {
            let mut open = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)?;
            open.write_all(&file.contents)
        };
        write().map_err(SupervisorError::files(&path))?;
    }
    Ok(())
}

/// Refuses to go on with a conversation that ended with its process.
pub(super) fn refuse_unkept(row: &SessionRow, has_conversation: bool) -> Result<(), SupervisorError> {
    if has_conversation && !keeps_conversation(&read_options(&row.options)?) {
        return Err(SupervisorError::ConversationNotKept);
    }
    Ok(())
}

/// The mode that the conversation was last in is the one it goes on in: plans are accepted, modes are switched.
pub(super) fn apply_mode(options: &mut LaunchOptions, row: &SessionRow) {
    if row.mode_of_options {
        // Somebody changed the options since.
        return;
    }
    let mode = row.permission_mode.as_deref();
    let last = mode.and_then(|mode| serde_json::from_value::<PermissionMode>(mode.into()).ok());
    options.permission_mode = last.or(options.permission_mode.take());
}

pub(super) fn options_text(options: &LaunchOptions) -> Result<String, SupervisorError> {
    serde_json::to_string(options).map_err(|_| SupervisorError::StoredOptions)
}

pub(super) fn restart_text(own: &RestartOverride) -> Result<String, SupervisorError> {
    serde_json::to_string(own).map_err(|_| SupervisorError::StoredOptions)
}
