//! What a failed request means: whether it may be sent again, and the error that a caller gets.

use super::answer::Seen;
use super::transport::chain;
use crate::error::{Code, Error};
use crate::store::{changed, missing, taken};
use object_store::Error as ObjectError;

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    List,
    /// Making an object where there is none.
    Create,
    /// Replacing one.
    Replace,
    Delete,
}

impl Purpose {
    fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::List)
    }
    fn conditional(self) -> bool {
        matches!(self, Self::Create | Self::Replace)
    }
}

/// A request that failed, and what was seen of it.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: ObjectError,
    pub(super) seen: Seen,
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send it again after a pause.
    Again,
    /// Ask for credentials anew, and send it again.
    Renew,
    /// It is final.
    Final,
}

const EXPIRED: [&str; 4] = ["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"];
const METADATA_HOSTS: [&str; 4] = ["169.254.169.254", "169.254.170.2", "169.254.170.23", "metadata.google.internal"];

impl Failure {
    fn expired(&self) -> bool {
        let seen = &self.seen;
        EXPIRED.contains(&seen.code.as_str())
            || seen.status == Some(401)
            || (seen.code == "AuthenticationFailed" && seen.message.contains("expire"))
    }

    /// Neither the caller's environment nor a metadata service of the machine knows credentials.
    fn no_credentials(&self) -> bool {
        METADATA_HOSTS.contains(&self.seen.host.as_str())
    }

    pub(super) fn verdict(&self) -> Verdict {
        let seen = &self.seen;
        if self.expired() {
            return Verdict::Renew;
        }
        if self.no_credentials() || seen.lie.is_some() {
            return Verdict::Final;
        }
        if seen.wire.is_some() {
            return Verdict::Again;
        }
        match (seen.status, seen.code.as_str()) {
            (Some(408 | 429 | 500 | 502 | 503 | 504), _) => Verdict::Again,
            (Some(400), "RequestTimeout") => Verdict::Again,
            // The service could not decide a race: that is no answer to whether the name is taken.
            (Some(409), "ConditionalRequestConflict" | "OperationAborted") => Verdict::Again,
            _ => Verdict::Final,
        }
    }

    /// Whether the request may have taken effect although it failed.
    pub(super) fn may_have_worked(&self) -> bool {
        self.seen.sent && (self.seen.wire.is_some() || self.seen.status.is_some_and(|status| status >= 500))
    }

    /// Whether the condition of a write is what failed it.
    pub(super) fn is_condition(&self) -> bool {
        matches!(
            self.error,
            ObjectError::AlreadyExists { .. } | ObjectError::Precondition { .. } | ObjectError::NotModified { .. }
        ) && self.verdict() == Verdict::Final
    }

