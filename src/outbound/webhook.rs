//! Owns the call of a webhook: its signature, its repeats, and what counts as an answer.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT},
};
use http_body_util::Full;
use serde_json::value::RawValue;
use sha2::Sha256;
use tokio::time::{Instant, sleep_until, timeout_at};
use uuid::Uuid;

use super::{
    client::{self, Outbound, RequestError},
    message::one_line,
};
use crate::{
    domain::{Clock, SessionId, SigningKey, WebUrl},
    telemetry::chain,
};

/// A larger answer is refused.
pub const LARGEST_ANSWER_BYTES: usize = 1024 * 1024;

/// The wait before the first repeat is at most this; it doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The most that is waited without the server's asking for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A place that is asked over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Where it is.
    pub url: WebUrl,
    /// The key of the signature; without it there is no signature.
    pub key: Option<SigningKey>,
    /// How often it is tried at most; 0 counts as 1.
    pub attempts: u8,
}

/// One question to a webhook.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// The same in all repeats, so that the receiver can tell them.
    pub id: Uuid,
    /// The session that it is about; none in a test.
    pub session: Option<SessionId>,
    /// The event, e.g. `PreToolUse`.
    pub event: &'a str,
    /// The whole body; of a hook the CLI's request object.
    pub body: &'a RawValue,
}

/// Why a webhook gave no answer. No text of it shows the secret, a body or the query of the address.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The deadline came first.
    #[error("the webhook did not answer in time")]
    Deadline,
    /// There was no complete answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The answer is no success. Redirects are not followed.
    #[error("the webhook answered {0}")]
    Status(StatusCode),
    /// The answer is neither empty nor a JSON object.
    #[error("the webhook's answer is no JSON object")]
    NotAnObject,
}

/// How one attempt ended.
enum Attempt {
    Done(Result<Box<RawValue>, WebhookError>),
    Again {
        error: WebhookError,
        retry_after: Option<Duration>,
    },
}

impl Outbound {
    /// Asks a webhook and waits for its answer, a JSON object without line breaks; an empty success is `{}`.
    ///
    /// It is asked again after a connection that did not come about or broke, an attempt that got no answer in its equal
    /// share of the time, and the statuses 408, 425, 429 and 5xx. The deadline is never passed: a pause that would not
    /// end before it is not begun.
    ///
    /// CANCEL-SAFETY: dropping the future drops the connection; the webhook may have got the question.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub async fn call(
        &self,
        hook: &Webhook,
        delivery: Delivery<'_>,
        deadline: Instant,
    ) -> Result<Box<RawValue>, WebhookError> {
        let attempts = hook.attempts.max(1);
        let mut last = WebhookError::Deadline;
        for attempt in 1..=attempts {
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            let share = (deadline - now) / u32::from(attempts - attempt + 1);
            let ended = timeout_at(now + share, self.attempt(hook, &delivery, attempt)).await;
            let (error, retry_after) = match ended {
                Ok(Attempt::Done(answer)) => return answer,
                Ok(Attempt::Again { error, retry_after }) => (error, retry_after),
                Err(_) => (WebhookError::Deadline, None),
            };
            tracing::debug!(
                session.id = delivery.session.map(tracing::field::display),
                delivery.id = %delivery.id,
                attempt,
                error = chain(&error),
                "a webhook gave no answer"
            );
            last = error;
            let pause = retry_after.map_or_else(|| pause(attempt), |asked| asked.max(pause(attempt)));
            // The pause that a server asks for may be longer than an instant can hold.
            let again = Instant::now()
                .checked_add(pause)
                .filter(|again| *again < deadline);
            match again {
                Some(again) if attempt < attempts => sleep_until(again).await,
                _ => break,
            }
        }
        Err(last)
    }

    async fn attempt(&self, hook: &Webhook, delivery: &Delivery<'_>, attempt: u8) -> Attempt {
        match self.send(request(hook, delivery, attempt)).await {
            Ok(answer) => judge(answer).await,
            Err(error) => broken(error),
        }
    }
}

impl Outbound {
    /// Tells a webhook of an event, once. Its answer counts by the status alone: the body is not read, however long it is.
    ///
    /// CANCEL-SAFETY: dropping the future drops the connection; the webhook may have got the event.
    ///
    /// # Errors
    /// No answer before the deadline, or one that is no success.
    pub async fn notify(
        &self,
        hook: &Webhook,
        delivery: Delivery<'_>,
        attempt: u8,
        deadline: Instant,
    ) -> Result<StatusCode, Untold> {
        let sent = timeout_at(deadline, self.send(request(hook, &delivery, attempt))).await;
        let answer = match sent {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(Untold::new(error.into())),
            Err(_) => return Err(Untold::new(WebhookError::Deadline)),
        };
        let status = answer.status();
        if status.is_success() {
            return Ok(status);
        }
        Err(Untold {
            error: WebhookError::Status(status),
            retry_after: retry_after(answer.headers()),
        })
    }
}

