//! Owns the tests of the program as a process and of its library from outside: a module for each area.
//!
//! The tests with the real CLI, the chaos test and the tests of the code's shape are binaries of their own.

mod api;
mod cli;
mod console;
mod docs;
mod fake;
mod http;
mod keeper;
mod orphans;
mod outbound;
mod programs;
mod restart;
mod service;
#[path = "../support/mod.rs"]
mod support;
