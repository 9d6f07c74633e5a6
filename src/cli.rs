//! Owns the command line and the composition root. It is the only module that uses clap, and nothing imports it.

mod agent;
mod approvals;
mod args;
mod attach;
mod claude;
mod client;
mod continuing;
mod daemon_file;
mod doctor;
mod error;
mod gc;
mod log;
mod logins;
mod manual;
mod messages;
mod open;
mod options;
mod output;
mod reach;
mod rebuild;
mod request;
mod resolve;
mod restart;
mod rules;
mod serve;
mod sessions;
mod settings;
mod trouble;
mod usage;
mod view;
mod waiting;
mod warm;
mod words;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use self::{
    args::{Cli, Command, Common},
    client::Client,
    error::CliError,
    output::Output,
};

pub use claude::{is_name_of_cli, stand_in};

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) => {
            if !matches!(error, CliError::ReaderGone) {
                output::failure(&error);
            }
            error.exit_code()
        }
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode, CliError> {
    let output = Output::new(cli.common.json);
    let is_named = cli.command.is_some();
    let command = cli
        .command
        .unwrap_or_else(|| Command::Serve(args::Serve::default()));
    match command {
        Command::Serve(flags) => serve::run(&cli.common, &output, &flags, is_named),
        Command::Doctor => doctor::run(&cli.common, &output),
        Command::Rebuild => rebuild::run(&cli.common, &output),
        Command::Gc(gc) => gc::run(&cli.common, &output, &gc),
        Command::Config(config) => settings::print(&cli.common, &output, &config).map(|()| ExitCode::SUCCESS),
        Command::Openapi => {
            serve::print_document(crate::http::openapi_json(), &output).map(|()| ExitCode::SUCCESS)
        }
        Command::Asyncapi => {
            serve::print_document(crate::http::asyncapi_yaml(), &output).map(|()| ExitCode::SUCCESS)
        }
        Command::Version => manual::version(&output).map(|()| ExitCode::SUCCESS),
        Command::Completions(shell) => manual::completions(&shell).map(|()| ExitCode::SUCCESS),
        Command::Man(page) => manual::man(&page).map(|()| ExitCode::SUCCESS),
        Command::Claude(claude) => claude::run(&cli.common, claude.args),
        command => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("cannot start the runtime")?;
            let result = runtime.block_on(talk(&cli.common, &output, command));
            // The thread that reads the keyboard may wait for ever.
            runtime.shutdown_background();
            result.map(|()| ExitCode::SUCCESS)
        }
    }
}

/// The subcommands that talk to the daemon.
async fn talk(common: &Common, output: &Output, command: Command) -> Result<(), CliError> {
    let client = Client::new(&reach::address(common).await?)?;
    match command {
        Command::New(new) => {
            let id = sessions::create(common, &client, output, &new).await?;
            if new.attach {
                attach::run(common, &id, Some(0), false).await?;
            }
            Ok(())
        }
        Command::Ls(ls) => sessions::ls(&client, output, &ls).await,
        Command::Show(one) => sessions::show(&client, output, &one.session).await,
        Command::Send(send) => messages::send(common, &client, output, &send).await,
        Command::Attach(attach) => {
            let id = resolve::session(&client, &attach.session).await?;
            attach::run(common, &id, attach.after, attach.plain).await
        }
        Command::Log(log) => log::log(&client, output, &log).await,
        Command::Approvals(list) => approvals::list(&client, output, &list).await,
        Command::Approve(approve) => approvals::approve(&client, output, &approve).await,
        Command::Deny(deny) => approvals::deny(&client, output, &deny).await,
        Command::Rules(list) => rules::rules(&client, output, &list).await,
        Command::Interrupt(interrupt) => sessions::interrupt(&client, output, &interrupt).await,
        Command::Stop(one) => sessions::change(&client, output, &one.session, "stop").await,
        Command::Park(one) => sessions::change(&client, output, &one.session, "park").await,
        Command::Resume(resume) => sessions::resume(&client, output, &resume).await,
        Command::Model(setting) => sessions::setting(&client, output, &setting, sessions::Of::Model).await,
        Command::Mode(setting) => sessions::setting(&client, output, &setting, sessions::Of::Mode).await,
        Command::Options(options) => options::options(&client, output, &options).await,
        Command::Status => sessions::status(&client, output).await,
        Command::Fork(fork) => sessions::fork(&client, output, &fork).await,
        Command::Rm(rm) => sessions::rm(&client, &rm).await,
        Command::Restart => restart::restart(&client, output).await,
        Command::Upgrade(upgrade) => restart::upgrade(&client, output, &upgrade).await,
        Command::Open(open) => open::open(common, &client, output, &open).await,
        Command::Logins(logins) => logins::logins(&client, output, &logins).await,
        Command::Usage(usage) => usage::usage(&client, output, &usage).await,
        Command::Serve(_)
        | Command::Doctor
        | Command::Rebuild
        | Command::Gc(_)
        | Command::Config(_)
        | Command::Openapi
        | Command::Asyncapi
        | Command::Version
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Claude(_) => Ok(()),
    }
}
