//! Owns the way to the daemon: finds it, sends requests, and turns its errors into ours.

use std::{
    path::{Path, PathBuf},
    sync::Once,
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;

use super::{CliError, daemon_file::DaemonFile, output::note, request, resolve};
use crate::{
    domain::{ErrorCode, RequestId},
    files,
};

/// Longest time for an answer to a request that does not wait for a turn.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(180);

/// After this long without an answer a person is told that it is still waited for.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// Once is enough, however many requests wait.
static TOLD: Once = Once::new();

/// The header by which the daemon knows a request that comes again.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A client of one daemon.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    token: Token,
    /// Whether the screen belongs to somebody else, who tells of a daemon that hangs.
    is_quiet: bool,
}

/// The daemon's token; never printed.
#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The URL of a daemon that listens on every address, by the one that it answers to.
pub(super) fn reachable(mut base: Url) -> Url {
    let loopback = match base.host_str() {
        Some("0.0.0.0") => "127.0.0.1",
        Some("[::]") => "[::1]",
        _ => return base,
    };
    // A URL with a host takes another.
    let _ = base.set_host(Some(loopback));
    base
}

/// Where a daemon is and where its token lies.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// Base URL.
    pub(super) url: String,
    /// The token's file.
    pub(super) token_file: PathBuf,
}

impl Address {
    /// Finds the daemon of a data directory, unless a URL says where it is.
    pub(super) fn find(
        data_dir: &Path,
        url: Option<&str>,
        token_file: Option<&Path>,
    ) -> Result<Self, CliError> {
        let token_file = token_file.map_or_else(|| data_dir.join("token"), Path::to_path_buf);
        if let Some(url) = url {
            return Ok(Self {
                url: url.into(),
                token_file,
            });
        }
        let file = DaemonFile::read(data_dir)
            .with_context(|| format!("cannot read {}", data_dir.join("daemon.json").display()))?;
        match file {
            Some(file) => Ok(Self {
                url: file.url,
                token_file,
            }),
            None => Err(CliError::NotRunning {
                reason: format!("{} has no daemon.json", data_dir.display()),
                hint: "start it with `trunkline serve`, or name it with --url or --data-dir".into(),
            }),
        }
    }
}

impl Client {
    pub(super) fn new(address: &Address) -> Result<Self, CliError> {
        let base: Url = address
            .url
            .parse()
            .map_err(|_| CliError::Usage(format!("{:?} is not a URL", address.url)))?;
        if base.scheme() != "http" || base.cannot_be_a_base() {
            return Err(CliError::Usage(format!(
                "{base} is no http:// URL; reach a daemon behind TLS through an SSH tunnel"
            )));
        }
        let base = reachable(base);
        let token = files::read_to_string(&address.token_file).map_err(|error| CliError::Token {
            file: address.token_file.clone(),
            error,
        })?;
        let http = reqwest::Client::builder()
            .no_proxy()
            .build()
            .context("cannot set up the HTTP client")?;
        Ok(Self {
            http,
            base,
            token: Token(token.trim().into()),
            is_quiet: false,
        })
    }

    /// The client of a screen on which nobody else writes.
    pub(super) fn quiet(self) -> Self {
        Self {
            is_quiet: true,
            ..self
        }
    }

