//! Owns `logins`: the browsers that are let in, and their end.

use serde_json::Value;

use super::{
    CliError,
    args::{Logins, LoginsChange, LoginsRevoke},
    client::Client,
    output::{Output, note},
    resolve, view,
    words::one_line,
};

/// `logins`
pub(super) async fn logins(client: &Client, output: &Output, logins: &Logins) -> Result<(), CliError> {
    match &logins.change {
        None | Some(LoginsChange::Ls) => list(client, output).await,
        Some(LoginsChange::Revoke(revoke)) => self::revoke(client, revoke).await,
    }
}

async fn list(client: &Client, output: &Output) -> Result<(), CliError> {
    let page = client.get(&["v1", "logins"], &[]).await?;
    if output.is_json() {
        return output.value(&page);
    }
    let logins = view::list(&page, &["items"]);
    if logins.is_empty() {
        note("no browser is signed in; `trunkline open` signs one in");
        return Ok(());
    }
    let ids: Vec<&str> = logins.iter().map(|login| view::text(login, &["id"])).collect();
    let rows: Vec<Vec<String>> = logins
        .iter()
        .zip(resolve::short_ids(&ids))
        .map(|(login, id)| {
            let ago = |key| view::ago(view::text(login, &[key]));
            vec![
                id,
                view::text(login, &["role"]).to_owned(),
                ago("created_at"),
                ago("last_used_at"),
                one_line(view::text(login, &["name"])),
            ]
        })
        .collect();
    output.table(&["LOGIN", "ROLE", "MADE", "USED", "NAME"], &rows)
}

async fn revoke(client: &Client, revoke: &LoginsRevoke) -> Result<(), CliError> {
    let page = client.get(&["v1", "logins"], &[]).await?;
    let logins = view::list(&page, &["items"]);
    let ids = match &revoke.login {
        Some(name) => vec![resolve::login(name, logins)?],
        None => logins.iter().map(id_of).collect(),
    };
    let mut ended: usize = 0;
    for id in ids {
        match client.delete(&["v1", "logins", &id]).await {
            Ok(()) => ended += 1,
            // It has ended meanwhile.
            Err(CliError::NotFound { .. }) if revoke.all => {}
            Err(error) => return Err(error),
        }
    }
    note(&match ended {
        1 => "revoked 1 login".to_owned(),
        count => format!("revoked {count} logins"),
    });
    Ok(())
}

fn id_of(login: &Value) -> String {
    view::text(login, &["id"]).to_owned()
}
