//! The entry point. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // The daemon starts these two, not people: neither needs the command line nor a runtime.
    match arguments.next() {
        Some(first) if first == "keeper" => trunkline::keeper::run_process(),
        Some(first) if first == "sim" => trunkline::sim::run(arguments),
        _ => trunkline::cli::run(),
    }
}
