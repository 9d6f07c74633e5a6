//! Owns a server for what the daemon asks over HTTP: it reads requests and hands each to the test, which writes the answer byte by byte.

use std::collections::BTreeMap;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use trunkline::outbound::WebUrl;

use super::wait::PATIENCE;

/// Listens on a port of its own. Its open connections are closed when it is dropped.
pub(crate) struct Server {
    base: String,
    arrived: mpsc::Receiver<Exchange>,
    _tasks: JoinSet<()>,
}

/// One request, and the connection that its answer goes to.
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    stream: BufReader<TcpStream>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (sender, arrived) = mpsc::channel(64);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                connections.spawn(async move {
                    if let Some(exchange) = Exchange::read(stream).await {
                        let _ = sender.send(exchange).await;
                    }
                });
            }
        });
        Self {
            base,
            arrived,
            _tasks: tasks,
        }
    }

    pub(crate) fn url(&self, path: &str) -> WebUrl {
        format!("{}{path}", self.base).parse().unwrap()
    }

    /// The next request.
    pub(crate) async fn next(&mut self) -> Exchange {
        let next = timeout(PATIENCE, self.arrived.recv()).await;
        next.expect("a request came in time").expect("the server runs")
    }

    /// No request is left that nobody has taken.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.arrived.try_recv().is_err()
    }
}

impl Exchange {
    async fn read(stream: TcpStream) -> Option<Self> {
        let mut stream = BufReader::new(stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers
            .get("content-length")
            .map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        Some(Self {
            method: first.next()?.to_owned(),
            path: first.next()?.to_owned(),
            headers,
            body: String::from_utf8(body).unwrap(),
            stream,
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Writes; the client may have gone.
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let stream = self.stream.get_mut();
        stream.write_all(bytes.as_ref()).await.is_ok() && stream.flush().await.is_ok()
    }

    /// Writes a whole answer and closes. `head` is the status and further headers, each after a line break.
    pub(crate) async fn answer(mut self, head: &str, body: &str) {
        let head = head.replace('\n', "\r\n");
        let length = body.len();
        self.write(format!(
            "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ))
        .await;
    }

    /// Writes the head of an event stream that ends when the connection does.
    pub(crate) async fn begin_events(&mut self) {
        self.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            .await;
    }

    /// Writes an event.
    pub(crate) async fn event(&mut self, data: &str) {
        assert!(self.write(format!("data: {data}\n\n")).await);
    }

    /// Waits until the client has closed the connection.
    pub(crate) async fn gone(mut self) {
        let mut rest = Vec::new();
        let read = timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await;
        // A reset is an end as well.
        let _ = read.expect("the client closed in time");
    }
}
