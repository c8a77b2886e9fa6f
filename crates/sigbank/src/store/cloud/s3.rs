//! S3, and what speaks its language.

use super::client::{Client, Credentials};
use super::profile::Profile;
use super::settings::Settings;
use super::transport::Connector;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientOptions, Result, RetryConfig};
use std::sync::Arc;

/// What says where credentials come from, so that those of a profile do not.
const CREDENTIALS: [AmazonS3ConfigKey; 3] =
    [AmazonS3ConfigKey::AccessKeyId, AmazonS3ConfigKey::SecretAccessKey, AmazonS3ConfigKey::Token];
const SOURCES: [AmazonS3ConfigKey; 4] = [
    AmazonS3ConfigKey::AccessKeyId,
    AmazonS3ConfigKey::WebIdentityTokenFile,
    AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
    AmazonS3ConfigKey::ContainerCredentialsFullUri,
];

/// What the environment says, and what the profile's files say where it does not. They are read anew each time a client is made, so that
/// keys that were renewed are taken up.
fn environment(settings: &Settings) -> crate::error::Result<AmazonS3Builder> {
    let environment = AmazonS3Builder::from_env();
    let said = |key: &AmazonS3ConfigKey| environment.get_config_value(key).is_some_and(|value| !value.is_empty());
    // A profile that an option names comes before the environment.
    let first = settings.profile.is_some();
    let given = |key: &AmazonS3ConfigKey| {
        settings.options.iter().any(|(name, _)| name.parse().is_ok_and(|name: AmazonS3ConfigKey| name == *key))
    };
    let needed = !settings.anonymous && !SOURCES.iter().any(|key| given(key) || (!first && said(key)));
    let profile = Profile::find(settings.profile.as_deref(), needed, &|name| std::env::var(name).ok())?;
    let mut builder = AmazonS3Builder::new();
    for (name, value) in std::env::vars() {
        // As `from_env` takes them.
        let key = name.strip_prefix("AWS_").and_then(|_| name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>().ok());
        if let Some(key) = key.filter(|key| profile.keys.is_none() || !CREDENTIALS.contains(key)) {
            builder = builder.with_config(key, value);
        }
    }
    if let Some(keys) = profile.keys {
        builder = builder.with_access_key_id(keys.id).with_secret_access_key(keys.secret);
        if let Some(token) = keys.token {
            builder = builder.with_token(token);
        }
    }
    let region = [AmazonS3ConfigKey::Region, AmazonS3ConfigKey::DefaultRegion];
    if let Some(value) = profile.region.filter(|_| first || !region.iter().any(said)) {
        builder = builder.with_config(AmazonS3ConfigKey::Region, value);
    }
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    if let Some(value) = profile.endpoint.filter(|_| first || !endpoint.iter().any(said)) {
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, value);
    }
    Ok(builder)
}

fn builder(settings: &Settings) -> Result<AmazonS3Builder> {
    let failed = |e: crate::error::Error| object_store::Error::Generic { store: "S3", source: Box::new(e) };
    let mut builder = environment(settings).map_err(failed)?;
    for (key, value) in &settings.options {
        builder = builder.with_config(key.parse()?, value);
    }
    Ok(builder)
}

/// The endpoint that the environment, or the profile, names. Refuses what no request could carry of what they say.
pub(super) fn endpoint(settings: &Settings) -> crate::error::Result<Option<String>> {
    use AmazonS3ConfigKey::{AccessKeyId, DefaultRegion, Region, SecretAccessKey, Token};
    let builder = environment(settings)?;
    for (key, name) in [
        (AccessKeyId, "AWS_ACCESS_KEY_ID"),
        (SecretAccessKey, "AWS_SECRET_ACCESS_KEY"),
        (Token, "AWS_SESSION_TOKEN"),
        (Region, "AWS_REGION"),
        (DefaultRegion, "AWS_DEFAULT_REGION"),
    ] {
        if let Some(value) = builder.get_config_value(&key) {
            super::settings::clean(&format!("the environment variable {name}, or what the profile says of it,"), &value)?;
        }
    }
    let own = builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint).filter(|endpoint| !endpoint.is_empty());
    Ok(own.or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint)))
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
