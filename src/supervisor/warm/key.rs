//! Owns the comparison of launches: what would be started for one request and for another, to the last byte.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::{
    claude::{
        self, LaunchFile, LaunchOptions, Start,
        options::{Hook, SdkMcpServer, Settings},
    },
    domain::CliSessionId,
};

use super::{
    super::{CliFound, Supervisor, SupervisorError, cli::FileStamp, plan},
    surroundings::Surroundings,
};

/// All that a process in its directory depends on when it starts, ids apart. Two that are equal start the same process.
#[derive(PartialEq)]
pub(super) struct LaunchKey {
    program: PathBuf,
    program_stamp: FileStamp,
    first_args: Vec<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    initialize: Option<String>,
    files: Vec<LaunchFile>,
    pub(super) cwd: PathBuf,
    /// A directory that was made anew at the same place is another one.
    cwd_inode: (u64, u64),
    settings_stamp: FileStamp,
    surroundings: Surroundings,
    /// Whom the daemon asks for the CLI.
    hooks: Vec<Hook>,
    servers: Vec<(String, SdkMcpServer)>,
}

/// Without what may be secret.
impl std::fmt::Debug for LaunchKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaunchKey")
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

impl Supervisor {
    /// The launch of a new session with these options in a resolved directory. A hundred files and more are looked at for it, on
    /// disks that may hang.
    pub(super) async fn launch_key(
        &self,
        cli: &CliFound,
        cwd: &Path,
        options: &LaunchOptions,
    ) -> Result<LaunchKey, SupervisorError> {
        let (supervisor, cli, options) = (self.clone(), cli.clone(), options.clone());
        let dir = cwd.to_owned();
        self.look_at(cwd, move || supervisor.read_launch_key(&cli, &dir, &options))
            .await
    }

    fn read_launch_key(
        &self,
        cli: &CliFound,
        cwd: &Path,
        options: &LaunchOptions,
    ) -> Result<LaunchKey, SupervisorError> {
        let settings = &self.shared.settings;
        // Ids differ from launch to launch: here they are the same for all.
        let start = Start::New {
            id: CliSessionId::from_uuid(uuid::Uuid::nil()),
        };
        let launch_dir = Path::new("/");
        let invocation = claude::invocation::build(options, &settings.policy, &start, launch_dir);
        let env = plan::environment(settings, invocation.env, options);
        let at = cwd.metadata().map_err(SupervisorError::files(cwd))?;
        Ok(LaunchKey {
            program: cli.path.clone(),
            program_stamp: super::super::cli::stamp(&cli.path),
            first_args: cli.first_args.clone(),
            args: invocation.args,
            surroundings: Surroundings::now(cwd, &env),
            env,
            initialize: invocation
                .initialize
                .to_object()
                .map(|object| object.get().to_owned()),
            files: invocation.files,
            cwd: cwd.to_owned(),
            cwd_inode: (at.dev(), at.ino()),
            settings_stamp: match &options.settings {
                Some(Settings::Path(path)) => super::super::cli::stamp(Path::new(path)),
                _ => None,
            },
            hooks: options.hooks.clone().unwrap_or_default(),
            servers: options
                .sdk_mcp_servers
                .clone()
                .unwrap_or_default()
                .into_iter()
                .collect(),
        })
    }
}
