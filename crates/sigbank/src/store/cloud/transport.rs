//! Requests on the wire: counted, bounded in time, and their answers compared with what was asked for, below `object_store`, which
//! signs requests and reads answers. It repeats nothing here; what happened to a request is told to whoever decides on that.

use super::answer::{self, Attempt, Seen};
use super::upload::Upload;
use crate::error::{Error, Result};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How many requests a store sent since it was opened, by kind, and how many bytes of bodies went each way. Repeated ones count again.
///
/// ```
/// let requests = sigbank::store::cloud::Requests { get: 2, list: 1, ..Default::default() };
/// assert_eq!(requests.total(), 3);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    /// Reading whole objects or ranges of them.
    pub get: u64,
    /// Size and version of an object.
    pub head: u64,
    /// Writing an object.
    pub put: u64,
    /// Taking an object away.
    pub delete: u64,
    /// A page of a listing.
    pub list: u64,
    /// Credentials, and what else there may be.
    pub other: u64,
    /// Bytes of answers' bodies.
    pub received: u64,
    /// Bytes of requests' bodies.
    pub sent: u64,
}

impl Requests {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.get + self.head + self.put + self.delete + self.list + self.other
    }
}

/// As [`Requests`], while they are counted: one for each of its fields, in their order.
#[derive(Debug, Default)]
pub(super) struct Counters([AtomicU64; 8]);

const GET: usize = 0;
const HEAD: usize = 1;
const PUT: usize = 2;
const DELETE: usize = 3;
const LIST: usize = 4;
const OTHER: usize = 5;
const RECEIVED: usize = 6;
const SENT: usize = 7;

impl Counters {
    fn add(&self, which: usize, count: u64) {
        if let Some(counter) = self.0.get(which) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }
    fn request(&self, method: &Method, query: &str) {
        let is_list = query.split('&').any(|part| part == "list-type=2" || part == "comp=list");
        self.add(
            match *method {
                Method::GET if is_list => LIST,
                Method::GET => GET,
                Method::HEAD => HEAD,
                Method::PUT if query.is_empty() => PUT,
                Method::DELETE => DELETE,
                _ => OTHER,
            },
            1,
        );
    }
    pub(super) fn now(&self) -> Requests {
        let [get, head, put, delete, list, other, received, sent] = self.0.each_ref().map(|n| n.load(Ordering::Relaxed));
        Requests { get, head, put, delete, list, other, received, sent }
    }
}

/// What a client of the wire is made with.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    pub(super) connect_timeout: Duration,
    /// A request ends when nothing moved for so long.
    pub(super) quiet: Duration,
    pub(super) allow_http: bool,
    pub(super) allow_invalid_certificates: bool,
    pub(super) proxy: Option<String>,
    pub(super) user_agent: Option<String>,
    /// Whether an answer may lead elsewhere: not where requests are signed for one host.
    pub(super) follow: bool,
}

/// Makes the clients of one store.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) wire: Wire,
    pub(super) counters: Arc<Counters>,
}

impl Connector {
    pub(super) fn client(&self) -> Result<Transport> {
        // Ours is the only use of it in this program; where another library set one, that is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let wire = &self.wire;
        let agent = wire.user_agent.as_deref().unwrap_or(concat!("sigbank/", env!("CARGO_PKG_VERSION")));
        let mut builder = reqwest::Client::builder()
            .user_agent(agent)
            .connect_timeout(wire.connect_timeout)
            .pool_idle_timeout(Duration::from_secs(20)) // Services close idle connections too; theirs is at least so long.
            .http1_only() // Parallel requests get parallel connections, and so their bandwidth.
            .https_only(!wire.allow_http)
            .tls_danger_accept_invalid_certs(wire.allow_invalid_certificates);
        if !wire.follow {
            builder = builder.redirect(reqwest::redirect::Policy::none());
        }
        if let Some(proxy) = &wire.proxy {
            let proxy = reqwest::Proxy::all(proxy)
                .map_err(|e| Error::invalid(format!("the option proxy_url: {e}")).remedy("write it as http://host:port"))?;
            builder = builder.proxy(proxy);
        }
        let client = builder.build().map_err(|e| {
            Error::storage(format!("the HTTP client cannot be made: {}", chain(&e)))
                .remedy("is there a bundle of CA certificates on this machine? SSL_CERT_FILE may name one")
        })?;
        Ok(Transport { client, quiet: wire.quiet, counters: Arc::clone(&self.counters) })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = self.client().map_err(|e| object_store::Error::Generic { store: "sigbank", source: Box::new(e) })?;
        Ok(HttpClient::new(client))
    }
}

/// An error with its causes. Addresses are left out: they may hold signatures.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[derive(Debug)]
pub(super) struct Transport {
    client: reqwest::Client,
    quiet: Duration,
    counters: Arc<Counters>,
}

/// A failure of the wire, in words.
#[derive(Debug)]
struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

fn failed(kind: HttpErrorKind, words: impl Into<String>) -> HttpError {
    HttpError::new(kind, Failed(words.into()))
}