    /// The URL of a path with query parameters; values are escaped here.
    pub(super) fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Url, CliError> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| CliError::Usage("the URL has no path".into()))?
            .pop_if_empty()
            .extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    /// The token, for the WebSocket handshake.
    pub(super) fn token(&self) -> &str {
        &self.token.0
    }

    pub(super) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, CliError> {
        self.send(Method::GET, self.url(path, query)?, None, REQUEST_TIMEOUT)
            .await
    }

    /// The content of `/readyz`, also of a daemon that cannot work.
    pub(super) async fn readiness(&self) -> Result<Value, CliError> {
        let url = self.url(&["readyz"], &[])?;
        let (status, body) = self.exchange(Method::GET, url, None, REQUEST_TIMEOUT).await?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        match answer.get("readiness").filter(|readiness| readiness.is_object()) {
            Some(readiness) => Ok(readiness.clone()),
            None => Err(refusal(status, &answer)),
        }
    }

    pub(super) async fn put(&self, path: &[&str], body: &Value) -> Result<Value, CliError> {
        self.send(Method::PUT, self.url(path, &[])?, Some(body), REQUEST_TIMEOUT)
            .await
    }

    pub(super) async fn patch(&self, path: &[&str], body: &Value) -> Result<Value, CliError> {
        self.send(Method::PATCH, self.url(path, &[])?, Some(body), REQUEST_TIMEOUT)
            .await
    }

    pub(super) async fn post(&self, path: &[&str], body: &Value) -> Result<Value, CliError> {
        self.send(Method::POST, self.url(path, &[])?, Some(body), REQUEST_TIMEOUT)
            .await
    }

    /// A POST whose answer may take as long as a turn.
    pub(super) async fn post_and_wait(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        body: &Value,
        wait: Duration,
    ) -> Result<Value, CliError> {
        self.send(
            Method::POST,
            self.url(path, query)?,
            Some(body),
            wait + REQUEST_TIMEOUT,
        )
        .await
    }

    pub(super) async fn delete(&self, path: &[&str]) -> Result<(), CliError> {
        self.send(Method::DELETE, self.url(path, &[])?, None, REQUEST_TIMEOUT)
            .await
            .map(drop)
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<Value, CliError> {
        let (status, bytes) = self.exchange(method, url, body, timeout).await?;
        if status.is_success() {
            if bytes.is_empty() {
                return Ok(Value::Null);
            }
            return Ok(request::parse(&bytes).context("the answer is no JSON")?);
        }
        Err(refusal(
            status,
            &serde_json::from_slice(&bytes).unwrap_or_default(),
        ))
    }

    async fn exchange(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<(StatusCode, Bytes), CliError> {
        let is_short = timeout == REQUEST_TIMEOUT && !self.is_quiet;
        let exchange = self.exchange_in_silence(method, url, body, timeout);
        tokio::pin!(exchange);
        tokio::select! {
            exchanged = &mut exchange => return exchanged,
            () = tokio::time::sleep(TOLD_AFTER), if is_short => {}
        }
        TOLD.call_once(|| {
            note(&format!(
                "the daemon at {} has not answered yet; waiting",
                self.base
            ));
        });
        exchange.await
    }

    async fn exchange_in_silence(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        timeout: Duration,
    ) -> Result<(StatusCode, Bytes), CliError> {
        let mut request = self
            .http
            .request(method.clone(), url)
            .bearer_auth(&self.token.0)
            .timeout(timeout);
        if let Some(body) = body {
            request = request.json(body);
        }
        // With a key the daemon carries a request out once, so one whose connection broke can be sent again.
        let mut again = None;
        if method == Method::POST {
            request = request.header(IDEMPOTENCY_KEY, RequestId::new().to_string());
            again = request.try_clone();
        }
        let response = match (request.send().await, again) {
            (Err(error), Some(again)) if error.is_request() && !error.is_connect() && !error.is_timeout() => {
                again.send().await
            }
            (outcome, _) => outcome,
        };
        let response = response.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| self.unreachable(error))?;
        Ok((status, bytes))
    }

    fn unreachable(&self, error: reqwest::Error) -> CliError {
        if error.is_connect() {
            return CliError::NotRunning {
                reason: format!("nothing answers at {}", self.base),
                hint: "start it with `trunkline serve`; `trunkline doctor` checks the installation".into(),
            };
        }
        if error.is_timeout() {
            return CliError::Other(anyhow::anyhow!("the daemon did not answer in time"));
        }
        CliError::NotRunning {
            reason: format!("the connection broke: {}", error.without_url()),
            hint: "the daemon may have ended in the middle; `trunkline doctor` checks the installation"
                .into(),
        }
    }
}

