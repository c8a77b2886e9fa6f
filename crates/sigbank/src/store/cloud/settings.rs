//! From an address and options to what a store is made with.

use super::transport::Wire;
use crate::error::{Error, Result};
use crate::store::StorageOptions;
use crate::store::cache::parse_size;
use crate::uri::RelPath;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    S3,
    Gcs,
    Azure,
    Http,
}

/// What a store is made with, in each process anew.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) service: Service,
    /// The address as people know it, without a slash at its end.
    pub(super) location: String,
    /// The bucket's or the container's name; of HTTP the whole address.
    pub(super) container: String,
    /// What stands before each name, without slashes at its ends; empty at the root of a bucket, and for HTTP.
    pub(super) prefix: String,
    /// For Azure, the account that the address names.
    pub(super) account: Option<String>,
    /// The service's own options, in its own words.
    pub(super) options: Vec<(String, String)>,
    pub(super) endpoint: Option<String>,
    pub(super) anonymous: bool,
    pub(super) wire: Wire,
    pub(super) retries: u32,
    /// After so long no request is sent again.
    pub(super) retry_time: Duration,
    /// The pause before a request is sent again for the first time; each further one is twice as long.
    pub(super) retry_pause: Duration,
    /// So many bytes do streams fetch ahead, all of the store together; each one at least a piece.
    pub(super) read_ahead: u64,
    /// The profile of credentials that an option names.
    pub(super) profile: Option<String>,
    pub(super) probe: bool,
}

impl Settings {
    pub(super) fn new(address: &str, options: &StorageOptions) -> Result<Self> {
        Self::parse(address, options).map_err(|e| e.at(without_secrets(address)))
    }

    fn parse(address: &str, options: &StorageOptions) -> Result<Self> {
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let service = match scheme {
            "s3" | "s3a" => Service::S3,
            "gs" | "gcs" => Service::Gcs,
            "az" | "azure" | "abfs" | "abfss" => Service::Azure,
            "http" | "https" => Service::Http,
            _ => {
                return Err(Error::unsupported(format!("addresses that begin with {scheme}:// are not known"))
                    .remedy("known are s3://, gs://, az://, http://, https:// and folders"));
            }
        };
        let rest = rest.trim_end_matches('/');
        let (container, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if !prefix.is_empty() && service != Service::Http {
            RelPath::parse(prefix)
                .map_err(|e| Error::invalid(format!("in the address, {}", e.message())).remedy("write the path as a/b/c"))?;
            object_store::path::Path::parse(prefix)
                .map_err(|_| Error::invalid("the address has a control character").remedy("write the path as a/b/c"))?;
        }
        let mut settings = Self {
            service,
            location: format!("{scheme}://{rest}"),
            container: container.to_owned(),
            prefix: prefix.to_owned(),
            account: None,
            options: Vec::new(),
            endpoint: None,
            anonymous: false,
            wire: Wire {
                connect_timeout: Duration::from_secs(5),
                quiet: Duration::from_secs(30),
                allow_http: false,
                allow_invalid_certificates: false,
                proxy: None,
                user_agent: None,
                follow: service == Service::Http,
            },
            retries: 8,
            retry_time: Duration::from_secs(120),
            retry_pause: Duration::from_millis(100),
            read_ahead: 256 << 20,
            profile: None,
            probe: true,
        };
        match service {
            Service::Http => settings.http(scheme, rest)?,
            _ => settings.container()?,
        }
        for (key, value) in options {
            clean(&format!("the option {key}"), value)?;
            settings.option(key, value)?;
        }
        Ok(settings)
    }

    fn http(&mut self, scheme: &str, rest: &str) -> Result<()> {
        if rest.contains(['?', '#']) {
            return Err(
                Error::invalid("an address of a folder has no ? or #").remedy("write such characters of a name as %3F and %23")
            );
        }
        if self.container.contains('@') {
            return Err(Error::invalid("an address with a user or a password is not taken, since addresses are shown")
                .remedy("leave them out of it: set the service's environment variables, or storage options"));
        }
        if self.container.is_empty() {
            return Err(Error::invalid("the address has no host").remedy("write it as https://host/path"));
        }
        self.container.clone_from(&self.location);
        self.prefix = String::new();
        self.wire.allow_http = scheme == "http";
        Ok(())
    }

    fn container(&mut self) -> Result<()> {
        if let Some((container, host)) = self.container.clone().split_once('@').filter(|_| self.service == Service::Azure) {
            let account = host.split('.').next().unwrap_or("");
            self.account = Some(account.to_owned());
            self.container = container.to_owned();
        }
        let (name, what) = (&self.container, if self.service == Service::Azure { "container" } else { "bucket" });
        if name.is_empty() {
            return Err(Error::invalid(format!("the address names no {what}"))
                .remedy(format!("write it as {}{what}/path", self.location)));
        }
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.$".contains(c)) {
            return Err(Error::invalid(format!("{name:?} is not the name of a {what}"))
                .remedy("give a host and a port by the option endpoint"));
        }
        Ok(())
    }

