//! Owns what an address of someone else's server and its secrets may be: checked, and never shown by accident.

use std::{fmt, str::FromStr};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::Uri;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longer addresses are refused; browsers and servers cut them at about this length too.
const LONGEST_URL_BYTES: usize = 8 * 1024;

/// An absolute `http://` or `https://` address, without user info in it.
///
/// `Display` and `Debug` leave out the query, which may hold a key. Serialised it is whole.
#[derive(Clone, PartialEq, Eq, Hash, utoipa::ToSchema)]
#[schema(value_type = String, format = "uri", examples("https://hooks.example.com/pre-tool"))]
pub struct WebUrl(Uri);

/// Why a text is no [`WebUrl`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebUrlError {
    /// It does not parse; names outside ASCII must be written in their `xn--` form.
    #[error("not a URL")]
    NotAUrl,
    /// More than 8 KiB.
    #[error("longer than 8 KiB")]
    TooLong,
    /// Another scheme, or none.
    #[error("neither http:// nor https://")]
    Scheme,
    /// No host.
    #[error("without a host")]
    NoHost,
    /// A port that there cannot be.
    #[error("with a port that is none")]
    Port,
    /// `user:password@`: credentials go into a header or a secret.
    #[error("with user info in it")]
    UserInfo,
}

impl WebUrl {
    /// The address as it is sent to.
    pub const fn uri(&self) -> &Uri {
        &self.0
    }

    /// Does it ask for TLS?
    pub fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }
}

impl FromStr for WebUrl {
    type Err = WebUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > LONGEST_URL_BYTES {
            return Err(WebUrlError::TooLong);
        }
        let uri: Uri = text.parse().map_err(|_| WebUrlError::NotAUrl)?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(WebUrlError::Scheme);
        }
        let authority = uri.authority().ok_or(WebUrlError::NoHost)?;
        if authority.as_str().contains('@') {
            return Err(WebUrlError::UserInfo);
        }
        let host = authority.host();
        if host.is_empty() {
            return Err(WebUrlError::NoHost);
        }
        let port = authority.as_str().strip_prefix(host).unwrap_or_default();
        if !matches!(port, "" | ":") && authority.port_u16().is_none() {
            return Err(WebUrlError::Port);
        }
        Ok(Self(uri))
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        write!(f, "{scheme}://{authority}{}", self.0.path())
    }
}

impl fmt::Debug for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for WebUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for WebUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that nobody may see: the key of a signature, the value of a header. There is no `Display` and no `Serialize`.
#[derive(Clone, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = Password)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// The key of a webhook's signature. There is no `Display` and no `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

/// The fault of a text that is no [`SigningKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyError {
    /// Nothing.
    #[error("must not be empty")]
    Empty,
    /// `whsec_` and something else than 24 to 64 bytes in base64.
    #[error("must have 24 to 64 bytes in base64 behind whsec_")]
    Encoding,
}

impl SigningKey {
    /// The key of a secret that an earlier version took, when each text was a key as it stands.
    pub fn of_stored(text: &str) -> Self {
        text.parse().unwrap_or_else(|_| Self(text.as_bytes().to_vec()))
    }

    /// The key of a secret in the form of Standard Webhooks.
    ///
    /// # Errors
    /// A text in another form.
    pub fn standard(text: &str) -> Result<Self, SigningKeyError> {
        if text.starts_with("whsec_") {
            text.parse()
        } else {
            Err(SigningKeyError::Encoding)
        }
    }

    /// Its bytes, for the one place that signs.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

/// `whsec_` and the key in base64, as the libraries of Standard Webhooks take it; another text is the key as it stands.
impl FromStr for SigningKey {
    type Err = SigningKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(SigningKeyError::Empty);
        }
        let Some(encoded) = text.strip_prefix("whsec_") else {
            return Ok(Self(text.as_bytes().to_vec()));
        };
        let key = BASE64_STANDARD
            .decode(encoded)
            .map_err(|_| SigningKeyError::Encoding)?;
        if (24..=64).contains(&key.len()) {
            Ok(Self(key))
        } else {
            Err(SigningKeyError::Encoding)
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<key>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_base64_behind_its_prefix_and_else_a_text() {
        let key = |text: &str| text.parse::<SigningKey>().map(|key| key.expose().to_vec());
        let standard = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        assert_eq!(key(standard).map(|key| key.len()), Ok(24));
        assert_eq!(key("a text"), Ok(b"a text".to_vec()));
        assert_eq!(key(""), Err(SigningKeyError::Empty));
        for text in [
            "whsec_",
            "whsec_MfKQ9r8GKYqr",
            "whsec_not base64 at all, and long enough",
        ] {
            assert_eq!(key(text), Err(SigningKeyError::Encoding), "{text}");
        }
        assert_eq!(SigningKey::of_stored("whsec_short").expose(), b"whsec_short");
        assert_eq!(format!("{:?}", standard.parse::<SigningKey>().unwrap()), "<key>");
    }

    fn url(text: &str) -> Result<WebUrl, WebUrlError> {
        text.parse()
    }

    #[test]
    fn an_address_is_absolute_and_http() {
        for text in [
            "http://127.0.0.1:8080",
            "https://hooks.example.com/a/b?key=1",
            "HTTPS://EXAMPLE.COM/",
            "http://[::1]:80/mcp",
        ] {
            assert!(url(text).is_ok(), "{text}");
        }
        for (text, error) in [
            ("", WebUrlError::NotAUrl),
            ("http://a b/", WebUrlError::NotAUrl),
            ("http://", WebUrlError::NotAUrl),
            ("http:///path", WebUrlError::NotAUrl),
            ("http://h\r\nx: y/", WebUrlError::NotAUrl),
            ("/only/a/path", WebUrlError::Scheme),
            ("example.com:80", WebUrlError::Scheme),
            ("ftp://example.com/", WebUrlError::Scheme),
            ("http://:80/", WebUrlError::NoHost),
            ("http://h:65536/", WebUrlError::Port),
            ("http://h:x/", WebUrlError::Port),
            ("http://[::1", WebUrlError::NotAUrl),
            ("http://user:pass@example.com/", WebUrlError::UserInfo),
            ("https://user@example.com/", WebUrlError::UserInfo),
        ] {
            assert_eq!(url(text), Err(error), "{text}");
        }
        let long = format!("http://h/{}", "a".repeat(LONGEST_URL_BYTES));
        assert_eq!(url(&long), Err(WebUrlError::TooLong));
    }

    #[test]
    fn what_may_be_a_key_is_not_shown_and_not_lost() {
        let hook = url("https://example.com/hook?key=PLANTED").unwrap();
        assert_eq!(
            format!("{hook} {hook:?}"),
            "https://example.com/hook https://example.com/hook"
        );
        assert_eq!(
            serde_json::to_string(&hook).unwrap(),
            r#""https://example.com/hook?key=PLANTED""#
        );
        assert_eq!(format!("{:?}", Secret::new("PLANTED".into())), "<secret>");
    }
}
