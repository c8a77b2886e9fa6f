//! Profiles of S3 credentials, as the files in `~/.aws` hold them.
//!
//! `AWS_SHARED_CREDENTIALS_FILE` (or `~/.aws/credentials`) has a section `[name]` a profile, `AWS_CONFIG_FILE` (or `~/.aws/config`) one
//! `[profile name]`, or `[default]`. Of both the keys `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token`, `region` and
//! `endpoint_url` are read, those of the first file before those of the second. What else makes credentials (roles, single sign-on,
//! programs) is not done here.

use crate::error::{Code, Error, Result};
use std::collections::HashMap;
use std::path::PathBuf;

/// No such file is longer.
const LONGEST: u64 = 1 << 20;
/// Keys that make credentials in other ways.
const OTHER_WAYS: [&str; 6] =
    ["role_arn", "credential_process", "sso_session", "sso_start_url", "web_identity_token_file", "credential_source"];

/// How an environment variable is asked for.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Where credentials come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

/// What the files say of one profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) keys: Option<Keys>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

impl Profile {
    /// The profile that the option names, or else `AWS_PROFILE`, or else the one called `default`, where there is one. Where its keys are
    /// not `needed`, it has none, and need not be there.
    ///
    /// # Errors
    /// `Invalid` for a profile that is named and not there, or has an incomplete pair of keys; `Unsupported` for a named one that gets
    /// its keys in another way; `Storage` for a file that cannot be read.
    pub(super) fn find(option: Option<&str>, needed: bool, environment: Environment<'_>) -> Result<Self> {
        let named = option.map(str::to_owned).or_else(|| environment("AWS_PROFILE")).filter(|name| !name.is_empty());
        let name = named.as_deref().unwrap_or("default");
        let home = || environment("HOME").or_else(|| environment("USERPROFILE")).map(|home| PathBuf::from(home).join(".aws"));
        let file = |variable: &str, usual: &str| {
            let path = environment(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
            path.or_else(|| Some(home()?.join(usual)))
        };
        let files = [file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config")];
        let sections = [name.to_owned(), if name == "default" { name.to_owned() } else { format!("profile {name}") }];
        let (mut values, mut found) = (HashMap::new(), false);
        for (path, section) in files.iter().flatten().zip(&sections) {
            let read = crate::store::LocalStore::open(path.parent().unwrap_or(path)).and_then(|store| {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                crate::store::Store::get_at_most(&store, &crate::uri::RelPath::parse(&name)?, LONGEST)
            });
            let text = match read {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(e) if e.code() == Code::NotFound => continue,
                // Nobody asked for it.
                Err(_) if named.is_none() || !needed => continue,
                Err(e) => return Err(e.within("the file of profiles")),
            };
            if let Some(section) = sections_of(&text).remove(section) {
                found = true;
                for (key, value) in section {
                    values.entry(key).or_insert(value);
                }
            }
        }
        let places = || files.iter().flatten().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ");
        if !found {
            return match named.filter(|_| needed) {
                None => Ok(Self::default()),
                Some(name) => Err(Error::invalid(format!("there is no profile {name:?}")).at(places()).remedy(
                    "correct AWS_PROFILE or the option profile; a section [name] in the first file, or [profile name] in the second, makes one",
                )),
            };
        }
        let mut take = |key: &str| values.remove(key).filter(|value| !value.is_empty());
        let keys = match (take("aws_access_key_id"), take("aws_secret_access_key")) {
            _ if !needed => None,
            (Some(id), Some(secret)) => Some(Keys { id, secret, token: take("aws_session_token") }),
            (None, None) => None,
            _ => {
                return Err(Error::invalid(format!("the profile {name:?} has only half a pair of keys"))
                    .at(places())
                    .remedy("give both, aws_access_key_id and aws_secret_access_key"));
            }
        };
        let (region, endpoint) = (take("region"), take("endpoint_url"));
        if let (None, Some(way), true) =
            (&keys, OTHER_WAYS.iter().find(|way| values.contains_key(**way)), needed && named.is_some())
        {
            return Err(Error::unsupported(format!("the profile {name:?} gets its keys by {way}, which is not done here"))
                .at(places())
                .remedy(format!(
                    "let the service's own program give them: aws configure export-credentials --profile {name} --format env"
                )));
        }
        Ok(Self { keys, region, endpoint })
    }
}

/// The sections of such a file, and their keys in small letters. A line that is none of it is passed over, as is what is indented, which
/// belongs to the key above it.
fn sections_of(text: &str) -> HashMap<String, HashMap<String, String>> {
    let mut sections: HashMap<String, HashMap<String, String>> = HashMap::new();
    let mut now: Option<String> = None;
    for line in text.lines() {
        if line.starts_with([' ', '\t', '#', ';']) || line.trim().is_empty() {
            continue;
        }
        let line = line.trim_end();
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.split(']').next().unwrap_or_default();
            let words = name.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect::<Vec<_>>().join(" ");
            sections.entry(words.clone()).or_default();
            now = Some(words);
        } else if let (Some(section), Some((key, value))) =
            (now.as_ref().and_then(|name| sections.get_mut(name)), line.split_once('='))
        {
            section.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "# mine\n[default]\naws_access_key_id = D\naws_secret_access_key=d=/+\n\n[lab]\nAWS_ACCESS_KEY_ID = L\n\
        aws_secret_access_key = l\naws_session_token = t\n[half]\naws_access_key_id = H\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\n[profile lab]\nregion=eu-north-1\nendpoint_url = http://lab:9000\ns3 =\n  \
        region = no\naws_access_key_id = other\n[profile \"by role\"]\nrole_arn = arn:x\n; end";

    fn find(option: Option<&str>, variable: Option<&str>) -> Result<Profile> {
        find_where(option, variable, true)
    }

    fn find_where(option: Option<&str>, variable: Option<&str>, needed: bool) -> Result<Profile> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".aws")).unwrap();
        std::fs::write(dir.path().join(".aws/credentials"), CREDENTIALS).unwrap();
        std::fs::write(dir.path().join("config"), CONFIG).unwrap();
        let environment = |name: &str| match name {
            "HOME" => Some(dir.path().display().to_string()),
            "AWS_CONFIG_FILE" => Some(dir.path().join("config").display().to_string()),
            "AWS_PROFILE" => variable.map(str::to_owned),
            _ => None,
        };
        Profile::find(option, needed, &environment)
    }

