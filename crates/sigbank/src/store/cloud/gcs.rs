//! Google Cloud Storage.

use super::client::{Client, Credentials};
use super::settings::Settings;
use super::transport::Connector;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientOptions, Result, RetryConfig, StaticCredentialProvider};
use std::sync::Arc;

/// The endpoint that the environment names: ours is the variable of Google's own emulators and clients.
pub(super) fn endpoint() -> Option<String> {
    let ours = GoogleCloudStorageBuilder::from_env().get_config_value(&GoogleConfigKey::BaseUrl);
    ours.or_else(|| std::env::var("STORAGE_EMULATOR_HOST").ok())
        .map(|host| if host.contains("://") { host } else { format!("http://{host}") })
}

pub(super) fn client(settings: &Settings, connector: Connector, retry: RetryConfig, client: ClientOptions) -> Result<Client> {
    let mut builder = GoogleCloudStorageBuilder::from_env();
    for (key, value) in &settings.options {
        builder = builder.with_config(key.parse()?, value);
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    if settings.anonymous {
        // The second is for requests that write, which look for credentials even so.
        let none = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
        builder = builder.with_skip_signature(true).with_credentials(Arc::new(none));
    }
    let store = builder
        .with_bucket_name(&settings.container)
        .with_retry(retry)
        .with_client_options(client)
        .with_http_connector(connector)
        .build()?;
    Ok(Client { credentials: Credentials::Unneeded, store: Arc::new(store) })
}
