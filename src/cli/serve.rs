//! Owns `serve`.
use super::{
    CliError,
    args::{self, Common},
    output::Output,
};
use std::process::ExitCode;
pub(super) fn run(_c: &Common, _f: &args::Serve) -> Result<ExitCode, CliError> {
    Ok(ExitCode::SUCCESS)
}
pub(super) fn print_openapi(_o: &Output) -> Result<(), CliError> {
    Ok(())
}
