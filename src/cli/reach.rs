//! Owns how the daemon of a data directory is found: by its file, else at the configured address.
//!
//! Behind a socket of a service manager nothing runs before the first connection. So without the file the address is asked
//! for its health, which needs no token. The token itself goes only to what proves to be ours: a daemon that then has its
//! file in our directory, or a socket that this user listens on.

use std::{net::SocketAddr, path::Path, time::Duration};

use serde_json::Value;

use super::{
    CliError,
    args::Common,
    client::{Address, reachable},
    output::note,
    settings, view,
};
use crate::config::Config;

/// The way out when a program has the address.
const FREE_IT: &str = "end that program, or choose another address with --listen (TRUNKLINE_LISTEN)";

/// A daemon that is started by the connection has many journals to read.
pub(super) const FIRST_ANSWER: Duration = Duration::from_secs(30);

/// A listener that has said nothing for this long is told of. `doctor` waits no longer.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// Where the daemon is, from the flags and the configuration.
pub(super) async fn address(common: &Common) -> Result<Address, CliError> {
    let loaded = settings::load(common, Vec::new())?;
    locate(common, &loaded.config, FIRST_ANSWER).await
}

/// As [`address`], with a configuration that was read before, and at most so long a wait for a daemon that starts.
pub(super) async fn locate(
    common: &Common,
    config: &Config,
    patience: Duration,
) -> Result<Address, CliError> {
    let find = || {
        Address::find(
            &config.data.dir,
            common.url.as_deref(),
            common.token_file.as_deref(),
        )
    };
    let missing = match find() {
        Err(error @ CliError::NotRunning { .. }) => error,
        found => return found,
    };
    let listen = config.server.listen;
    if listen.port() == 0 {
        return Err(missing);
    }
    match ask(listen, patience).await {
        Heard::Daemon => {}
        Heard::Nobody => return Err(missing),
        Heard::Silence => {
            return Err(CliError::NotRunning {
                reason: format!("a program listens at {listen} and says nothing"),
                hint: format!("if that is a daemon that starts, try again in a moment; else {FREE_IT}"),
            });
        }
        Heard::Other => {
            return Err(CliError::NotRunning {
                reason: format!("another program listens at {listen}"),
                hint: FREE_IT.into(),
            });
        }
    }
    match find() {
        Err(CliError::NotRunning { .. }) if is_own(listen) => {
            let token_file = common.token_file.clone();
            Ok(Address {
                url: format!("http://{listen}"),
                token_file: token_file.unwrap_or_else(|| config.data.dir.join("token")),
            })
        }
        Err(CliError::NotRunning { .. }) => Err(CliError::NotRunning {
            reason: format!(
                "a daemon answers at {listen}, and {} is not its data directory",
                config.data.dir.display()
            ),
            hint: "name its directory with --data-dir, or its address and token with --url and --token-file"
                .into(),
        }),
        found => found,
    }
}

/// The program at the configured address.
enum Heard {
    /// A daemon of ours.
    Daemon,
    /// A program that answers otherwise.
    Other,
    /// A program that takes the connection and does not answer.
    Silence,
    /// Nothing.
    Nobody,
}

/// Asks whether a daemon is there. A person who has to wait is told.
async fn ask(listen: SocketAddr, patience: Duration) -> Heard {
    let Ok(url) = format!("http://{listen}/healthz").parse() else {
        return Heard::Nobody;
    };
    let Ok(http) = reqwest::Client::builder().no_proxy().build() else {
        return Heard::Nobody;
    };
    let answer = async {
        let response = http.get(reachable(url)).timeout(patience).send().await?;
        let is_good = response.status().is_success();
        let body: Value = serde_json::from_slice(&response.bytes().await?).unwrap_or_default();
        Ok::<bool, reqwest::Error>(is_good && view::text(&body, &["status"]) == "ok")
    };
    tokio::pin!(answer);
    let answer = tokio::select! {
        answer = &mut answer => answer,
        () = tokio::time::sleep(SILENCE), if patience > SILENCE => {
            note(&format!(
                "a program listens at {listen} and says nothing yet; waiting for up to {} s, as a daemon may be starting",
                patience.as_secs()
            ));
            answer.await
        }
    };
    match answer {
        Ok(true) => Heard::Daemon,
        Ok(false) => Heard::Other,
        Err(error) if error.is_timeout() => Heard::Silence,
        Err(error) if error.is_connect() => Heard::Nobody,
        Err(_) => Heard::Other,
    }
}

/// Whether this user listens there. Only Linux can tell.
fn is_own(listen: SocketAddr) -> bool {
    let us = nix::unistd::geteuid().as_raw();
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|table| std::fs::read_to_string(Path::new(table)).ok())
        .any(|table| {
            let mut listeners = table
                .lines()
                .filter_map(|line| listener(line, listen.port()))
                .peekable();
            listeners.peek().is_some() && listeners.all(|user| user == us)
        })
}

/// The user of a line of the kernel's table, if that is a listener on this port.
fn listener(line: &str, port: u16) -> Option<u32> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_whitespace();
    let (_, found) = fields.nth(1)?.rsplit_once(':')?;
    if u16::from_str_radix(found, 16) != Ok(port) || fields.nth(1)? != LISTEN {
        return None;
    }
    fields.nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_listener_is_read() {
        let line =
            "   0: 0100007F:1D09 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 42 1";
        assert_eq!(listener(line, 7433), Some(1000));
        assert_eq!(listener(line, 7434), None);
        let connected = line.replace(" 0A ", " 01 ");
        assert_eq!(listener(&connected, 7433), None);
        assert_eq!(listener("  sl  local_address rem_address   st", 7433), None);
    }

    #[test]
    fn an_own_listener_is_known() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(is_own(address), cfg!(target_os = "linux"));
        drop(listener);
    }
}
