//! Owns the address under which a phone reaches the daemon, and what is missing where it has none.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use super::super::{CliError, client::Client, output::note, view};

/// The base of the address for a phone.
///
/// # Errors
/// The missing part, by the names of the options.
pub(super) async fn base(client: &Client, at: Option<&str>) -> Result<String, CliError> {
    if let Some(at) = at {
        return Ok(at.to_owned());
    }
    let configuration = client.get(&["v1", "daemon", "configuration"], &[]).await?;
    let listen = view::text(&configuration, &["values", "server.listen", "value"]).parse();
    let mut listen = listen.unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 7433)));
    // The configuration may leave the port to the system.
    if let Some(port) = client.url(&[], &[])?.port_or_known_default() {
        listen.set_port(port);
    }
    let hosts = view::list(&configuration, &["values", "server.allowed_hosts", "value"]).iter();
    let hosts: Vec<&str> = hosts.filter_map(Value::as_str).collect();
    let found = reach(listen, &hosts).map_err(|missing| CliError::Refused {
        code: None,
        message: format!("a phone cannot reach the daemon: {missing}"),
        hint: Some("`trunkline open --qr --at URL` takes an address that you know to lead here".into()),
    })?;
    for remark in found.remarks {
        note(remark);
    }
    Ok(found.base)
}

/// An address for a phone.
#[derive(Debug, PartialEq, Eq)]
struct Reach {
    base: String,
    remarks: Vec<&'static str>,
}

/// Where a phone may reach a daemon that listens there and takes these names.
fn reach(listen: SocketAddr, hosts: &[&str]) -> Result<Reach, String> {
    const PLAIN: &str =
        "the connection of the phone is not encrypted: anybody in the same network can listen";
    const PROXY: &str =
        "the daemon listens for this machine alone, so the address is that of a TLS proxy or a tunnel";
    let with_port = |host: &str| match host.contains(':') && !host.ends_with(']') {
        true => format!("http://{host}"),
        false => format!("http://{host}:{}", listen.port()),
    };
    let first = hosts.iter().find(|host| !is_loopback(host));
    if listen.ip().is_loopback() {
        let host = first.ok_or_else(|| {
            format!(
                "it listens for this machine alone (server.listen is {listen}). Let a TLS proxy or a tunnel lead to it and \
                 add its name to server.allowed_hosts, or listen on an address of the network with server.insecure"
            )
        })?;
        return Ok(Reach {
            base: format!("https://{host}"),
            remarks: vec![PROXY],
        });
    }
    let own = listen.ip().to_string();
    let own = match listen.ip() {
        IpAddr::V6(_) => format!("[{own}]"),
        IpAddr::V4(_) => own,
    };
    let is_own = |host: &&&str| ***host == own || ***host == format!("{own}:{}", listen.port());
    let host = hosts.iter().find(is_own).or(first);
    let host = host.ok_or_else(|| match listen.ip().is_unspecified() {
        true => "it answers to no name of this machine: add the machine's address or name in the network to \
                 server.allowed_hosts"
            .to_owned(),
        false => format!("it does not answer to its own address: add {own} to server.allowed_hosts"),
    })?;
    Ok(Reach {
        base: with_port(host),
        remarks: vec![PLAIN],
    })
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_matches(['[', ']']);
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(listen: &str, hosts: &[&str]) -> Result<String, String> {
        reach(listen.parse().unwrap(), hosts).map(|found| found.base)
    }

    #[test]
    fn the_address_is_one_that_the_daemon_answers_to() {
        for (listen, hosts, base) in [
            ("127.0.0.1:7433", &["desk.example"][..], "https://desk.example"),
            (
                "127.0.0.1:7433",
                &["localhost", "desk.example:8443"],
                "https://desk.example:8443",
            ),
            ("192.168.1.5:7433", &["192.168.1.5"], "http://192.168.1.5:7433"),
            (
                "192.168.1.5:7433",
                &["desk.example", "192.168.1.5:7433"],
                "http://192.168.1.5:7433",
            ),
            ("0.0.0.0:7433", &["desk.local"], "http://desk.local:7433"),
            (
                "[2001:db8::5]:7433",
                &["[2001:db8::5]"],
                "http://[2001:db8::5]:7433",
            ),
        ] {
            assert_eq!(at(listen, hosts).as_deref(), Ok(base), "{listen} {hosts:?}");
        }
    }

    #[test]
    fn the_missing_option_is_named() {
        for (listen, hosts, option) in [
            ("127.0.0.1:7433", &[][..], "server.listen"),
            (
                "127.0.0.1:7433",
                &["localhost", "127.0.0.1"],
                "server.allowed_hosts",
            ),
            ("192.168.1.5:7433", &[], "add 192.168.1.5 to server.allowed_hosts"),
            ("0.0.0.0:7433", &[], "server.allowed_hosts"),
        ] {
            let missing = at(listen, hosts).unwrap_err();
            assert!(missing.contains(option), "{missing}");
        }
    }
}
