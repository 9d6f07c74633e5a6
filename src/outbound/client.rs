//! Owns the one HTTP client of the daemon: connections, TLS, and the bound on what is read.

use std::{
    error::Error as StdError,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// A host that does not take a connection in this time is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A peer that vanished is noticed: streams may be silent for hours.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// An idle connection is given up before common servers close it (5 s), or a request would be sent into the close.
const IDLE: Duration = Duration::from_secs(4);

/// Idle connections that are kept for each host.
const IDLE_PER_HOST: usize = 4;

/// The daemon's name for itself.
pub(super) const USER_AGENT: &str = concat!("trunkline/", env!("CARGO_PKG_VERSION"));

/// Why a request got no answer. No text of it shows the address.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No connection came about: no such host, nothing listens, TLS failed.
    #[error("no connection to the server")]
    Connect(#[source] Box<dyn StdError + Send + Sync>),
    /// The connection ended before the answer did, or what came is no HTTP.
    #[error("the connection broke before the answer was complete")]
    Broken(#[source] Box<dyn StdError + Send + Sync>),
    /// The system has no certificates to check the server's with.
    #[error("this machine has no certificate authorities to trust")]
    NoAuthorities,
    /// The answer is larger than is read.
    #[error("the answer is larger than {limit_bytes} bytes")]
    TooLarge {
        /// How much would have been read.
        limit_bytes: usize,
    },
}

type Plain = Client<HttpConnector, Full<Bytes>>;
type Tls = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Makes HTTP requests. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Outbound {
    plain: Plain,
    /// Made at the first `https://`: the authorities of the system are read from files. `None`: there are none.
    tls: Arc<OnceLock<Option<Tls>>>,
}

impl Outbound {
    /// A client without connections.
    pub fn new() -> Self {
        Self {
            plain: pooled().build(connector()),
            tls: Arc::default(),
        }
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// All but [`RequestError::TooLarge`].
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, RequestError> {
        let answer = if request.uri().scheme_str() == Some("https") {
            self.tls().await?.request(request).await
        } else {
            self.plain.request(request).await
        };
        answer.map_err(|error| {
            if error.is_connect() {
                RequestError::Connect(Box::new(error))
            } else {
                RequestError::Broken(Box::new(error))
            }
        })
    }

    async fn tls(&self) -> Result<&Tls, RequestError> {
        if self.tls.get().is_none() {
            let cell = Arc::clone(&self.tls);
            // A panic in there leaves the cell empty.
            let _ = tokio::task::spawn_blocking(move || {
                cell.get_or_init(|| system_authorities().and_then(tls));
            })
            .await;
        }
        let made = self.tls.get().and_then(Option::as_ref);
        made.ok_or(RequestError::NoAuthorities)
    }
}

impl Default for Outbound {
    fn default() -> Self {
        Self::new()
    }
}

fn pooled() -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST);
    builder
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_nodelay(true);
    connector
}

/// The authorities that the system trusts, so that a company's own count too. `SSL_CERT_FILE` and `SSL_CERT_DIR` replace
/// them. An authority that cannot be read is left out.
fn system_authorities() -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    (!roots.is_empty()).then_some(roots)
}

fn tls(roots: RootCertStore) -> Option<Tls> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .ok()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connector = connector();
    connector.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http1()
        .wrap_connector(connector);
    Some(pooled().build(connector))
}

/// Reads a body to its end.
///
/// # Errors
/// [`RequestError::TooLarge`] as soon as there are more than `limit_bytes`, [`RequestError::Broken`].
pub(super) async fn read(mut body: Incoming, limit_bytes: usize) -> Result<Bytes, RequestError> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| RequestError::Broken(Box::new(error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > limit_bytes {
            return Err(RequestError::TooLarge { limit_bytes });
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::{ServerConfig, pki_types::PrivateKeyDer};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// A client that trusts these alone.
    fn trusting(roots: RootCertStore) -> Outbound {
        Outbound {
            tls: Arc::new(OnceLock::from(tls(roots))),
            ..Outbound::new()
        }
    }

    fn get(url: &str) -> Request<Full<Bytes>> {
        Request::get(url).body(Full::default()).unwrap()
    }

    #[tokio::test]
    async fn https_is_spoken_with_whom_the_authorities_vouch_for() {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".into()]).unwrap();
        let provider = Arc::new(ring::default_provider());
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that does not trust it ends the handshake.
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await.unwrap();
                stream
                    .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                    .await
                    .unwrap();
            }
        };
        let client = async {
            let mut roots = RootCertStore::empty();
            roots.add(cert.der().clone()).unwrap();
            let trusting_it = trusting(roots);
            let url = format!("https://localhost:{port}/");
            assert_eq!(trusting_it.send(get(&url)).await.unwrap().status(), 204);
            // The certificate is for another name.
            let other_name = format!("https://127.0.0.1:{port}/");
            let refused = trusting_it.send(get(&other_name)).await;
            assert!(matches!(refused, Err(RequestError::Connect(_))));

            let other = generate_simple_self_signed(["localhost".into()]).unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(other.cert.der().clone()).unwrap();
            let refused = trusting(roots).send(get(&url)).await;
            assert!(matches!(refused, Err(RequestError::Connect(_))));
        };
        tokio::select! {
            () = client => {}
            () = server => {}
        }
    }

    #[tokio::test]
    async fn without_authorities_https_is_refused_and_said() {
        let outbound = Outbound {
            tls: Arc::new(OnceLock::from(None)),
            ..Outbound::new()
        };
        let refused = outbound.send(get("https://localhost/")).await;
        assert!(matches!(refused, Err(RequestError::NoAuthorities)));
    }
}
