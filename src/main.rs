use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|name| name == "keeper") {
        return trunkline::keeper::run_process();
    }
    ExitCode::SUCCESS
}
