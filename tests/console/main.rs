//! Owns the tests of the command line as a person uses it: what is printed where, exit codes, prompts in a terminal.

#[path = "../support/mod.rs"]
mod support;

mod attach;
mod common;
mod configuration;
mod newcomer;
mod sessions;