#[async_trait::async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let attempt = Attempt::current();
        let (mut parts, body) = request.into_parts();
        let progress = Arc::new(AtomicU64::new(0));
        let body = match parts.extensions.remove::<Upload>() {
            Some(upload) => {
                parts = upload.sign(parts).map_err(|e| failed(HttpErrorKind::Unknown, e.to_string()))?;
                reqwest::Body::wrap(Sent { body: upload.body(), progress: Arc::clone(&progress) })
            }
            None if body.as_bytes().is_some_and(Bytes::is_empty) => reqwest::Body::from(Bytes::new()),
            None => reqwest::Body::wrap(Sent { body, progress: Arc::clone(&progress) }),
        };
        self.counters.request(&parts.method, parts.uri.query().unwrap_or(""));
        attempt.note(|seen| *seen = Seen { host: parts.uri.host().unwrap_or("").into(), sent: true, ..Seen::default() });

        let url = parts.uri.to_string().parse().map_err(|e| failed(HttpErrorKind::Unknown, format!("the address: {e}")))?;
        let asked = parts.headers.get(RANGE).and_then(|range| answer::asked(range.to_str().ok()?));
        let method = parts.method.clone();
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(body);

        let mut response = Box::pin(self.client.execute(request));
        let response = loop {
            let before = progress.load(Ordering::Relaxed);
            match tokio::time::timeout(self.quiet + draining(before), &mut response).await {
                Ok(response) => break response,
                Err(_) if progress.load(Ordering::Relaxed) != before => {}
                Err(_) => {
                    self.counters.add(SENT, progress.load(Ordering::Relaxed));
                    return Err(attempt.failed(true, true, silence(self.quiet)));
                }
            }
        };
        self.counters.add(SENT, progress.load(Ordering::Relaxed));
        let response = response.map_err(|e| {
            let connecting = e.is_connect();
            attempt.failed(!connecting, e.is_timeout(), chain(&e.without_url()))
        })?;

        let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
        attempt.answered(parts.status, &parts.headers);
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse().ok());
        let body = Received {
            body,
            attempt: attempt.clone(),
            quiet: self.quiet,
            deadline: Box::pin(tokio::time::sleep(self.quiet)),
            counters: Arc::clone(&self.counters),
            left: length.filter(|_| method != Method::HEAD),
        };
        if !parts.status.is_success() {
            let text = answer::error_body(body).await;
            attempt.refused(&text);
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(text)));
        }
        let range = parts.headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let lie = match (asked, parts.status) {
            (None, StatusCode::PARTIAL_CONTENT) => Some("a part of the object came where all was asked for".to_owned()),
            (Some(_), status) if status != StatusCode::PARTIAL_CONTENT => {
                attempt.note(|seen| seen.ignored_range = true);
                Some("the whole object came where a range was asked for".to_owned())
            }
            (Some(asked), _) => answer::other_range(&asked, range, length),
            _ => None,
        };
        match lie {
            Some(lie) => Err(attempt.lied(lie)),
            None => Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body))),
        }
    }
}

/// What was handed on may still lie in buffers of this host: time for a slow line to take it.
fn draining(sent: u64) -> Duration {
    const BUFFERS: u64 = 4 << 20;
    const SLOW: f64 = (64 << 10) as f64; // bytes a second
    Duration::from_secs_f64(sent.min(BUFFERS) as f64 / SLOW)
}

fn silence(quiet: Duration) -> String {
    format!("nothing came or went for {:.1} s", quiet.as_secs_f64())
}

/// A body on its way out, which tells how far it is.
#[derive(Debug)]
struct Sent<B> {
    body: B,
    progress: Arc<AtomicU64>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Sent<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(bytes) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            self.progress.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body on its way in: it must not stand still, and have the length that it said.
pub(super) struct Received {
    body: reqwest::Body,
    attempt: Attempt,
    quiet: Duration,
    deadline: Pin<Box<Sleep>>,
    counters: Arc<Counters>,
    left: Option<u64>,
}

impl Body for Received {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.deadline.as_mut().poll(cx));
            return Poll::Ready(Some(Err(self.attempt.failed(true, true, silence(self.quiet)))));
        };
        let deadline = Instant::now() + self.quiet;
        self.deadline.as_mut().reset(deadline);
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                let len = frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
                self.counters.add(RECEIVED, len);
                match self.left.map(|left| left.checked_sub(len)) {
                    Some(None) => Some(Err(self.attempt.lied("more bytes came than the answer said".into()))),
                    left => {
                        self.left = left.flatten();
                        Some(Ok(frame))
                    }
                }
            }
            Some(Err(e)) => Some(Err(self.attempt.failed(true, e.is_timeout(), chain(&e.without_url())))),
            None => match self.left.take() {
                None | Some(0) => None,
                Some(left) => Some(Err(self.attempt.failed(true, false, format!("the answer ended {left} bytes early")))),
            },
        })
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
