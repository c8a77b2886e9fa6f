use super::*;
use crate::Code;

fn settings(address: &str, options: &[(&str, &str)]) -> Result<Settings> {
    Settings::new(address, &options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
}
