//! Owns the tests of the command line as a person uses it: what is printed where, exit codes, prompts in a terminal.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests fail by panicking and start the programs that they look at"
)]

mod attach;
mod beginnings;
mod browsers;
mod common;
mod configuration;
mod daily;
mod doctor;
mod editor;
mod newcomer;
mod requests;
mod screens;
mod sessions;
mod startup;
mod terminal;
mod waiting;
