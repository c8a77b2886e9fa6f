//! What a request was answered, kept beside the result that `object_store` makes of it.

use super::transport::Received;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Limited};
use object_store::client::{HttpError, HttpErrorKind};
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is known of the last request of an attempt.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) host: String,
    /// The request may have reached the service.
    pub(super) sent: bool,
    pub(super) status: Option<u16>,
    /// The service's word for an error, and its sentence.
    pub(super) code: String,
    pub(super) message: String,
    /// Where the bucket is, as the service tells who asks elsewhere.
    pub(super) region: Option<String>,
    pub(super) retry_after: Option<Duration>,
    /// How the wire failed.
    pub(super) wire: Option<String>,
    pub(super) timed_out: bool,
    /// How the answer is not one to the request.
    pub(super) lie: Option<String>,
    pub(super) ignored_range: bool,
}

tokio::task_local! {
    static CURRENT: Attempt;
}

/// One call of `object_store`, which sends one request, after others for credentials where they are not known.
#[derive(Debug, Clone, Default)]
pub(super) struct Attempt(Arc<Mutex<Seen>>);

impl Attempt {
    /// Does `work`, whose requests tell this attempt what they see.
    pub(super) async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }
    /// The one that is going on, or one that nobody asks.
    pub(super) fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }
    pub(super) fn seen(&self) -> Seen {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    pub(super) fn note(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn failed(&self, sent: bool, timed_out: bool, words: String) -> HttpError {
        self.note(|seen| (seen.sent, seen.timed_out, seen.wire) = (sent, timed_out, Some(words.clone())));
        HttpError::new(HttpErrorKind::Unknown, Words(words))
    }
    pub(super) fn lied(&self, words: String) -> HttpError {
        self.note(|seen| seen.lie = Some(words.clone()));
        HttpError::new(HttpErrorKind::Decode, Words(words))
    }

    pub(super) fn answered(&self, status: StatusCode, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        self.note(|seen| {
            seen.status = Some(status.as_u16());
            seen.region = text("x-amz-bucket-region");
            seen.code = text("x-ms-error-code").unwrap_or_default();
            // Only seconds are taken, not dates.
            seen.retry_after = text("retry-after").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
        });
    }
    pub(super) fn refused(&self, body: &str) {
        self.note(|seen| {
            if let Some(code) = tag(body, "Code") {
                seen.code = code;
            }
            seen.message = tag(body, "Message").unwrap_or_default();
            seen.region = seen.region.take().or_else(|| tag(body, "Region"));
        });
    }
}

#[derive(Debug)]
struct Words(String);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Words {}

/// The text of an XML element without others inside, on one line and not too long.
fn tag(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain =
        text.replace("&quot;", "\"").replace("&apos;", "'").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let line: String = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(line.chars().take(300).collect()).filter(|line: &String| !line.is_empty())
}

/// The text of an error's answer, or nothing where it is too long or does not come.
pub(super) async fn error_body(body: Received) -> String {
    const LONGEST: usize = 64 << 10;
    let bytes: Bytes = match Limited::new(body, LONGEST).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(_) => Bytes::new(),
    };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The bytes that a `Range` header asks for, where it is of the form that is sent here.
pub(super) fn asked(header: &str) -> Option<Range<u64>> {
    let (start, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    Some(start.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?)
}

/// Why a partial answer is not the one to a range, by its own headers: `None` where it is. Shorter is right only at the object's end.
pub(super) fn other_range(asked: &Range<u64>, told: Option<&str>, length: Option<u64>) -> Option<String> {
    let parsed = told.and_then(|told| {
        let (range, size) = told.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (start, last) = range.split_once('-')?;
        Some((start.parse::<u64>().ok()?, last.parse::<u64>().ok()?.checked_add(1)?, size.parse::<u64>().ok()?))
    });
    let Some((start, end, size)) = parsed else {
        return Some(format!("a part of the object came that does not say which: {:?}", told.unwrap_or("")));
    };
    if start != asked.start || end != asked.end.min(size) || end < start {
        return Some(format!("the bytes {start}..{end} of {size} came where {}..{} were asked for", asked.start, asked.end));
    }
    match length {
        Some(length) if length != end - start => Some(format!("{length} bytes came where {} were asked for", end - start)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_the_one_asked_for_or_the_words_say_which_it_is() {
        assert_eq!(asked("bytes=3-9"), Some(3..10));
        assert_eq!(asked("bytes=3-"), None);
        let told = |told, length| other_range(&(3..10), Some(told), length);
        assert_eq!(told("bytes 3-9/20", Some(7)), None);
        assert_eq!(told("bytes 3-9/20", None), None);
        assert_eq!(told("bytes 3-7/8", Some(5)), None); // the object ends there
        for (header, length, words) in [
            ("bytes 3-8/20", 6, "3..9 of 20"),
            ("bytes 4-10/20", 7, "4..11 of 20"),
            ("bytes 3-9/20", 6, "6 bytes came where 7"),
            ("bytes 3-9/*", 7, "does not say which"),
            ("3-9/20", 7, "does not say which"),
        ] {
            let why = told(header, Some(length)).unwrap();
            assert!(why.contains(words), "{why}");
        }
        assert!(other_range(&(3..10), None, Some(7)).is_some());
    }

    #[test]
    fn an_error_is_read_from_its_xml() {
        let attempt = Attempt::default();
        attempt.refused("<Error><Code>NoSuchBucket</Code><Message>a &lt;b&gt;\n c</Message><Region>eu-west-1</Region></Error>");
        let seen = attempt.seen();
        assert_eq!((seen.code.as_str(), seen.message.as_str()), ("NoSuchBucket", "a <b> c"));
        assert_eq!(seen.region.as_deref(), Some("eu-west-1"));
        attempt.refused("no XML at all");
        assert_eq!(attempt.seen().code, "NoSuchBucket");
    }
}
