//! The client of one store in one process, and how a request is tried again.

use super::answer::Attempt;
use super::failure::{self, Failure, Purpose, Verdict};
use super::runtime::PerProcess;
use super::settings::{Service, Settings};
use super::transport::{Connector, Counters};
use super::upload::Signer;
use super::{azure, gcs, http, s3};
use crate::error::{Error, Result};
use crate::store::StorageOptions;
use crate::uri::RelPath;
use object_store::aws::AmazonS3;
use object_store::azure::MicrosoftAzure;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Where the signature of a changed request comes from.
#[derive(Clone)]
pub(super) enum Credentials {
    Unneeded,
    Aws { store: Arc<AmazonS3>, region: String },
    Azure { store: Arc<MicrosoftAzure>, account: String },
}

/// `object_store`'s client, with its connections and credentials.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) credentials: Credentials,
}

impl Client {
    pub(super) async fn signer(&self) -> object_store::Result<Signer> {
        Ok(match &self.credentials {
            Credentials::Unneeded => Signer::Unneeded,
            Credentials::Aws { store, region } => {
                Signer::Aws { credential: store.credentials().get_credential().await?, region: region.clone() }
            }
            Credentials::Azure { store, account } => {
                Signer::Azure { credential: store.credentials().get_credential().await?, account: account.clone() }
            }
        })
    }
}

/// What all the parts of a store share.
pub(super) struct Inner {
    pub(super) settings: Settings,
    pub(super) counters: Arc<Counters>,
    clients: PerProcess<RwLock<Client>>,
    /// Bytes that streams have fetched, or are fetching, and that nobody has read yet.
    pub(super) held: Arc<AtomicU64>,
    /// The bucket is known to be there, so that a missing object is one.
    pub(super) bucket_seen: AtomicBool,
}

impl Inner {
    pub(super) fn new(address: &str, options: &StorageOptions) -> Result<Self> {
        let mut settings = Settings::new(address, options)?;
        settings.use_endpoint(match settings.service {
            Service::S3 => s3::endpoint(&settings)?,
            Service::Gcs => gcs::endpoint(),
            Service::Azure => azure::endpoint(),
            Service::Http => None,
        })?;
        settings.wire.allow_http |= settings.service == Service::Azure && azure::emulated(&settings);
        let inner = Self {
            settings,
            counters: Arc::default(),
            clients: PerProcess::new(),
            held: Arc::default(),
            bucket_seen: AtomicBool::new(false),
        };
        inner.client()?;
        Ok(inner)
    }

    fn make(&self) -> Result<Client> {
        let connector = Connector { wire: self.settings.wire.clone(), counters: Arc::clone(&self.counters) };
        // Repeating is decided here, where it is known what may be repeated.
        let retry = RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, backoff: BackoffConfig::default() };
        let options = ClientOptions::new().with_allow_http(self.settings.wire.allow_http);
        let client = match self.settings.service {
            Service::S3 => s3::client(&self.settings, connector, retry, options),
            Service::Gcs => gcs::client(&self.settings, connector, retry, options),
            Service::Azure => azure::client(&self.settings, connector, retry, options),
            Service::Http => http::client(&self.settings, connector, retry, options),
        };
        client.map_err(|error| {
            let failure = Failure { error, seen: super::answer::Seen::default() };
            let e = failure.into_error(Purpose::Read, &self.settings.container);
            Error::invalid(format!("the settings do not make a store: {}", e.message()))
                .at(&self.settings.location)
                .remedy("correct the option, or the environment variable, that it is about")
        })
    }

    pub(super) fn client(&self) -> Result<Client> {
        let client = self.clients.get(|| self.make().map(RwLock::new))?;
        Ok(client.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Makes the client anew, so that credentials are asked for again, from the environment too.
    fn renew(&self) -> Result<()> {
        let client = self.clients.get(|| self.make().map(RwLock::new))?;
        let new = self.make()?;
        *client.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    pub(super) fn locate(&self, path: &RelPath) -> String {
        format!("{}/{path}", self.settings.location)
    }

    pub(super) fn key(&self, path: &RelPath) -> Result<Path> {
        self.settings.key(path).map_err(|e| e.at(self.locate(path)))
    }

    /// Sends one request.
    pub(super) async fn once<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> Result<T, Failure> {
        let attempt = Attempt::default();
        match attempt.scope(request).await {
            Ok(done) => {
                self.bucket_seen.store(true, Ordering::Relaxed);
                Ok(done)
            }
            Err(error) => Err(Failure { error, seen: attempt.seen() }),
        }
    }

    /// Sends a request again as long as that may help; only for what may be repeated without a look at what it did.
    pub(super) async fn repeated<T, F>(&self, purpose: Purpose, mut request: impl FnMut(Client) -> F) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut tries = Tries::new(self);
        loop {
            match self.once(request(self.client()?)).await {
                Ok(done) => return Ok(done),
                Err(failure) => tries.again(failure, purpose).await?,
            }
        }
    }
}

/// How often, and how long, a request has been tried.
pub(super) struct Tries<'a> {
    inner: &'a Inner,
    count: u32,
    start: Instant,
    renewed: bool,
    /// An earlier try may have taken effect.
    pub(super) doubtful: bool,
}

const LONGEST_PAUSE: Duration = Duration::from_secs(8);

impl<'a> Tries<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self { inner, count: 0, start: Instant::now(), renewed: false, doubtful: false }
    }

    /// Waits where the request is to be sent again; the error where it is not.
    pub(super) async fn again(&mut self, failure: Failure, purpose: Purpose) -> Result<()> {
        self.count += 1;
        self.doubtful |= failure.may_have_worked();
        let settings = &self.inner.settings;
        let asked = failure.seen.retry_after.unwrap_or_default();
        let spent = self.start.elapsed();
        let go_on = match failure.verdict() {
            Verdict::Final => false,
            Verdict::Renew => !self.renewed,
            Verdict::Again => self.count <= settings.retries && spent + asked < settings.retry_time,
        };
        if !go_on {
            return Err(failure::after(failure.into_error(purpose, &settings.container), self.count));
        }
        if failure.verdict() == Verdict::Renew {
            self.renewed = true;
            return self.inner.renew();
        }
        let pause = settings.retry_pause.saturating_mul(1 << self.count.min(13).saturating_sub(1)).min(LONGEST_PAUSE);
        // Half of it by chance, so that many who failed together do not come back together.
        tokio::time::sleep(asked.max(pause.mul_f64(0.5 + 0.5 * chance()))).await;
        Ok(())
    }

    /// A body that was being received broke off after so much of it: its beginning counts as success.
    pub(super) fn progressed(&mut self) {
        self.count = 0;
    }
}

/// A number from 0 to 1.
fn chance() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}
