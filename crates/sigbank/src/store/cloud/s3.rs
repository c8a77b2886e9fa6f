//! S3, and what speaks its language.

use super::client::{Client, Credentials};
use super::settings::Settings;
use super::transport::Connector;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientOptions, Result, RetryConfig};
use std::sync::Arc;

fn builder(settings: &Settings) -> Result<AmazonS3Builder> {
    let mut builder = AmazonS3Builder::from_env();
    for (key, value) in &settings.options {
        builder = builder.with_config(key.parse()?, value);
    }
    Ok(builder)
}

/// The endpoint that the environment names.
pub(super) fn endpoint() -> Option<String> {
    let builder = AmazonS3Builder::from_env();
    builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint).or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint))
}

/// Refuses what no request could carry of what the environment says.
pub(super) fn check_environment() -> crate::error::Result<()> {
    use AmazonS3ConfigKey::{AccessKeyId, DefaultRegion, Region, SecretAccessKey, Token};
    let builder = AmazonS3Builder::from_env();
    for (key, name) in [
        (AccessKeyId, "AWS_ACCESS_KEY_ID"),
        (SecretAccessKey, "AWS_SECRET_ACCESS_KEY"),
        (Token, "AWS_SESSION_TOKEN"),
        (Region, "AWS_REGION"),
        (DefaultRegion, "AWS_DEFAULT_REGION"),
    ] {
        if let Some(value) = builder.get_config_value(&key) {
            super::settings::clean(&format!("the environment variable {name}"), &value)?;
        }
    }
    Ok(())
}

pub(super) fn client(settings: &Settings, connector: Connector, retry: RetryConfig, client: ClientOptions) -> Result<Client> {
    let mut builder = builder(settings)?;
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint).with_endpoint(endpoint);
    }
    if settings.anonymous {
        builder = builder.with_skip_signature(true);
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let region =
        region.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::DefaultRegion)).unwrap_or_else(|| "us-east-1".into());
    let store = builder
        .with_bucket_name(&settings.container)
        .with_region(&region)
        // One request an object: the other form is not known to every service, and says less of what went wrong.
        .with_disable_bulk_delete(true)
        .with_disable_tagging(true)
        .with_retry(retry)
        .with_client_options(client)
        .with_http_connector(connector)
        .build()?;
    let store = Arc::new(store);
    Ok(Client { credentials: Credentials::Aws { store: Arc::clone(&store), region }, store })
}