    fn keys(id: &str, secret: &str, token: Option<&str>) -> Option<Keys> {
        Some(Keys { id: id.into(), secret: secret.into(), token: token.map(str::to_owned) })
    }

    #[test]
    fn a_profile_is_what_both_files_say_of_it() {
        let default = Profile { keys: keys("D", "d=/+", None), region: Some("eu-west-1".into()), endpoint: None };
        let lab = Profile {
            keys: keys("L", "l", Some("t")),
            region: Some("eu-north-1".into()),
            endpoint: Some("http://lab:9000".into()),
        };
        assert_eq!(find(None, None).unwrap(), default);
        assert_eq!(find(None, Some("")).unwrap(), default);
        assert_eq!(find(None, Some("lab")).unwrap(), lab);
        assert_eq!(find(Some("lab"), Some("half")).unwrap(), lab, "the option comes first");
        assert_eq!(Profile::find(None, true, &|_| None).unwrap(), Profile::default(), "no files, no home");
    }

    #[test]
    fn where_keys_are_known_only_the_rest_of_a_profile_counts() {
        let lab = find_where(None, Some("lab"), false).unwrap();
        assert_eq!((lab.keys, lab.region.as_deref()), (None, Some("eu-north-1")));
        for name in ["nobody", "half", "by role"] {
            assert_eq!(find_where(None, Some(name), false).unwrap(), Profile::default(), "{name}");
        }
    }

    #[test]
    fn what_is_named_and_not_there_is_told() {
        for (name, code, words) in [
            ("nobody", Code::Invalid, "no profile \"nobody\""),
            ("half", Code::Invalid, "half a pair"),
            ("by role", Code::Unsupported, "role_arn"),
        ] {
            let e = find(None, Some(name)).unwrap_err();
            assert_eq!(e.code(), code, "{e}");
            assert!(e.to_string().contains(words) && e.path().unwrap().contains("credentials"), "{e}");
        }
        assert_eq!(Profile::find(Some("x"), true, &|_| None).unwrap_err().code(), Code::Invalid);
    }
}
