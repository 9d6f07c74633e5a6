//! Owns a page of the daemon that is let in: what a browser sends for it.

use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};

use super::rest::{Reply, Rest};

/// A page with a login.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    rest: Rest,
    pub(crate) id: String,
    /// The cookie's name and value.
    pub(crate) cookie: String,
    pub(crate) key: String,
}

impl Page {
    /// Lets a page in with a ticket of this role.
    pub(crate) async fn let_in(rest: &Rest, role: &str) -> Self {
        Self::named(rest, role, "a page").await
    }

    /// Lets a page in that says its name.
    pub(crate) async fn named(rest: &Rest, role: &str, name: &str) -> Self {
        let ask = json!({"path": "/v1/logins", "role": role});
        let ticket = rest.post("/v1/tickets", ask).await.expect(201);
        let rest = rest.with_token(None);
        let request = rest
            .builder(Method::POST, "/v1/logins")
            .json(&json!({"ticket": ticket["ticket"], "name": name}));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 201);
        let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let made: Value = answer.json().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            rest,
            id: text(&made["login"]["id"]),
            cookie,
            key: text(&made["key"]),
        }
    }

    /// A request as the browser makes it for the page.
    pub(crate) fn builder(&self, method: Method, path: &str) -> RequestBuilder {
        self.rest
            .builder(method, path)
            .header(header::COOKIE, &self.cookie)
            .header("trunkline-login", &self.key)
            .header(header::ORIGIN, self.rest.url())
    }

    pub(crate) async fn call(&self, method: Method, path: &str) -> Reply {
        self.rest.send(self.builder(method, path)).await
    }

    /// A ticket that the page makes.
    pub(crate) async fn ticket(&self, path: &str) -> String {
        let request = self
            .builder(Method::POST, "/v1/tickets")
            .json(&json!({"path": path}));
        let made = self.rest.send(request).await.expect(201);
        made["ticket"].as_str().unwrap().to_owned()
    }
}