    /// Whether there is no such object, or no such bucket.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.error, ObjectError::NotFound { .. }) || self.seen.status == Some(404)
    }

    pub(super) fn no_bucket(&self) -> bool {
        matches!(self.seen.code.as_str(), "NoSuchBucket" | "ContainerNotFound")
    }

    fn elsewhere(&self) -> bool {
        matches!(self.seen.status, Some(301 | 302 | 307 | 308))
            || matches!(
                self.seen.code.as_str(),
                "AuthorizationHeaderMalformed" | "PermanentRedirect" | "IllegalLocationConstraintException"
            )
    }

    /// The error of this failure, without the place. `container` is the bucket's name.
    pub(super) fn into_error(self, purpose: Purpose, container: &str) -> Error {
        let told = self.told();
        let seen = &self.seen;
        if let Some(lie) = &seen.lie {
            return match seen.ignored_range {
                true => Error::storage(format!(
                    "the server ignored the range of the request, and so does not serve parts of objects: {lie}"
                ))
                .remedy("use a server, or a proxy, that honours the Range header; this one's answer was not taken for data"),
                false => Error::storage(format!("the answer is not one to the request: {lie}"))
                    .remedy("a proxy or a cache on the way, or the server, is broken; nothing of it was taken for data"),
            };
        }
        if self.no_credentials() {
            return Error::storage(format!("no credentials were found, and this machine's metadata service gives none: {told}"))
                .remedy("set the service's environment variables or storage options (for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE), or anonymous=true for public data");
        }
        if let Some(wire) = &seen.wire {
            let remedy = match seen.timed_out {
                true => {
                    "look at the network and the endpoint, or allow more by the options timeout and connect_timeout (in seconds)"
                }
                false => "look at the network and the endpoint, and try again",
            };
            return Error::storage(format!("the request to {} failed: {wire}", seen.host)).remedy(remedy);
        }
        if self.elsewhere() {
            let region = seen.region.as_deref().map(|region| format!(" it is in the region {region:?}"));
            return Error::invalid(format!(
                "the bucket {container:?} is not where it was looked for;{}",
                region.clone().unwrap_or_else(|| format!(" {told}"))
            ))
            .remedy(match &seen.region {
                Some(region) => format!("set the option region, or AWS_REGION, to {region}"),
                None => "set the options region and endpoint to the bucket's".to_owned(),
            });
        }
        if self.expired() {
            let words = match seen.status {
                Some(401) => "the credentials are not accepted, or have expired",
                _ => "the credentials have expired",
            };
            return Error::storage(format!("{words}: {told}"))
                .remedy("get new ones, and set them where the old ones were; what was written so far is kept");
        }
        if self.no_bucket() {
            return Error::not_found(format!("the bucket {container:?} does not exist"))
                .remedy("correct its name, the endpoint or the account, or make it with the service's own tools");
        }
        if self.is_missing() && purpose == Purpose::Read {
            return missing();
        }
        if self.is_condition() {
            return match purpose {
                Purpose::Create => taken(),
                Purpose::Replace => changed(),
                _ => Error::conflict("the object was replaced while it was read").remedy("open it again"),
            };
        }
        match (seen.status, seen.code.as_str()) {
            (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidAuthenticationInfo" | "AuthorizationFailure") => {
                Error::invalid(format!("the credentials are not accepted: {told}")).remedy("correct the key, its secret and the account")
            }
            (Some(403), _) if purpose.writes() => Error::read_only(format!("writing is not permitted: {told}"))
                .remedy("ask for permission to write there, or look whether the credentials are the right ones"),
            (Some(403), _) => Error::storage(format!("reading is not permitted: {told}")).remedy(
                "ask for permission to read (and to list: without it S3 says this of a missing object too), or give other credentials",
            ),
            (Some(416), _) => Error::corrupt("the bytes asked for lie behind the object's end")
                .remedy("it was cut short, or what names this range is of another version: verify the dataset"),
            (Some(409), _) if purpose.conditional() => Error::conflict(format!("the service could not decide between writers: {told}")).remedy("try again"),
            (Some(413), _) | (_, "EntityTooLarge" | "RequestBodyTooLarge") => {
                Error::limit(format!("the service does not take an object of this size in one request: {told}")).remedy("make smaller shards")
            }
            (Some(400), "KeyTooLongError" | "InvalidUri" | "InvalidObjectName" | "InvalidResourceName") => {
                Error::invalid(format!("the service does not allow such a name: {told}"))
                    .remedy("choose a shorter one, of letters, digits, '-', '_' and '.'")
            }
            (Some(404), _) => Error::not_found(told),
            _ => match self.error {
                ObjectError::NotSupported { .. } | ObjectError::NotImplemented { .. } => {
                    Error::unsupported(told).remedy("this service cannot do that: use another one, or copy the dataset: sigbank cp")
                }
                ObjectError::InvalidPath { .. } => Error::invalid(told).remedy("correct the address, or the name"),
                _ => Error::storage(told).remedy(match seen.status {
                    Some(408 | 429 | 500..) => "the service is overloaded or out of order: try again later, or allow more tries by the option retries",
                    _ => "look whether the address, the endpoint, the region and the credentials are those of this service",
                }),
            },
        }
    }

    /// What the service, or `object_store`, says. Addresses with signatures are not in it.
    fn told(&self) -> String {
        let seen = &self.seen;
        match seen.status {
            Some(status) if !(200..300).contains(&status) => {
                let words = [seen.code.as_str(), seen.message.as_str()].into_iter().filter(|text| !text.is_empty());
                let words = words.collect::<Vec<_>>().join(", ");
                let separator = if words.is_empty() { "" } else { ": " };
                format!("{} answered {status}{separator}{words}", seen.host)
            }
            _ => redacted(&chain(&self.error)),
        }
    }
}