/// The daemon's problem document as an error of ours.
pub(super) fn refusal(status: StatusCode, problem: &Value) -> CliError {
    let text = |key: &str| {
        problem
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let title = text("title").unwrap_or_else(|| status.canonical_reason().unwrap_or("request failed"));
    let code = text("code").and_then(ErrorCode::named);
    let message = match text("detail") {
        Some(detail)
            if matches!(code, Some(ErrorCode::InvalidJson | ErrorCode::InvalidQuery))
                || is_of_field(title) =>
        {
            of_field(detail)
        }
        Some(detail) if code == Some(ErrorCode::InvalidOption) => of_option(detail),
        Some(detail) if code == Some(ErrorCode::ControlRefused) => {
            format!("the agent refused it: {detail}")
        }
        // The CLI's words behind it say the same.
        Some(detail) if code == Some(ErrorCode::ConversationNotFound) => {
            detail.split(": ").next().unwrap_or(detail).to_owned()
        }
        Some(detail) if detail != title && !is_of_api(code, detail) => format!("{title}: {detail}"),
        _ => title.to_owned(),
    };
    let hint = match code {
        Some(ErrorCode::SessionNotLive) => Some("`trunkline resume SESSION` starts it again".to_owned()),
        _ if status == StatusCode::UNAUTHORIZED => Some(
            "the token is not this daemon's; check --data-dir, or name its file with --token-file".to_owned(),
        ),
        _ => None,
    };
    match (code, status) {
        (Some(ErrorCode::ShuttingDown), _) => CliError::NotRunning {
            reason: "it is shutting down".into(),
            hint: "try again when it is back".into(),
        },
        (Some(ErrorCode::WaitTimeout | ErrorCode::InputBlocked), _) => {
            CliError::Refused { code, message, hint }
        }
        (_, StatusCode::NOT_FOUND) => CliError::not_found(message, code.and_then(list_of)),
        (_, status) if status.is_client_error() => CliError::Refused { code, message, hint },
        _ => CliError::Other(anyhow::anyhow!(message)),
    }
}

/// Errors whose standing advice names routes, headers and members, which helps nobody at the command line.
const WITH_ADVICE_OF_API: [ErrorCode; 16] = [
    ErrorCode::Unauthorized,
    ErrorCode::TicketInvalid,
    ErrorCode::RouteNotFound,
    ErrorCode::ResponseNotKept,
    ErrorCode::SessionNotFound,
    ErrorCode::SessionNotParkable,
    ErrorCode::MessageNotFound,
    ErrorCode::PromptNotPending,
    ErrorCode::TurnNotFound,
    ErrorCode::ApprovalNotFound,
    ErrorCode::AlreadyDecided,
    ErrorCode::RuleNotFound,
    ErrorCode::WebhookNotFound,
    ErrorCode::PromptNotFound,
    ErrorCode::NothingToPutOff,
    ErrorCode::LoginNotFound,
];

/// Whether a detail is such advice. The words of the daemon about one case are told, whatever they are.
fn is_of_api(code: Option<ErrorCode>, detail: &str) -> bool {
    code.is_some_and(|code| WITH_ADVICE_OF_API.contains(&code) && code.advice() == detail)
}

/// Where a person finds what there is of the kind that was not found.
fn list_of(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::SessionNotFound => Some(resolve::LIST),
        ErrorCode::ApprovalNotFound => Some(resolve::LIST_APPROVALS),
        ErrorCode::LoginNotFound => Some(resolve::LIST_LOGINS),
        ErrorCode::RuleNotFound => Some("`trunkline rules SESSION` lists its rules"),
        ErrorCode::ConversationNotFound => {
            Some("`claude --resume` lists those of a directory; --cwd names the one that it began in")
        }
        ErrorCode::MessageNotFound => {
            Some("`trunkline log SESSION --json` prints the messages with their uuids")
        }
        _ => None,
    }
}

/// Whether the daemon says that a field or parameter does not fit.
fn is_of_field(title: &str) -> bool {
    title.starts_with("A field of the body") || title.starts_with("A query parameter")
}

