//! Calls of webhooks.

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpSocket, time::Instant};
use trunkline::{
    domain::SessionId,
    outbound::{Delivery, Outbound, RequestError, Webhook, WebhookError, webhook::LARGEST_ANSWER_BYTES},
};
use uuid::Uuid;

use crate::{
    outbound::{all_texts, raw},
    support::{
        server::{Exchange, Server},
        wait::PATIENCE,
    },
};

const BODY: &str = r#"{"subtype":"hook_callback","input":{"n":1.50,"text":"ä \ud83d PLANTED-BODY"}}"#;
const KEY: &str = "PLANTED-KEY";

fn hook(server: &Server, attempts: u8) -> Webhook {
    Webhook {
        url: server.url("/hook?key=PLANTED-QUERY"),
        key: KEY.parse().ok(),
        attempts,
    }
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

async fn call(hook: &Webhook, deadline: Instant) -> Result<String, WebhookError> {
    let delivery = Delivery {
        id: Uuid::from_u128(7),
        session: Some(SessionId::from_uuid(Uuid::from_u128(9))),
        event: "PreToolUse",
        body: &raw(BODY),
    };
    let answer = Outbound::new().call(hook, delivery, deadline).await;
    answer.map(|answer| answer.get().to_owned())
}

/// The answer to one call that the server answers with these bytes.
async fn answered(head: &str, body: &str) -> Result<String, WebhookError> {
    let mut server = Server::start().await;
    let hook = hook(&server, 3);
    let (answer, ()) = tokio::join!(call(&hook, soon()), async {
        server.next().await.answer(head, body).await;
    });
    assert!(server.is_quiet(), "{head} was asked again");
    answer
}

/// HMAC-SHA256 as RFC 2104 has it, without the crate that is tested.
fn signature(key: &[u8], message: &str) -> String {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(message)
        .finalize();
    let outer = Sha256::new()
        .chain_update(block.map(|byte| byte ^ 0x5c))
        .chain_update(inner);
    format!("v1,{}", BASE64_STANDARD.encode(outer.finalize()))
}

fn assert_signed(exchange: &Exchange) {
    let id = exchange.header("webhook-id").unwrap();
    let timestamp = exchange.header("webhook-timestamp").unwrap();
    let signature = signature(KEY.as_bytes(), &format!("{id}.{timestamp}.{}", exchange.body));
    assert_eq!(exchange.header("webhook-signature"), Some(signature.as_str()));
}

#[tokio::test]
async fn a_question_is_signed_and_goes_and_comes_byte_for_byte() {
    let mut server = Server::start().await;
    let hook = hook(&server, 1);
    let output = r#"{ "continue":false,"n":1.0e2,"s":"\u00e4\ud83d"}"#;
    let (answer, ()) = tokio::join!(call(&hook, soon()), async {
        let asked = server.next().await;
        assert_eq!(
            (asked.method.as_str(), asked.path.as_str()),
            ("POST", "/hook?key=PLANTED-QUERY")
        );
        assert_eq!(asked.body, BODY);
        for (name, value) in [
            ("content-type", "application/json"),
            ("webhook-id", "00000000-0000-0000-0000-000000000007"),
            ("trunkline-session", "00000000-0000-0000-0000-000000000009"),
            ("trunkline-event", "PreToolUse"),
            ("trunkline-attempt", "1"),
        ] {
            assert_eq!(asked.header(name), Some(value), "{name}");
        }
        assert_signed(&asked);
        asked.answer("200 OK\ncontent-type: text/plain", output).await;
    });
    assert_eq!(answer.unwrap(), output);
}

#[test]
fn the_example_of_the_documentation_is_signed_right() {
    let page = include_str!("../../../docs/protocol/outbound.md");
    let example = page.split("```http\n").nth(1).unwrap();
    let (head, rest) = example.split_once("\n\n").unwrap();
    let body = rest.split_once('\n').unwrap().0;
    let header = |name: &str| {
        let mut values = head.lines().filter_map(|line| line.split_once(": "));
        values.find(|(of, _)| *of == name).unwrap().1
    };
    let message = format!("{}.{}.{body}", header("webhook-id"), header("webhook-timestamp"));
    let signature = signature(b"correct horse battery staple", &message);
    assert_eq!(header("webhook-signature"), signature);
}

#[tokio::test]
async fn without_a_secret_there_is_no_signature() {
    let mut server = Server::start().await;
    let hook = Webhook {
        key: None,
        ..hook(&server, 0)
    };
    let (answer, ()) = tokio::join!(call(&hook, soon()), async {
        let asked = server.next().await;
        assert_eq!(asked.header("webhook-signature"), None);
        assert!(asked.header("webhook-timestamp").is_some());
        asked.answer("200 OK", "{}").await;
    });
    assert_eq!(answer.unwrap(), "{}");
}

#[tokio::test]
async fn what_passes_is_asked_again_with_the_same_delivery() {
    for status in [408, 425, 429, 500, 503] {
        let mut server = Server::start().await;
        let hook = hook(&server, 3);
        let (answer, ()) = tokio::join!(call(&hook, soon()), async {
            let first = server.next().await;
            let delivery = first.header("webhook-id").unwrap().to_owned();
            first.answer(&format!("{status} X"), "").await;
            let second = server.next().await;
            assert_eq!(second.header("webhook-id"), Some(delivery.as_str()));
            assert_eq!(second.header("trunkline-attempt"), Some("2"));
            assert_signed(&second);
            second.answer("200 OK", r#"{"a":1}"#).await;
        });
        assert_eq!(answer.unwrap(), r#"{"a":1}"#, "after {status}");
    }
}

#[tokio::test]
async fn it_is_not_asked_more_often_than_allowed() {
    let mut server = Server::start().await;
    let hook = hook(&server, 2);
    let (answer, ()) = tokio::join!(call(&hook, soon()), async {
        server.next().await.answer("500 X", "").await;
        server.next().await.answer("502 X", "").await;
    });
    assert!(matches!(answer, Err(WebhookError::Status(status)) if status == 502));
    assert!(server.is_quiet());
}

#[tokio::test]
async fn what_the_server_asks_to_wait_is_waited() {
    let mut server = Server::start().await;
    let hook = hook(&server, 2);
    let (answer, ()) = tokio::join!(call(&hook, soon()), async {
        server.next().await.answer("503 X\nretry-after: 1", "").await;
        let answered = Instant::now();
        let second = server.next().await;
        assert!(answered.elapsed() > Duration::from_millis(950));
        second.answer("204 No Content", "").await;
    });
    assert_eq!(answer.unwrap(), "{}");
}

#[tokio::test]
async fn a_wait_that_would_pass_the_deadline_is_not_begun() {
    for wait in ["3600", "18446744073709551615", "Thu, 31 Dec 2099 23:59:59 GMT"] {
        let mut server = Server::start().await;
        let hook = hook(&server, 3);
        let deadline = soon();
        let (answer, ()) = tokio::join!(call(&hook, deadline), async {
            let head = format!("503 X\nretry-after: {wait}");
            server.next().await.answer(&head, "").await;
        });
        assert!(
            matches!(answer, Err(WebhookError::Status(status)) if status == 503),
            "{wait}"
        );
        assert!(Instant::now() < deadline, "{wait}");
        assert!(server.is_quiet(), "{wait}");
    }
}

#[tokio::test]
async fn a_refusal_is_final() {
    for status in [400, 401, 404, 410, 422] {
        let answer = answered(&format!("{status} X"), r#"{"decision":"allow"}"#).await;
        assert!(
            matches!(answer, Err(WebhookError::Status(of)) if of == status),
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::start().await;
    for status in [301, 302, 303, 307, 308] {
        let head = format!("{status} X\nlocation: {}", other.url("/elsewhere"));
        let answer = answered(&head, "").await;
        assert!(
            matches!(answer, Err(WebhookError::Status(of)) if of == status),
            "{status}"
        );
    }
    let mut other = other;
    assert!(other.is_quiet());
}

#[tokio::test]
async fn an_empty_success_is_an_empty_object() {
    for (head, body) in [("204 No Content", ""), ("200 OK", ""), ("202 Accepted", " \r\n")] {
        assert_eq!(answered(head, body).await.unwrap(), "{}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_object_is_refused() {
    for body in [
        "nope",
        "null",
        "[{}]",
        "\"{}\"",
        "{",
        "{}{}",
        "{} x",
        "{'a':1}",
        "\u{feff}{}",
    ] {
        let answer = answered("200 OK", body).await;
        assert!(matches!(answer, Err(WebhookError::NotAnObject)), "{body}");
    }
}

#[tokio::test]
async fn an_answer_is_one_line() {
    let answer = answered("200 OK", "\n{\r\n  \"a\": \"\\n\",\n\t\"b\": []\n}\r\n").await;
    assert_eq!(answer.unwrap(), "{    \"a\": \"\\n\", \t\"b\": [] }");
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let padding = "a".repeat(LARGEST_ANSWER_BYTES - r#"{"a":""}"#.len());
    let most = format!(r#"{{"a":"{padding}"}}"#);
    assert_eq!(answered("200 OK", &most).await.unwrap(), most);

    // One byte more, and a body that never ends.
    let answer = answered("200 OK", &format!("{most} ")).await;
    assert!(matches!(
        answer,
        Err(WebhookError::Request(RequestError::TooLarge { .. }))
    ));
    let mut server = Server::start().await;
    let hook = hook(&server, 3);
    let (answer, ()) = tokio::join!(call(&hook, soon()), async {
        let mut asked = server.next().await;
        asked.write("HTTP/1.1 200 OK\r\n\r\n{").await;
        while asked.write(vec![b' '; 64 * 1024]).await {}
    });
    assert!(matches!(
        answer,
        Err(WebhookError::Request(RequestError::TooLarge { .. }))
    ));
    assert!(server.is_quiet());
}

#[tokio::test]
async fn a_broken_connection_is_tried_again() {
    for half in [
        "",
        "HTTP/1.1 200 OK\r\nconte",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\":",
    ] {
        let mut server = Server::start().await;
        let twice = hook(&server, 2);
        let (answer, ()) = tokio::join!(call(&twice, soon()), async {
            server.next().await.write(half).await;
            server.next().await.answer("200 OK", "{}").await;
        });
        assert_eq!(answer.unwrap(), "{}", "{half}");

        let once = hook(&server, 1);
        let (answer, _) = tokio::join!(call(&once, soon()), async {
            server.next().await.write(half).await
        });
        assert!(
            matches!(answer, Err(WebhookError::Request(RequestError::Broken(_)))),
            "{half}"
        );
    }
}

#[tokio::test]
async fn a_port_where_nothing_listens_is_tried_again_and_said() {
    // It is ours to the end, so that nobody else comes to listen there.
    let bound = TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/", bound.local_addr().unwrap());
    let hook = Webhook {
        url: url.parse().unwrap(),
        key: None,
        attempts: 3,
    };
    let began = Instant::now();
    let answer = call(&hook, soon()).await;
    assert!(matches!(
        answer,
        Err(WebhookError::Request(RequestError::Connect(_)))
    ));
    // Two pauses, of at least a half of 250 and of 500 ms.
    assert!(began.elapsed() >= Duration::from_millis(375));
    drop(bound);
}

#[tokio::test]
async fn silence_ends_at_the_deadline_and_closes_the_connection() {
    for half in ["", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\":"] {
        let mut server = Server::start().await;
        let hook = hook(&server, 1);
        let deadline = Instant::now() + Duration::from_secs(1);
        let (answer, ()) = tokio::join!(call(&hook, deadline), async {
            let mut asked = server.next().await;
            asked.write(half).await;
            asked.gone().await;
        });
        assert!(matches!(answer, Err(WebhookError::Deadline)), "{half}");
        assert!(Instant::now() >= deadline);
    }
}

#[tokio::test]
async fn a_silent_attempt_leaves_time_for_the_next() {
    let mut server = Server::start().await;
    let hook = hook(&server, 2);
    let deadline = Instant::now() + Duration::from_secs(6);
    let (answer, ()) = tokio::join!(call(&hook, deadline), async {
        let silent = server.next().await;
        server.next().await.answer("200 OK", r#"{"second":true}"#).await;
        silent.gone().await;
    });
    assert_eq!(answer.unwrap(), r#"{"second":true}"#);
}

#[tokio::test]
async fn after_the_deadline_nothing_is_sent() {
    let mut server = Server::start().await;
    let answer = call(&hook(&server, 3), Instant::now()).await;
    assert!(matches!(answer, Err(WebhookError::Deadline)));
    assert!(server.is_quiet());
}

#[tokio::test]
async fn no_error_shows_what_was_sent() {
    let server = Server::start().await;
    let gone = hook(&server, 1);
    drop(server);
    let errors = [
        answered("400 PLANTED-REASON", "PLANTED-ANSWER")
            .await
            .unwrap_err(),
        answered("200 OK", "PLANTED-ANSWER").await.unwrap_err(),
        answered("200 OK", &"PLANTED-ANSWER".repeat(100_000))
            .await
            .unwrap_err(),
        call(&gone, soon()).await.unwrap_err(),
        call(&gone, Instant::now()).await.unwrap_err(),
    ];
    for error in errors {
        let text = all_texts(&error);
        assert!(!text.contains("PLANTED"), "{text}");
    }
    assert!(!format!("{gone:?}").contains("PLANTED"));
}