/// Without what stands behind the `?` of an address.
fn redacted(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.split_once('?') {
        Some((address, _)) if address.contains("://") => format!("{address}?…"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The error after which a repetition was given up, with how often it was tried.
pub(super) fn after(error: Error, tries: u32) -> Error {
    match (tries, error.code()) {
        (0 | 1, _) | (_, Code::NotFound | Code::AlreadyExists | Code::Conflict) => error,
        _ => error.within(format!("after {tries} tries")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, code: &str) -> Failure {
        let seen = Seen { status: Some(status), code: code.into(), host: "host".into(), sent: true, ..Seen::default() };
        Failure { error: ObjectError::Generic { store: "S3", source: "x".into() }, seen }
    }

    #[test]
    fn what_may_be_sent_again() {
        for (status, code, verdict) in [
            (503, "SlowDown", Verdict::Again),
            (500, "InternalError", Verdict::Again),
            (429, "", Verdict::Again),
            (409, "ConditionalRequestConflict", Verdict::Again),
            (409, "BlobAlreadyExists", Verdict::Final),
            (400, "ExpiredToken", Verdict::Renew),
            (401, "", Verdict::Renew),
            (403, "AccessDenied", Verdict::Final),
            (404, "NoSuchKey", Verdict::Final),
            (412, "PreconditionFailed", Verdict::Final),
        ] {
            assert_eq!(failure(status, code).verdict(), verdict, "{status} {code}");
        }
    }

    #[test]
    fn each_refusal_has_its_code_and_its_words() {
        for (status, code, purpose, expected, words) in [
            (404, "NoSuchBucket", Purpose::Read, Code::NotFound, "bucket \"b\" does not exist"),
            (503, "SlowDown", Purpose::Read, Code::Storage, "try again later"),
            (400, "Strange", Purpose::Read, Code::Storage, "look whether the address"),
            (400, "KeyTooLongError", Purpose::Create, Code::Invalid, "shorter"),
            (404, "NoSuchKey", Purpose::Read, Code::NotFound, "no such object"),
            (403, "AccessDenied", Purpose::Create, Code::ReadOnly, "writing is not permitted"),
            (403, "AccessDenied", Purpose::Read, Code::Storage, "reading is not permitted"),
            (403, "InvalidAccessKeyId", Purpose::Create, Code::Invalid, "not accepted"),
            (400, "ExpiredToken", Purpose::Read, Code::Storage, "expired"),
            (301, "PermanentRedirect", Purpose::Read, Code::Invalid, "not where it was looked for"),
            (416, "InvalidRange", Purpose::Read, Code::Corrupt, "behind the object's end"),
            (413, "", Purpose::Create, Code::Limit, "size"),
        ] {
            let e = failure(status, code).into_error(purpose, "b");
            assert_eq!(e.code(), expected, "{e}");
            assert!(e.to_string().contains(words), "{e}");
        }
    }

    #[test]
    fn signatures_are_not_told() {
        assert_eq!(redacted("GET https://h/a?sig=x in 1ms"), "GET https://h/a?… in 1ms");
        assert_eq!(redacted("why? because"), "why? because");
    }
}
