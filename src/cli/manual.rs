//! Owns what the program says about itself: its version, completions for shells, and manual pages.

use std::io::{self, Write as _};

use anyhow::Context as _;
use clap::CommandFactory as _;

use super::{CliError, args, args::Cli, output::Output};

/// `version`
pub(super) fn version(output: &Output) -> Result<(), CliError> {
    if output.is_json() {
        return output.value(&serde_json::json!({"version": env!("CARGO_PKG_VERSION")}));
    }
    output.line(concat!("trunkline ", env!("CARGO_PKG_VERSION")))
}

/// `completions`
pub(super) fn completions(completions: &args::Completions) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "trunkline", &mut script);
    print(&script)
}

/// `man`
pub(super) fn man(man: &args::Man) -> Result<(), CliError> {
    if let Some(dir) = &man.dir {
        return Ok(clap_mangen::generate_to(Cli::command(), dir)
            .with_context(|| format!("cannot write the manual pages into {}", dir.display()))?);
    }
    let mut command = Cli::command();
    command.build();
    if let Some(name) = &man.command {
        command = command
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| CliError::Usage(format!("there is no command {name}")))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .context("cannot write the manual page")?;
    print(&page)
}

fn print(bytes: &[u8]) -> Result<(), CliError> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(CliError::ReaderGone),
        other => Ok(other.context("cannot write to stdout")?),
    }
}