    fn option(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "retries" => self.retries = value.trim().parse().map_err(|_| not(key, value, "a number"))?,
            "retry_timeout" => self.retry_time = seconds(key, value)?,
            "retry_pause" => self.retry_pause = seconds(key, value)?,
            "read_ahead" => {
                self.read_ahead = parse_size(value).map_err(|_| not(key, value, "a size such as 256MB"))?;
            }
            "profile" | "aws_profile" if self.service == Service::S3 => self.profile = Some(value.to_owned()),
            "timeout" => self.wire.quiet = seconds(key, value)?,
            "connect_timeout" => self.wire.connect_timeout = seconds(key, value)?,
            "probe" => self.probe = truth(key, value)?,
            "allow_http" | "aws_allow_http" | "azure_allow_http" => self.wire.allow_http |= truth(key, value)?,
            "allow_invalid_certificates" => self.wire.allow_invalid_certificates = truth(key, value)?,
            "proxy_url" => self.wire.proxy = Some(value.to_owned()),
            "user_agent" => self.wire.user_agent = Some(value.to_owned()),
            "anonymous" | "skip_signature" | "aws_skip_signature" | "azure_skip_signature" | "google_skip_signature" => {
                self.anonymous = truth(key, value)?;
            }
            _ => {
                let known = self.known();
                if !known.contains(&key) {
                    return Err(unknown(key, known, &self.location));
                }
                if is_endpoint(key) {
                    self.endpoint = Some(value.trim_end_matches('/').to_owned());
                } else {
                    self.options.push((key.to_owned(), value.to_owned()));
                }
            }
        }
        Ok(())
    }

    fn known(&self) -> &'static [&'static str] {
        match self.service {
            Service::S3 => S3,
            Service::Gcs => GCS,
            Service::Azure => AZURE,
            Service::Http => &[],
        }
    }

    /// Takes the endpoint as the environment gives it, unless an option did. One that begins with `http://` allows for that.
    ///
    /// # Errors
    /// `Invalid` for an endpoint that is no address.
    pub(super) fn use_endpoint(&mut self, from_environment: Option<String>) -> Result<()> {
        self.endpoint = self.endpoint.take().or(from_environment.filter(|endpoint| !endpoint.is_empty()));
        self.wire.allow_http |= self.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let parsed = endpoint.parse::<::http::Uri>().ok();
        let host =
            parsed.as_ref().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https"))).and_then(|uri| uri.authority());
        match host.filter(|host| !host.host().is_empty() && (host.port_u16().is_some() || host.as_str().ends_with(host.host()))) {
            Some(_) => Ok(()),
            None => Err(Error::invalid(format!("the endpoint is {endpoint:?}, which is no address"))
                .at(&self.location)
                .remedy("write it as http://host:port or https://host")),
        }
    }

    /// The value of one of the service's options, by any of its names.
    pub(super) fn given(&self, names: &[&str]) -> Option<&str> {
        self.options.iter().find(|(key, _)| names.contains(&key.as_str())).map(|(_, value)| value.as_str())
    }

    /// The key of an object in its bucket.
    pub(super) fn key(&self, path: &RelPath) -> Result<object_store::path::Path> {
        let key = match self.prefix.as_str() {
            "" => path.as_str().to_owned(),
            prefix => format!("{prefix}/{path}"),
        };
        object_store::path::Path::parse(&key).map_err(|_| {
            Error::invalid(format!(
                "the name {:?} has a control character, which object storage does not hold safely",
                path.as_str()
            ))
        })
    }

    /// The directory of the store's root, or of something below it: `None` for the whole bucket.
    pub(super) fn directory(&self, dir: Option<&RelPath>) -> Result<Option<object_store::path::Path>> {
        match dir {
            Some(dir) => self.key(dir).map(Some),
            None if self.prefix.is_empty() => Ok(None),
            None => object_store::path::Path::parse(&self.prefix).map(Some).map_err(|e| Error::invalid(e.to_string())),
        }
    }

    /// The name of a key below the store's root: `None` for what is no name of a store.
    pub(super) fn name(&self, key: &str) -> Option<RelPath> {
        let name = match self.prefix.as_str() {
            "" => key,
            prefix => key.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        RelPath::parse(name).ok()
    }
}

