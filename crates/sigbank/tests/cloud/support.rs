//! The servers, each started when a test first asks for it, and the proxies before them.

use serde_json::{Value, json};
use sigbank::store::{CloudStore, StorageOptions};
use sigbank::uri::RelPath;
use sigbank::{Code, Error};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

pub fn p(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

#[track_caller]
pub fn fails<T: std::fmt::Debug>(result: Result<T, Error>, code: Code, words: &[&str]) {
    let e = result.expect_err("an error was expected");
    assert_eq!(e.code(), code, "{e}");
    for word in words {
        assert!(e.to_string().contains(word), "no {word:?} in: {e}");
    }
}

/// Bytes that do not repeat.
pub fn bytes(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    S3,
    Azure,
    Gcs,
    Http,
}

/// A server: where it is, and where its proxy is.
pub struct Server {
    pub kind: Kind,
    told: Value,
    /// The folder that is served, of [`Kind::Http`].
    pub folder: tempfile::TempDir,
    // The server ends when this closes, with this process.
    _stdin: ChildStdin,
}

static SERVERS: [OnceLock<Option<Server>>; 4] = [const { OnceLock::new() }; 4];

/// The server, or `None` with the reason printed where what it needs is not installed.
pub fn server(kind: Kind) -> Option<&'static Server> {
    SERVERS[kind as usize].get_or_init(|| start(kind)).as_ref()
}

fn start(kind: Kind) -> Option<Server> {
    let servers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/servers");
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.venv/bin/python");
    let python = std::env::var("SIGBANK_TEST_PYTHON").ok().unwrap_or_else(|| own.into());
    let (name, folder) = (format!("{kind:?}").to_lowercase(), tempfile::tempdir().unwrap());
    let mut command = Command::new(python);
    command.arg(servers).arg(format!("--{name}"));
    if kind == Kind::Http {
        command.arg(folder.path());
    }
    let started = command.arg("--control").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(e) => return missing(kind, &e.to_string()),
    };
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() {
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        return missing(kind, said.trim());
    }
    let told = serde_json::from_str::<Value>(&line).unwrap()[&name].clone();
    if let Some(why) = told["missing"].as_str() {
        return missing(kind, why);
    }
    Some(Server { kind, told, folder, _stdin: child.stdin.take().unwrap() })
}

fn missing(kind: Kind, why: &str) -> Option<Server> {
    eprintln!("{kind:?} is not tested: {why}");
    None
}

/// An address of its own for each caller.
pub fn fresh(server: &Server) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    server.address(&format!("t{}-{n}", std::process::id()))
}

impl Server {
    pub fn endpoint(&self) -> &str {
        self.told["endpoint"].as_str().unwrap()
    }
    pub fn bucket(&self) -> &str {
        self.told["bucket"].as_str().or(self.told["container"].as_str()).unwrap()
    }
    pub fn address(&self, prefix: &str) -> String {
        match self.kind {
            Kind::S3 => format!("s3://{}/{prefix}", self.bucket()),
            Kind::Gcs => format!("gs://{}/{prefix}", self.bucket()),
            Kind::Azure => format!("az://{}/{prefix}", self.bucket()),
            Kind::Http => format!("{}/{prefix}", self.endpoint()),
        }
    }
    /// What a client needs to reach an endpoint of this server.
    pub fn options(&self, endpoint: &str) -> StorageOptions {
        let text = |key: &str| self.told[key].as_str().unwrap().to_owned();
        let mut options = match self.kind {
            Kind::S3 => {
                vec![("access_key_id", text("access_key")), ("secret_access_key", text("secret_key")), ("region", text("region"))]
            }
            Kind::Azure => vec![("account_name", text("account")), ("account_key", text("key"))],
            Kind::Gcs => vec![("anonymous", "true".into())],
            Kind::Http => vec![],
        };
        if self.kind != Kind::Http {
            options.push(("endpoint", endpoint.to_owned()));
        }
        options.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
    }
    /// A new, empty store.
    pub fn store(&self) -> CloudStore {
        CloudStore::new(&fresh(self), &self.options(self.endpoint())).unwrap()
    }
    /// A proxy of the caller's own before this server.
    pub fn proxy(&self) -> Proxy {
        let told = ask(self.told["control"].as_str().unwrap(), "POST", "/__proxy", "");
        let text = |key: &str| told[key].as_str().unwrap().to_owned();
        Proxy { endpoint: text("proxy"), control: text("control") }
    }
}

pub struct Proxy {
    pub endpoint: String,
    control: String,
}

impl Proxy {
    /// Replaces the faults that it does and forgets what it saw.
    pub fn set(&self, faults: Value) {
        let faults = if faults.is_array() { faults } else { json!([faults]) };
        ask(&self.control, "POST", "/__faults", &json!({"faults": faults, "seed": 7}).to_string());
        ask(&self.control, "DELETE", "/__log", "");
    }
    /// To how many requests the faults were done.
    pub fn hits(&self) -> u64 {
        ask(&self.control, "GET", "/__faults", "").as_array().unwrap().iter().map(|rule| rule["hits"].as_u64().unwrap()).sum()
    }
    /// The requests it saw, as method and path.
    pub fn log(&self) -> Vec<Value> {
        ask(&self.control, "GET", "/__log", "")["requests"].as_array().unwrap().clone()
    }
    /// A store behind it that loses no time.
    pub fn store(&self, server: &Server, address: &str, more: &[(&str, &str)]) -> CloudStore {
        let mut options = server.options(&self.endpoint);
        options.insert("probe".into(), "false".into());
        options.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        CloudStore::new(&self.address(server, address), &options).unwrap()
    }
    /// An address of the server, as it is through the proxy.
    fn address(&self, server: &Server, address: &str) -> String {
        match server.kind {
            Kind::Http => address.replace(server.endpoint(), &self.endpoint),
            _ => address.to_owned(),
        }
    }
}

/// A request to a proxy's control, and the JSON that it answers.
fn ask(control: &str, method: &str, target: &str, body: &str) -> Value {
    let host = control.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .unwrap();
    let mut answer = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let start = head.len();
        assert!(answer.read_line(&mut head).unwrap() > 0, "the proxy hung up: {head}");
        if let Some(value) = head[start..].to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    answer.read_exact(&mut body).unwrap();
    let body = std::str::from_utf8(&body).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{body}");
    serde_json::from_str(body).unwrap_or(Value::Null)
}
