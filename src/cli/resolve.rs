//! Owns how a person names a thing: a whole id, a unique beginning of it, or `last`.

use serde_json::Value;

use super::{CliError, client::Client, request, view, words::one_line};

/// Sessions asked for in one page.
const PAGE: &str = "500";

/// How a person finds the name of a session.
pub(super) const LIST: &str = "`trunkline ls` lists the sessions";

/// How a person finds the name of an approval.
pub(super) const LIST_APPROVALS: &str = "`trunkline approvals` lists what waits for a person";

/// How a person finds the name of a login.
pub(super) const LIST_LOGINS: &str = "`trunkline logins` lists the browsers that are signed in";

/// The id of the session that `name` means.
pub(super) async fn session(client: &Client, name: &str) -> Result<String, CliError> {
    if name.parse::<uuid::Uuid>().is_ok() {
        return Ok(name.to_lowercase());
    }
    if name == "last" {
        let page = client.get(&["v1", "sessions"], &[("limit", "1")]).await?;
        return view::list(&page, &["items"])
            .first()
            .map(|session| view::text(session, &["id"]).to_owned())
            .ok_or_else(|| {
                CliError::not_found("there is no session yet", Some("`trunkline new` creates one"))
            });
    }
    check_beginning(name)?;
    let mut sessions = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = vec![("limit", PAGE)];
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page = client.get(&["v1", "sessions"], &query).await?;
        sessions.extend(view::list(&page, &["items"]).iter().cloned());
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    only("session", name, &sessions, |session| {
        let title = match view::text(session, &["title"]) {
            "" => view::text(session, &["first_prompt"]),
            title => title,
        };
        one_line(title)
    })
}

/// As [`session`], for one that is to be deleted: what a damaged row has as id may be none.
pub(super) async fn deletable(client: &Client, name: &str) -> Result<String, CliError> {
    // A daemon that is not ready answers with a problem, and its damage can wait.
    let ready = client.get(&["readyz"], &[]).await.unwrap_or_default();
    let mut unreadable = view::list(&ready, &["unreadable_sessions"]).iter();
    if unreadable.any(|id| id.as_str() == Some(name)) {
        return Ok(name.to_owned());
    }
    session(client, name).await
}

/// The id of the pending approval that `name` means; without a name, of the only one.
pub(super) async fn approval(client: &Client, session: &str, name: Option<&str>) -> Result<Value, CliError> {
    let page = client
        .get(&["v1", "sessions", session, "approvals"], &[("state", "pending")])
        .await?;
    let pending = view::list(&page, &["items"]);
    let describe = |approval: &Value| one_line(&request::in_a_line(approval));
    let id = match name {
        Some(name) => only("pending approval", name, pending, describe)?,
        None => match pending {
            [] => {
                return Err(CliError::not_found(
                    "the session asks nothing now",
                    Some(LIST_APPROVALS),
                ));
            }
            [one] => return Ok(request::completed(client, session, one.clone()).await),
            several => {
                let choices = choices(several, describe);
                return Err(CliError::Usage(format!(
                    "several approvals are pending, say which:\n{choices}"
                )));
            }
        },
    };
    let found = pending
        .iter()
        .find(|approval| view::text(approval, &["id"]) == id);
    match found {
        Some(approval) => Ok(request::completed(client, session, approval.clone()).await),
        None => Err(CliError::not_found(
            format!("no pending approval {id}"),
            Some(LIST_APPROVALS),
        )),
    }
}

fn check_beginning(name: &str) -> Result<(), CliError> {
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "{name:?} is neither an id, nor the beginning of one, nor `last`"
    )))
}

/// The id of the login that `name` means, among these.
pub(super) fn login(name: &str, logins: &[Value]) -> Result<String, CliError> {
    if name.parse::<uuid::Uuid>().is_ok() {
        return Ok(name.to_lowercase());
    }
    only("login", name, logins, |login| {
        one_line(view::text(login, &["name"]))
    })
}

fn only(
    what: &str,
    name: &str,
    items: &[Value],
    describe: impl Fn(&Value) -> String,
) -> Result<String, CliError> {
    check_beginning(name)?;
    let beginning = name.to_lowercase();
    let matches: Vec<Value> = items
        .iter()
        .filter(|item| view::text(item, &["id"]).starts_with(&beginning))
        .cloned()
        .collect();
    match matches.as_slice() {
        [] => {
            let hint = match what {
                "session" => LIST,
                "login" => LIST_LOGINS,
                _ => LIST_APPROVALS,
            };
            Err(CliError::not_found(
                format!("no {what} begins with {name}"),
                Some(hint),
            ))
        }
        [one] => Ok(view::text(one, &["id"]).to_owned()),
        several => Err(CliError::Usage(format!(
            "{name} is the beginning of several ids:\n{}",
            choices(several, describe)
        ))),
    }
}

fn choices(items: &[Value], describe: impl Fn(&Value) -> String) -> String {
    items
        .iter()
        .map(|item| format!("  {}  {}", view::text(item, &["id"]), describe(item)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// For each id, how much of its beginning tells it from the others: at least eight characters.
pub(super) fn short_ids(ids: &[&str]) -> Vec<String> {
    const SHORTEST: usize = 8;
    ids.iter()
        .map(|id| {
            let shared = ids
                .iter()
                .filter(|other| *other != id)
                .map(|other| id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count())
                .max()
                .unwrap_or(0);
            id.chars().take(SHORTEST.max(shared + 1)).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pick(name: &str) -> Result<String, CliError> {
        let items = [
            json!({"id": "0196aa00-0000-7000-8000-000000000001"}),
            json!({"id": "0196aa00-0000-7000-8000-000000000002"}),
            json!({"id": "0197bb00-0000-7000-8000-000000000003"}),
        ];
        only("session", name, &items, |_| String::new())
    }

    #[test]
    fn a_unique_beginning_is_enough() {
        assert_eq!(pick("0197").unwrap(), "0197bb00-0000-7000-8000-000000000003");
        assert_eq!(pick("0197BB").unwrap(), "0197bb00-0000-7000-8000-000000000003");
        assert!(matches!(pick("0196"), Err(CliError::Usage(_))));
        assert!(matches!(pick("ff"), Err(CliError::NotFound { .. })));
        for nonsense in ["", "--help", "../x", "läst"] {
            assert!(matches!(pick(nonsense), Err(CliError::Usage(_))), "{nonsense}");
        }
    }

    #[test]
    fn short_ids_tell_ids_apart() {
        let short = short_ids(&["0196aa00-1", "0196aa00-2", "ffffffff-3"]);
        assert_eq!(short, ["0196aa00-1", "0196aa00-2", "ffffffff"]);
    }
}
