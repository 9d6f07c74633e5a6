//! Owns the flags of the commands about browsers.

use clap::{Args, Subcommand};

/// `open`
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Open {
    /// Sign in for watching only.
    #[arg(long)]
    pub(in crate::cli) viewer: bool,

    /// Print the address instead of opening a browser.
    #[arg(long)]
    pub(in crate::cli) print: bool,

    /// Show the address as a QR code, for the camera of a phone.
    #[arg(long, conflicts_with = "print")]
    pub(in crate::cli) qr: bool,

    /// The URL under which the phone reaches the daemon [default: by the daemon's own address and hosts].
    #[arg(long, value_name = "URL", requires = "qr", value_parser = url)]
    pub(in crate::cli) at: Option<String>,
}

/// `logins`
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct Logins {
    #[command(subcommand)]
    pub(in crate::cli) change: Option<LoginsChange>,
}

/// `logins …`
#[derive(Clone, Debug, Subcommand)]
pub(in crate::cli) enum LoginsChange {
    /// List the browsers that are signed in (the default).
    #[command(visible_alias = "list")]
    Ls,
    /// Sign a browser out: its pages are closed out at once.
    Revoke(LoginsRevoke),
}

/// `logins revoke`
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct LoginsRevoke {
    /// Login: id, or unique beginning of it.
    #[arg(required_unless_present = "all")]
    pub(in crate::cli) login: Option<String>,

    /// All browsers.
    #[arg(long, conflicts_with = "login")]
    pub(in crate::cli) all: bool,
}

/// The address of a daemon, without a path.
fn url(text: &str) -> Result<String, String> {
    let url: reqwest::Url = text
        .parse()
        .map_err(|_| "expected a URL such as https://desk.example".to_owned())?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    is_plain
        .then(|| text.to_owned())
        .ok_or_else(|| "expected http:// or https:// and a host, without a path".to_owned())
}