/// Flags that have the name of a field or parameter.
const FLAGS: [&str; 13] = [
    "state",
    "kind",
    "label",
    "tag",
    "title",
    "cwd",
    "model",
    "permission_mode",
    "effort",
    "max_turns",
    "max_budget_usd",
    "allowed_tools",
    "disallowed_tools",
];

/// Flags that have another name than their field.
const OTHER_FLAGS: [(&str, &str); 3] = [
    ("additional_directories", "--add-dir"),
    ("mcp_servers", "--mcp-config"),
    ("labels", "--label"),
];

/// The flag that sets a field or parameter, or else the field's own name.
fn flag(field: &str) -> String {
    let name = field.strip_prefix("options.").unwrap_or(field);
    // The place within a list or an object is of no use here.
    let name = name.split(['[', '.']).next().unwrap_or(name);
    if FLAGS.contains(&name) {
        return format!("--{}", name.replace('_', "-"));
    }
    let other = OTHER_FLAGS.iter().find(|(known, _)| *known == name);
    other.map_or_else(|| field.to_owned(), |(_, flag)| (*flag).to_owned())
}

/// A launch option that cannot be used, by the name of its flag.
fn of_option(detail: &str) -> String {
    let named = detail
        .strip_prefix("option ")
        .and_then(|rest| rest.split_once(": "));
    match named {
        Some((option, why)) => format!("{}: {why}", flag(option)),
        None => detail.to_owned(),
    }
}

