//! The entry point. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    // By a link of this name it stands in for the CLI.
    if trunkline::cli::is_name_of_cli(&program) {
        return trunkline::cli::stand_in(arguments);
    }
    // The daemon starts the first two, not people: neither needs the command line nor a runtime.
    match arguments.next() {
        Some(first) if first == "keeper" => trunkline::keeper::run_process(),
        Some(first) if first == "sim" => trunkline::sim::run(arguments),
        // Its arguments are those of another program.
        Some(first) if first == "claude" => trunkline::cli::stand_in(arguments),
        _ => trunkline::cli::run(),
    }
}
