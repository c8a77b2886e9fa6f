//! The body of a request out of a file: `object_store` takes bodies in memory only, so it signs an empty one, and what it signed is
//! replaced and signed again on the way out.

use super::runtime;
use crate::error::Error;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue};
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::azure::{AzureAuthorizer, AzureCredential};
use object_store::client::{HttpRequest, HttpRequestBody};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// How a changed request is signed.
#[derive(Clone)]
pub(super) enum Signer {
    /// Its signature is not of its body, or it has none.
    Unneeded,
    Aws {
        credential: Arc<AwsCredential>,
        region: String,
    },
    Azure {
        credential: Arc<AzureCredential>,
        account: String,
    },
}

/// Goes with a request whose body is this file.
#[derive(Clone)]
pub(super) struct Upload {
    pub(super) file: Arc<File>,
    pub(super) len: u64,
    pub(super) sha256: [u8; 32],
    pub(super) signer: Signer,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({} bytes)", self.len)
    }
}

impl Upload {
    /// The head of the request as it is for this body.
    pub(super) fn sign(&self, mut parts: Parts) -> Result<Parts, object_store::Error> {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(self.len));
        let old = parts.headers.get(AUTHORIZATION).cloned();
        let bearer = old.as_ref().is_some_and(|value| value.as_bytes().starts_with(b"Bearer"));
        let mut request = HttpRequest::from_parts(parts, HttpRequestBody::empty());
        match &self.signer {
            Signer::Aws { credential, region } if old.is_some() => {
                if request.headers().contains_key("x-amz-s3session-token") {
                    let unsupported = Error::unsupported("directory buckets (S3 Express) are not written from files");
                    return Err(object_store::Error::NotSupported { source: Box::new(unsupported) });
                }
                request.headers_mut().remove(AUTHORIZATION);
                // Signed headers must stand as they are sent: a checksum of the empty body would be refused.
                request.headers_mut().remove("x-amz-checksum-sha256");
                request.headers_mut().remove("x-amz-checksum-crc64nvme");
                AwsAuthorizer::new(credential, "s3", region).try_authorize(&mut request, Some(&self.sha256))?;
            }
            Signer::Azure { credential, account } if old.is_some() && !bearer => {
                request.headers_mut().remove(AUTHORIZATION);
                AzureAuthorizer::new(credential, account).try_authorize(&mut request)?;
            }
            _ => {}
        }
        Ok(request.into_parts().0)
    }

    pub(super) fn body(&self) -> FileBody {
        FileBody { file: Arc::clone(&self.file), at: 0, len: self.len, reading: None }
    }
}

/// The bytes of a file in pieces, of which one is in memory.
#[derive(Debug)]
pub(super) struct FileBody {
    file: Arc<File>,
    at: u64,
    len: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

const PIECE: u64 = 512 << 10;

impl Body for FileBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.at == self.len {
            return Poll::Ready(None);
        }
        let (file, at, n) = (Arc::clone(&self.file), self.at, PIECE.min(self.len - self.at));
        let reading = self.reading.get_or_insert_with(|| {
            tokio::task::spawn_blocking(move || {
                let mut piece = vec![0; n as usize]; // at most PIECE
                file.read_exact_at(&mut piece, at)?;
                Ok(piece.into())
            })
        });
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        Poll::Ready(Some(match read {
            Ok(Ok(bytes)) => {
                self.at += bytes.len() as u64;
                Ok(Frame::data(bytes))
            }
            Ok(Err(e)) => Err(e.into()),
            Err(_) => Err(runtime::ended().into()),
        }))
    }
    fn is_end_stream(&self) -> bool {
        self.at == self.len
    }
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len - self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
        let mut block = key.to_vec();
        block.resize(64, 0);
        let padded = |pad: u8| block.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
        let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
        Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The test servers look at no signature of S3, so it is made here again, by the letter of its definition.
    #[test]
    fn the_signature_is_of_the_file() {
        let credential = AwsCredential { key_id: "id".into(), secret_key: "secret".into(), token: Some("session".into()) };
        let sha256: [u8; 32] = Sha256::digest(b"the file").into();
        let file = Arc::new(tempfile::tempfile().unwrap());
        let signer = Signer::Aws { credential: Arc::new(credential), region: "eu-west-1".into() };
        let request =
            http::Request::put("http://host:9000/bucket/a%20b").header("if-none-match", "*").header("x-amz-meta-m", "1");
        let request =
            request.header(CONTENT_LENGTH, "0").header(AUTHORIZATION, "of an empty body").header("x-amz-checksum-sha256", "x");
        let upload = Upload { file, len: 8, sha256, signer };
        let parts = upload.sign(request.body(()).unwrap().into_parts().0).unwrap();

        let header = |name: &str| parts.headers.get(name).unwrap().to_str().unwrap();
        assert_eq!((header("content-length"), header("x-amz-content-sha256")), ("8", hex(&sha256).as_str()));
        let (date, authorization) = (header("x-amz-date"), header("authorization"));
        let part = |name: &str| authorization.split_once(&format!("{name}=")).unwrap().1.split(',').next().unwrap();
        let (signed, scope) = (part("SignedHeaders"), part("Credential").strip_prefix("id/").unwrap());
        assert_eq!(scope, format!("{}/eu-west-1/s3/aws4_request", &date[..8]));
        assert_eq!(signed, "host;if-none-match;x-amz-content-sha256;x-amz-date;x-amz-meta-m;x-amz-security-token");
        let value = |name: &str| if name == "host" { "host:9000" } else { header(name) }.to_owned();
        let headers: String = signed.split(';').map(|name| format!("{name}:{}\n", value(name))).collect();
        let canonical = format!("PUT\n/bucket/a%20b\n\n{headers}\n{signed}\n{}", hex(&sha256));
        let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let key = scope.split('/').fold(b"AWS4secret".to_vec(), |key, part| hmac(&key, part.as_bytes()));
        assert_eq!(part("Signature"), hex(&hmac(&key, text.as_bytes())));
    }
}
