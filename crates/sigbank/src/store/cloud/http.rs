//! A folder that a web server serves: for reading only, and without listings, since HTTP has none.

use super::client::{Client, Credentials};
use super::settings::Settings;
use super::transport::Connector;
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, Result, RetryConfig};
use std::sync::Arc;

pub(super) fn client(settings: &Settings, connector: Connector, retry: RetryConfig, client: ClientOptions) -> Result<Client> {
    let store = HttpBuilder::new()
        .with_url(&settings.container)
        .with_retry(retry)
        .with_client_options(client)
        .with_http_connector(connector)
        .build()?;
    Ok(Client { credentials: Credentials::Unneeded, store: Arc::new(store) })
}