/// A webhook was not told.
#[derive(Debug)]
pub struct Untold {
    /// Why.
    pub error: WebhookError,
    /// The pause that the webhook asks for.
    pub retry_after: Option<Duration>,
}

impl Untold {
    /// The status of the answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        match &self.error {
            WebhookError::Status(status) => Some(status.as_u16()),
            _ => None,
        }
    }

    const fn new(error: WebhookError) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}

/// The request of one attempt.
fn request(hook: &Webhook, delivery: &Delivery<'_>, attempt: u8) -> Request<Full<Bytes>> {
    let body = delivery.body.get();
    let timestamp = Clock.now().as_micros() / 1_000_000;
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = hook.url.uri().clone();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(client::USER_AGENT));
    headers.insert("trunkline-attempt", HeaderValue::from(u16::from(attempt)));
    headers.insert("webhook-timestamp", HeaderValue::from(timestamp));
    put(headers, "webhook-id", &delivery.id.to_string());
    if let Some(session) = delivery.session {
        put(headers, "trunkline-session", &session.to_string());
    }
    put(headers, "trunkline-event", delivery.event);
    if let Some(key) = &hook.key {
        let signature = signature(key, &delivery.id.to_string(), timestamp, body);
        put(headers, "webhook-signature", &signature);
    }
    request
}

/// A value that is no header value (an event newer than us may be any text) is left out: the body has it too.
fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// `v1,` and the HMAC-SHA256 of `<id>.<timestamp>.<body>` in base64, as the Standard Webhooks specification has it.
fn signature(key: &SigningKey, id: &str, timestamp: i64, body: &str) -> String {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose()).expect("a key");
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body.as_bytes());
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

/// The meaning of an answer.
async fn judge(answer: Response<hyper::body::Incoming>) -> Attempt {
    let status = answer.status();
    if !status.is_success() {
        let error = WebhookError::Status(status);
        let is_passing = status.is_server_error()
            || matches!(
                status,
                StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
            );
        return if is_passing {
            let retry_after = retry_after(answer.headers());
            Attempt::Again { error, retry_after }
        } else {
            Attempt::Done(Err(error))
        };
    }
    match client::read(answer.into_body(), LARGEST_ANSWER_BYTES).await {
        Ok(body) => Attempt::Done(object(&body).ok_or(WebhookError::NotAnObject)),
        Err(error) => broken(error),
    }
}

fn broken(error: RequestError) -> Attempt {
    match error {
        RequestError::Connect(_) | RequestError::Broken(_) => Attempt::Again {
            error: error.into(),
            retry_after: None,
        },
        RequestError::NoAuthorities | RequestError::TooLarge { .. } => Attempt::Done(Err(error.into())),
    }
}

fn object(body: &[u8]) -> Option<Box<RawValue>> {
    let body = body.trim_ascii();
    if body.is_empty() {
        return RawValue::from_string("{}".to_owned()).ok();
    }
    one_line(body).filter(|value| value.get().starts_with('{'))
}

/// The pause that the server asks for: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let micros = date.as_microsecond() - Clock.now().as_micros();
    Some(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

/// The pause after this attempt: between a half and the whole of a time that doubles, so that many do not come at once.
fn pause(attempt: u8) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1_u32 << u32::from(attempt - 1).min(16));
    let half = doubled.min(LONGEST_PAUSE) / 2;
    // Without randomness the pause is merely the same for all.
    let random = getrandom::u32().unwrap_or(u32::MAX);
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification and of its libraries.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let signature = signature(
            &key,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn pauses_grow_to_an_end() {
        let ceilings = [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000];
        for (attempt, ceiling) in (1..).zip(ceilings) {
            let pause = pause(attempt).as_millis();
            assert!((ceiling / 2..=ceiling).contains(&pause), "{attempt}: {pause}");
        }
        assert!(pause(u8::MAX) <= LONGEST_PAUSE);
    }

    #[test]
    fn a_date_is_waited_for_and_a_past_one_is_not() {
        let asked = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
            retry_after(&headers)
        };
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert!(asked("Thu, 31 Dec 2099 23:59:59 GMT") > Some(Duration::from_secs(3600)));
        assert_eq!(asked("soon"), None);
        assert_eq!(asked("-1"), None);
    }
}
