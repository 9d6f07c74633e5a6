//! Owns `open`: signs a browser in. The address has a ticket behind `#`, which opens the console once and within a minute.
//!
//! The arguments of a program are for all users of the machine to see, so the browser is given a file that only its owner can
//! read, and the file leads to the address.

mod phone;

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use qrcode::{QrCode, render::unicode::Dense1x2};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    CliError,
    args::{Common, Open},
    client::Client,
    output::{Output, note},
    settings, view,
};
use crate::{files, keeper::Opened};

/// The file that leads a browser to the address. Another `open` writes over one that was left.
const FILE: &str = "open.html";
/// How long the ticket lives, and so a browser is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// After this long a person is told that the browser is waited for.
const TOLD_AFTER: Duration = Duration::from_secs(3);
/// Between two looks whether the browser is in.
const PAUSE: Duration = Duration::from_millis(250);

/// `open`
pub(super) async fn open(
    common: &Common,
    client: &Client,
    output: &Output,
    open: &Open,
) -> Result<(), CliError> {
    let role = if open.viewer { "viewer" } else { "operator" };
    let base = if open.qr {
        phone::base(client, open.at.as_deref()).await?
    } else {
        client.url(&[], &[])?.to_string()
    };
    let before = signed_in(client).await?;
    let made = client
        .post(&["v1", "tickets"], &json!({"path": "/v1/logins", "role": role}))
        .await?;
    let address = format!(
        "{}/open#{}",
        base.trim_end_matches('/'),
        view::text(&made, &["ticket"])
    );
    if output.is_json() {
        return output.value(&json!({
            "url": address, "role": role, "expires_at": view::text(&made, &["expires_at"]),
        }));
    }
    if open.qr {
        output.raw_line(&code(&address, output)?)?;
        output.line(&address)?;
        note("signs one browser in, within a minute");
        return told(wait(client, &before, None).await);
    }
    let browser = if open.print { None } else { browser() };
    let Some(browser) = browser else {
        output.line(&address)?;
        if !open.print {
            note("no browser was found here: open the address yourself, within a minute");
        }
        return Ok(());
    };
    let dir = settings::load(common, Vec::new())?.config.data.dir;
    let outcome = match Page::write(&dir, &address) {
        Ok(page) => match Opened::start(&browser.program, &browser.arguments(&page.0)) {
            Ok(mut opened) => wait(client, &before, Some(&mut opened)).await,
            Err(_) => Outcome::Failed,
        },
        // A daemon of another machine has no directory here.
        Err(_) => Outcome::Failed,
    };
    if matches!(outcome, Outcome::Failed) {
        output.line(&address)?;
        note(&format!(
            "{} did not open: open the address yourself, within a minute",
            browser.program.display()
        ));
        return Ok(());
    }
    told(outcome)
}

/// The ids of the logins that there are.
async fn signed_in(client: &Client) -> Result<Vec<String>, CliError> {
    let page = client.get(&["v1", "logins"], &[]).await?;
    let logins = view::list(&page, &["items"]).iter();
    Ok(logins
        .map(|login| view::text(login, &["id"]).to_owned())
        .collect())
}

/// The fate of the address.
enum Outcome {
    /// A browser is in.
    SignedIn,
    /// The browser could not be started.
    Failed,
    /// Nobody used it.
    Unused,
    /// The person did not want to wait.
    Left,
}

fn told(outcome: Outcome) -> Result<(), CliError> {
    match outcome {
        Outcome::SignedIn => {
            note("a browser is signed in; `trunkline logins` lists them");
            Ok(())
        }
        Outcome::Left => Ok(()),
        Outcome::Failed | Outcome::Unused => Err(CliError::Other(anyhow::anyhow!(
            "no browser has used the address within a minute; `trunkline open --print` prints one to be opened by hand"
        ))),
    }
}

/// Waits until there is a login that was not there before.
async fn wait(client: &Client, before: &[String], mut opened: Option<&mut Opened>) -> Outcome {
    let started = Instant::now();
    let mut is_told = !io::stderr().is_terminal();
    while started.elapsed() < PATIENCE {
        // A daemon that starts again meanwhile has another answer soon.
        let now = signed_in(client).await.unwrap_or_default();
        if now.iter().any(|id| !before.contains(id)) {
            return Outcome::SignedIn;
        }
        if opened.as_mut().is_some_and(|opened| opened.has_failed()) {
            return Outcome::Failed;
        }
        if !is_told && started.elapsed() >= TOLD_AFTER {
            is_told = true;
            note("waiting for the browser to sign in; Ctrl-C does not wait");
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            _ = tokio::signal::ctrl_c() => return Outcome::Left,
        }
    }
    Outcome::Unused
}

