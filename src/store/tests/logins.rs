//! Tests of logins: they are kept as they are, and forgotten when nobody uses them.

use super::*;
use crate::domain::{Login, LoginId, Role};

fn row(seconds: i64, name: Option<&str>) -> LoginRow {
    LoginRow {
        login: Login {
            id: LoginId::new(),
            role: Role::Viewer,
            name: name.map(str::to_owned),
            created_at: at(seconds),
            last_used_at: at(seconds),
        },
        cookie_digest: [1; 32],
        key_digest: [2; 32],
    }
}

#[tokio::test]
async fn logins_are_kept_until_nobody_has_used_them_for_long() {
    let test = TestStore::new().await;
    let (one, two) = (row(10, Some("Firefox")), row(20, None));
    for row in [&two, &one] {
        test.store.insert_login(row.clone()).await.unwrap();
    }
    let kept = test.store.logins(at(9)).await.unwrap();
    let logins: Vec<_> = kept.iter().map(|row| row.login.clone()).collect();
    assert_eq!(logins, [one.login.clone(), two.login.clone()]);
    assert_eq!((kept[0].cookie_digest, kept[0].key_digest), ([1; 32], [2; 32]));

    test.store.login_used(one.login.id, at(30)).await.unwrap();
    // A clock that was set back makes no login older.
    test.store.login_used(one.login.id, at(5)).await.unwrap();
    let kept = test.store.logins(at(20)).await.unwrap();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(kept[0].login.last_used_at, at(30));
    assert!(test.store.delete_login(one.login.id).await.unwrap());
    assert!(!test.store.delete_login(one.login.id).await.unwrap());
    assert!(
        !test.store.delete_login(two.login.id).await.unwrap(),
        "it was forgotten"
    );
}

#[tokio::test]
async fn logins_and_webhooks_are_in_files_that_a_new_database_is_made_of() {
    let test = TestStore::new().await;
    let (one, two) = (row(10, Some("Firefox")), row(20, None));
    for row in [&one, &two] {
        test.store.insert_login(row.clone()).await.unwrap();
    }
    assert!(test.store.delete_login(two.login.id).await.unwrap());
    let hook = test.webhook(|_| ()).await;
    let before = test.store.webhooks().await.unwrap();
    assert_eq!(before.len(), 1, "{hook}");

    let folder = test.dir.path();
    let again = Store::open_to_rebuild(&folder.join("again.db")).await.unwrap();
    again.restore_lists(folder).await.unwrap();
    let kept = again.logins(at(0)).await.unwrap();
    assert_eq!(kept.len(), 1, "one was ended");
    assert_eq!(kept[0].login, one.login);
    assert_eq!((kept[0].cookie_digest, kept[0].key_digest), ([1; 32], [2; 32]));
    assert_eq!(
        format!("{before:?}"),
        format!("{:?}", again.webhooks().await.unwrap())
    );
    again.close().await;
}
