//! Owns the files of what belongs to no session: `webhooks.json` and `logins.json` beside the database, which is made again of them.
//! Each is an array with an object for each row, has mode 0600, and is in its place before a change of its table is committed.

use sqlx::SqliteConnection;

use super::{QueryError, webhooks::WebhookEdit};

/// A table that belongs to no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Webhooks,
    Logins,
}

impl List {
    pub(super) const ALL: [Self; 2] = [Self::Webhooks, Self::Logins];

    /// The list that an edit of webhooks changes. How deliveries went is in the database alone.
    pub(super) const fn of_webhooks(edit: &WebhookEdit) -> Option<Self> {
        match edit {
            WebhookEdit::Insert(_)
            | WebhookEdit::Configure(_)
            | WebhookEdit::Change(..)
            | WebhookEdit::Delete(_) => Some(Self::Webhooks),
            WebhookEdit::Ended(_)
            | WebhookEdit::Attention(..)
            | WebhookEdit::Calm(_)
            | WebhookEdit::CalmOthers(_) => None,
        }
    }

    /// The name of the file.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Webhooks => "webhooks.json",
            Self::Logins => "logins.json",
        }
    }

    /// The rows as they are in this transaction, as a JSON array.
    pub(super) async fn rows(self, connection: &mut SqliteConnection) -> Result<String, QueryError> {
        let query = match self {
            Self::Webhooks => {
                "SELECT json_group_array(json_object('id', id, 'name', name, 'secret', secret, 'spec', spec,
                    'enabled', enabled, 'created_at', created_at)) FROM webhooks"
            }
            Self::Logins => {
                "SELECT json_group_array(json_object('id', id, 'role', role, 'name', name,
                    'cookie_digest', hex(cookie_digest), 'key_digest', hex(key_digest),
                    'created_at', created_at, 'last_used_at', last_used_at)) FROM logins"
            }
        };
        Ok(sqlx::query_scalar(query).fetch_one(connection).await?)
    }

    /// Adds the rows of a file.
    pub(super) async fn restore(
        self,
        connection: &mut SqliteConnection,
        rows: &str,
    ) -> Result<(), QueryError> {
        let query = match self {
            Self::Webhooks => {
                "INSERT INTO webhooks (id, name, secret, spec, enabled, created_at)
                 SELECT value ->> 'id', value ->> 'name', value ->> 'secret', value ->> 'spec', value ->> 'enabled',
                    value ->> 'created_at'
                 FROM json_each(?1)"
            }
            Self::Logins => {
                "INSERT INTO logins (id, role, name, cookie_digest, key_digest, created_at, last_used_at)
                 SELECT value ->> 'id', value ->> 'role', value ->> 'name', unhex(value ->> 'cookie_digest'),
                    unhex(value ->> 'key_digest'), value ->> 'created_at', value ->> 'last_used_at'
                 FROM json_each(?1)"
            }
        };
        sqlx::query(query).bind(rows).execute(connection).await?;
        Ok(())
    }
}