/// A file that leads to an address; it goes with this.
struct Page(PathBuf);

impl Page {
    fn write(dir: &Path, address: &str) -> io::Result<Self> {
        let path = dir.join(FILE);
        // The address may be what a person typed as --url.
        let address = address
            .replace('&', "&amp;")
            .replace('"', "&quot;")
            .replace('<', "&lt;");
        let text = format!(
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0; url={address}\"><title>Trunkline</title>\
             <p><a href=\"{address}\">Open Trunkline</a></p>\n"
        );
        files::replace(&path, &dir.join("open.html.new"), text.as_bytes())?;
        Ok(Self(path))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // The next `open` writes over it, and its ticket is of no use by then.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A program that opens addresses for the person.
struct Browser {
    program: PathBuf,
    before: Vec<String>,
}

impl Browser {
    fn arguments(&self, page: &Path) -> Vec<String> {
        let page = page.to_string_lossy().into_owned();
        if self.before.iter().any(|word| word.contains("%s")) {
            let words = self.before.iter();
            return words.map(|word| word.replace("%s", &page)).collect();
        }
        self.before.iter().cloned().chain([page]).collect()
    }
}

/// The browser that the person names, or the opener of the desktop; none where no screen is.
fn browser() -> Option<Browser> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var("BROWSER").unwrap_or_default();
    let mut choices: Vec<&str> = named
        .split(':')
        .filter(|choice| !choice.trim().is_empty())
        .collect();
    if cfg!(target_os = "macos") {
        choices.push("open");
    } else if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") {
        choices.push("xdg-open");
    }
    choices.into_iter().find_map(|choice| {
        let mut words = choice.split_whitespace().map(str::to_owned);
        let name = words.next()?;
        let mut places = std::env::split_paths(&path).map(|dir| dir.join(&name));
        let program = match name.contains('/') {
            true => Some(PathBuf::from(&name)).filter(|path| path.is_file()),
            false => places.find(|path| path.is_file()),
        };
        Some(Browser {
            program: program?,
            before: words.collect(),
        })
    })
}

/// The address as a code for a camera, dark on light in every terminal that has colours.
fn code(address: &str, output: &Output) -> Result<String, CliError> {
    let code = QrCode::new(address).context("the address is too long for a QR code")?;
    let (dark, light) = if output.has_colour() {
        (Dense1x2::Dark, Dense1x2::Light)
    } else {
        // Most terminals are dark.
        (Dense1x2::Light, Dense1x2::Dark)
    };
    let picture = code
        .render::<Dense1x2>()
        .dark_color(dark)
        .light_color(light)
        .build();
    if !output.has_colour() {
        return Ok(picture);
    }
    let lines: Vec<String> = picture
        .lines()
        .map(|line| format!("\x1b[30;107m{line}\x1b[0m"))
        .collect();
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_page_is_private_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let page = Page::write(dir.path(), "http://127.0.0.1:7433/open#t\"<").unwrap();
        let path = page.0.clone();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("url=http://127.0.0.1:7433/open#t&quot;&lt;\""),
            "{text}"
        );
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(page);
        assert!(!path.exists());
    }

    #[test]
    fn a_browser_is_given_the_file_where_it_wants_it() {
        let of = |before: &[&str]| Browser {
            program: PathBuf::from("/b"),
            before: before.iter().map(|&word| word.to_owned()).collect(),
        };
        let page = Path::new("/d/open.html");
        assert_eq!(of(&[]).arguments(page), ["/d/open.html"]);
        assert_eq!(
            of(&["--new-window"]).arguments(page),
            ["--new-window", "/d/open.html"]
        );
        assert_eq!(
            of(&["file://%s", "-x"]).arguments(page),
            ["file:///d/open.html", "-x"]
        );
    }

    #[test]
    fn the_code_of_an_address_is_drawn() {
        let output = Output::new(false);
        let address = format!("http://192.168.1.5:7433/open#{}", "x".repeat(43));
        let picture = code(&address, &output).unwrap();
        assert!(picture.lines().count() > 15, "{picture}");
    }
}