/// The value that does not fit, by the name of its flag, in a person's words. The command line has no lines and columns of a body.
fn of_field(detail: &str) -> String {
    let detail = detail.split(" at line ").next().unwrap_or(detail);
    let Some((field, why)) = detail.split_once(": ") else {
        return detail.to_owned();
    };
    let quoted = why.split('`').nth(1).unwrap_or_default();
    if why.starts_with("unknown field") {
        return format!("there is no option {quoted}");
    }
    let name = flag(field);
    match why.split_once(", expected one of ") {
        Some((unknown, known)) if unknown.starts_with("unknown variant") => {
            format!("{name} {quoted}: it takes one of {}", known.replace('`', ""))
        }
        _ => format!("{name}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn client(url: &str) -> Result<Client, CliError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "secret\n").unwrap();
        Client::new(&Address {
            url: url.into(),
            token_file: dir.path().join("token"),
        })
    }

    #[test]
    fn values_cannot_change_the_url() {
        let client = client("http://127.0.0.1:1/").unwrap();
        let url = client
            .url(&["v1", "sessions", "../x?y"], &[("q", "a&b=c d")])
            .unwrap();
        assert_eq!(
            url.as_str(),
            "http://127.0.0.1:1/v1/sessions/..%2Fx%3Fy?q=a%26b%3Dc+d"
        );
        assert!(!format!("{client:?}").contains("secret"));
        assert_eq!(client.token(), "secret");
    }

    #[test]
    fn only_http_urls_are_taken() {
        for url in ["https://127.0.0.1:1", "127.0.0.1:1", "file:///etc", "mailto:x"] {
            assert!(matches!(client(url), Err(CliError::Usage(_))), "{url}");
        }
    }

    #[test]
    fn problems_keep_their_words_and_get_an_exit_code() {
        let problem = json!({"title": "Session is not running", "detail": "it is stopped", "code": ErrorCode::SessionNotLive});
        let error = refusal(StatusCode::CONFLICT, &problem);
        assert_eq!(error.to_string(), "Session is not running: it is stopped");
        assert!(error.hint().unwrap().contains("trunkline resume"));
        let error = refusal(StatusCode::NOT_FOUND, &json!({"title": "No such session"}));
        assert!(matches!(error, CliError::NotFound { message, .. } if message == "No such session"));
        let error = refusal(StatusCode::BAD_GATEWAY, &Value::Null);
        assert_eq!(error.to_string(), "Bad Gateway");
        let problem = json!({"title": "The agent CLI knows no such conversation", "code": ErrorCode::ConversationNotFound,
            "detail": "the CLI knows no conversation c-1: No conversation found with session ID: c-1"});
        let error = refusal(StatusCode::NOT_FOUND, &problem);
        assert_eq!(error.to_string(), "the CLI knows no conversation c-1");
        assert!(error.hint().unwrap().contains("--cwd"));
    }

    #[test]
    fn only_standing_advice_for_callers_of_the_api_is_left_out() {
        let told = |code: ErrorCode, detail: &str| {
            let problem = json!({"title": code.title(), "detail": detail, "code": code.as_str()});
            refusal(StatusCode::CONFLICT, &problem).to_string()
        };
        for (code, detail) in [
            (ErrorCode::CwdMissing, "/srv/api/v1/app does not exist"),
            (ErrorCode::SessionNotFound, "GET /v1/sessions was asked for"),
            (ErrorCode::SessionStopping, ErrorCode::SessionStopping.advice()),
        ] {
            assert_eq!(told(code, detail), format!("{}: {detail}", code.title()));
        }
        for code in WITH_ADVICE_OF_API {
            assert_eq!(told(code, code.advice()), code.title());
        }
        // The table of errors may get more of it.
        for code in ErrorCode::ALL {
            let is_of_api = ["GET ", "/v1/", "The member ", "Authorization: "]
                .iter()
                .any(|words| code.advice().contains(words));
            let is_told_otherwise = *code == ErrorCode::InvalidQuery;
            assert_eq!(
                is_of_api && !is_told_otherwise,
                WITH_ADVICE_OF_API.contains(code),
                "{code:?}"
            );
        }
    }

    #[test]
    fn a_field_that_does_not_fit_is_told_by_its_flag() {
        for (detail, expected) in [
            (
                "options.permission_mode: unknown variant `x`, expected one of `default`, `plan` at line 1 column 9",
                "--permission-mode x: it takes one of default, plan",
            ),
            (
                "options.modle: unknown field `modle`, expected one of `model` at line 1 column 9",
                "there is no option modle",
            ),
            ("label: expected key=value", "--label: expected key=value"),
        ] {
            assert_eq!(of_field(detail), expected);
        }
        for (detail, expected) in [
            ("option model: is empty", "--model: is empty"),
            ("option allowed_tools[0]: is empty", "--allowed-tools: is empty"),
            (
                "option additional_directories[1]: is empty",
                "--add-dir: is empty",
            ),
            (
                "option mcp_servers.x: has no command",
                "--mcp-config: has no command",
            ),
            ("option betas: is empty", "betas: is empty"),
        ] {
            assert_eq!(of_option(detail), expected);
        }
    }

    #[tokio::test]
    async fn nobody_there_means_not_running() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let error = client(&format!("http://{address}"))
            .unwrap()
            .get(&["v1", "sessions"], &[])
            .await
            .unwrap_err();
        assert!(matches!(error, CliError::NotRunning { .. }), "{error:?}");
    }

    /// Takes one request and answers it, or breaks the connection. The request's key.
    async fn serve(listener: &tokio::net::TcpListener, answer: Option<&str>) -> Option<String> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"{}") && !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        if let Some(answer) = answer {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        let request = String::from_utf8(request).unwrap();
        let key = request
            .lines()
            .find_map(|line| line.strip_prefix("idempotency-key: "));
        key.map(str::to_owned)
    }

    #[tokio::test]
    async fn a_post_whose_connection_broke_is_sent_once_more_under_its_key() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = client(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let served = async {
            let keys = [serve(&listener, None).await, serve(&listener, Some("7")).await];
            // The next request has a key of its own, and is not sent a third time.
            (keys, [serve(&listener, None).await, serve(&listener, None).await])
        };
        let body = json!({});
        let path = ["v1", "sessions"];
        let asked = async { (client.post(&path, &body).await, client.post(&path, &body).await) };
        let ((first, second), (answered, failed)) = tokio::join!(served, asked);
        assert_eq!(answered.unwrap(), 7);
        assert!(failed.is_err());
        assert!(first[0].is_some() && first[0] == first[1], "{first:?}");
        assert!(second[0].is_some() && second[0] == second[1], "{second:?}");
        assert_ne!(first[0], second[0]);
    }
}
