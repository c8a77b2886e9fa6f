//! Azure Blob Storage.

use super::client::{Client, Credentials};
use super::settings::Settings;
use super::transport::Connector;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::{ClientOptions, Result, RetryConfig};
use std::sync::Arc;

/// The endpoint that the environment names.
pub(super) fn endpoint() -> Option<String> {
    MicrosoftAzureBuilder::from_env().get_config_value(&AzureConfigKey::Endpoint)
}

/// Whether the options or the environment ask for the emulator on this host, which speaks HTTP.
pub(super) fn emulated(settings: &Settings) -> bool {
    let given = settings.given(&["use_emulator", "azure_storage_use_emulator"]).map(str::to_owned);
    let value = given.or_else(|| MicrosoftAzureBuilder::from_env().get_config_value(&AzureConfigKey::UseEmulator));
    value.is_some_and(|value| matches!(value.trim().to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on"))
}

pub(super) fn client(settings: &Settings, connector: Connector, retry: RetryConfig, client: ClientOptions) -> Result<Client> {
    let mut builder = MicrosoftAzureBuilder::from_env();
    for (key, value) in &settings.options {
        builder = builder.with_config(key.parse()?, value);
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    if let Some(account) = &settings.account {
        builder = builder.with_account(account);
    }
    if settings.anonymous {
        builder = builder.with_skip_signature(true);
    }
    let emulated = emulated(settings);
    let account = builder.get_config_value(&AzureConfigKey::AccountName);
    let account = account.or_else(|| emulated.then(|| "devstoreaccount1".to_owned())).unwrap_or_default();
    let store = builder
        .with_container_name(&settings.container)
        .with_disable_tagging(true)
        .with_retry(retry)
        .with_client_options(client)
        .with_http_connector(connector)
        .build()?;
    let store = Arc::new(store);
    Ok(Client { credentials: Credentials::Azure { store: Arc::clone(&store), account }, store })
}