fn seconds(key: &str, value: &str) -> Result<Duration> {
    let text = value.trim().trim_end_matches("seconds").trim_end_matches('s').trim_end();
    let seconds = text.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|d| !d.is_zero());
    seconds.ok_or_else(|| not(key, value, "a number of seconds above 0"))
}

fn truth(key: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" | "" => Ok(false),
        _ => Err(not(key, value, "true or false")),
    }
}

fn not(key: &str, value: &str, expected: &str) -> Error {
    Error::invalid(format!("the option {key} is {value:?}, where {expected} is expected"))
}

/// Refuses a value that no header of a request can carry.
pub(super) fn clean(what: &str, value: &str) -> Result<()> {
    match value.chars().any(char::is_control) {
        true => Err(Error::invalid(format!("{what} has a control character, such as a line feed at its end"))
            .remedy("take it away: it may come from a file that the value was read from")),
        false => Ok(()),
    }
}

fn is_endpoint(key: &str) -> bool {
    matches!(
        key,
        "endpoint"
            | "endpoint_url"
            | "aws_endpoint"
            | "aws_endpoint_url"
            | "aws_endpoint_url_s3"
            | "base_url"
            | "google_base_url"
            | "azure_endpoint"
            | "azure_storage_endpoint"
    )
}

/// Without a password or a signature, for messages.
fn without_secrets(address: &str) -> String {
    let shown = address.split(['?', '#']).next().unwrap_or(address);
    match (shown.split_once("://"), shown.rsplit_once('@')) {
        (Some((scheme @ ("http" | "https"), _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => shown.to_owned(),
    }
}

fn unknown(key: &str, known: &[&str], location: &str) -> Error {
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .chain(EVERY)
        .chain(&crate::store::cache::OPTIONS)
        .map(|name| (distance(key, name), *name))
        .filter(|(d, name)| *d <= 3 || name.ends_with(key))
        .collect();
    near.sort_unstable();
    let names = near.iter().take(4).map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    let scheme = location.split_once("://").map_or("", |(scheme, _)| scheme);
    let error = Error::invalid(format!("there is no option {key:?} for {scheme}:// addresses"));
    match names.is_empty() {
        false => error.remedy(format!("near it are: {names}")),
        true => error.remedy(format!(
            "there are: {}",
            EVERY.iter().chain(&crate::store::cache::OPTIONS).chain(known).copied().collect::<Vec<_>>().join(", ")
        )),
    }
}

/// How many letters must be put in, taken away or changed to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (pair, y) in row.windows(2).zip(&b) {
            let [diagonal, above] = pair else { continue };
            left = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

const EVERY: &[&str] = &[
    "retries",
    "retry_timeout",
    "retry_pause",
    "read_ahead",
    "timeout",
    "connect_timeout",
    "probe",
    "allow_http",
    "allow_invalid_certificates",
    "proxy_url",
    "user_agent",
    "anonymous",
    "skip_signature",
];
const S3: &[&str] = &[
    "endpoint",
    "endpoint_url",
    "aws_endpoint",
    "aws_endpoint_url",
    "aws_endpoint_url_s3",
    "profile",
    "aws_profile",
    "region",
    "aws_region",
    "default_region",
    "aws_default_region",
    "access_key_id",
    "aws_access_key_id",
    "secret_access_key",
    "aws_secret_access_key",
    "session_token",
    "token",
    "aws_session_token",
    "aws_token",
    "virtual_hosted_style_request",
    "aws_virtual_hosted_style_request",
    "unsigned_payload",
    "aws_unsigned_payload",
    "s3_express",
    "aws_s3_express",
    "imdsv1_fallback",
    "aws_imdsv1_fallback",
    "metadata_endpoint",
    "aws_metadata_endpoint",
    "checksum_algorithm",
    "aws_checksum_algorithm",
    "container_credentials_relative_uri",
    "aws_container_credentials_relative_uri",
    "container_credentials_full_uri",
    "aws_container_credentials_full_uri",
    "container_authorization_token_file",
    "aws_container_authorization_token_file",
    "web_identity_token_file",
    "aws_web_identity_token_file",
    "role_arn",
    "aws_role_arn",
    "role_session_name",
    "aws_role_session_name",
    "endpoint_url_sts",
    "aws_endpoint_url_sts",
    "request_payer",
    "aws_request_payer",
    "server_side_encryption",
    "aws_server_side_encryption",
    "sse_kms_key_id",
    "aws_sse_kms_key_id",
    "sse_bucket_key_enabled",
    "aws_sse_bucket_key_enabled",
    "sse_customer_key_base64",
    "aws_sse_customer_key_base64",
];
const GCS: &[&str] = &[
    "endpoint",
    "base_url",
    "google_base_url",
    "service_account",
    "google_service_account",
    "service_account_path",
    "google_service_account_path",
    "service_account_key",
    "google_service_account_key",
    "application_credentials",
    "google_application_credentials",
    "bearer_token",
    "google_bearer_token",
];
const AZURE: &[&str] = &[
    "endpoint",
    "azure_endpoint",
    "azure_storage_endpoint",
    "account_name",
    "azure_storage_account_name",
    "account_key",
    "access_key",
    "azure_storage_account_key",
    "azure_storage_access_key",
    "sas_key",
    "sas_token",
    "azure_storage_sas_key",
    "azure_storage_sas_token",
    "token",
    "bearer_token",
    "azure_storage_token",
    "client_id",
    "azure_client_id",
    "azure_storage_client_id",
    "client_secret",
    "azure_client_secret",
    "azure_storage_client_secret",
    "tenant_id",
    "azure_tenant_id",
    "azure_storage_tenant_id",
    "authority_id",
    "authority_host",
    "azure_authority_host",
    "use_emulator",
    "azure_storage_use_emulator",
    "msi_endpoint",
    "azure_msi_endpoint",
    "identity_endpoint",
    "azure_identity_endpoint",
    "object_id",
    "azure_object_id",
    "msi_resource_id",
    "azure_msi_resource_id",
    "federated_token_file",
    "azure_federated_token_file",
    "use_azure_cli",
    "azure_use_azure_cli",
    "use_fabric_endpoint",
    "azure_use_fabric_endpoint",
    "credential_type",
    "azure_credential_type",
    "encryption_key",
    "azure_storage_encryption_key",
];

#[cfg(test)]
mod tests;
