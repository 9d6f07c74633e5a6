//! Owns how the HTTP side asks the composition root to start the daemon again.

use std::path::PathBuf;

use tokio::sync::oneshot;

/// A request to start again.
#[derive(Debug)]
pub struct RestartRequest {
    /// The program that takes the place of this one; the one at this one's path when absent.
    pub program: Option<PathBuf>,
    /// The program that will do so, or why the daemon goes on as it is.
    pub reply: oneshot::Sender<Result<Successor, String>>,
}

/// The program that takes the place of the one that runs.
#[derive(Clone, Debug)]
pub struct Successor {
    /// Its path.
    pub program: PathBuf,
    /// Its version.
    pub version: String,
}
