//! Finds objects of S3, Google Cloud Storage and Azure, with the HTTP client of the rest of the program.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::stream::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};

use super::file::{Place, RemoteFile, Version, refused_by_store};
use super::repository::wants;
use super::{RemoteError, Streamed};
use crate::error::{ErrorKind, Result};
use crate::network::{Http, HubSettings, Server, StoreSettings, wait_for};
use crate::source::content::RangeRead;
use crate::source::{Identity, Stop};

/// A store in which objects can be read, and written in parts.
pub(crate) trait WritableStore: ObjectStore + MultipartStore {}

impl<S: ObjectStore + MultipartStore> WritableStore for S {}

/// The parts of `s3://bucket/path`, `gs://…` or `az://container/path`.
struct ObjectRequest<'a> {
    /// `s3`, `gs` or `az`.
    scheme: &'a str,
    /// The bucket or container.
    bucket: &'a str,
    /// An object, a folder or a glob; empty for the whole bucket.
    path: &'a str,
}

impl<'a> ObjectRequest<'a> {
    /// Splits a URI into its parts.
    ///
    /// # Errors
    /// The URI names no bucket.
    fn parse(uri: &'a str) -> Result<ObjectRequest<'a>> {
        let (scheme, rest) = uri.split_once("://").unwrap_or_default();
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            let error = RemoteError::Store { uri: uri.to_owned() }.with(ErrorKind::Usage);
            return Err(error.with_help("write s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH"));
        }
        Ok(ObjectRequest { scheme, bucket, path: path.trim_end_matches('/') })
    }

    /// The deepest folder that contains all requested objects: the part of the path before the first component with a
    /// wildcard, or the whole path without one. It has no slash at its end.
    fn folder(&self) -> &str {
        let is_pattern = |part: &str| part.contains(['*', '?', '[']);
        match self.path.split('/').position(is_pattern) {
            None => self.path,
            Some(plain) => {
                let bytes: usize = self.path.split('/').take(plain).map(|part| part.len() + 1).sum();
                self.path[..bytes].trim_end_matches('/')
            }
        }
    }

    /// The client of the store that the environment variables of its own tools describe. Variables that the store's
    /// library does not know are ignored.
    ///
    /// # Errors
    /// The variables are incomplete or contradictory.
    fn store(&self, settings: &StoreSettings, http: Http) -> object_store::Result<Arc<dyn WritableStore>> {
        let url = format!("{}://{}", self.scheme, self.bucket);
        // `http` repeats requests.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        // The three builders have these functions in common, but no trait for them.
        macro_rules! built {
            ($builder:ty, $prefix:literal) => {{
                let mut builder = <$builder>::new();
                for (name, value) in settings.variables.iter().filter(|(name, _)| name.starts_with($prefix)) {
                    if let Ok(key) = name.to_ascii_lowercase().parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Arc::new(builder.with_url(url).with_retry(retry).with_http_connector(http).build()?)
            }};
        }
        Ok(match self.scheme {
            "gs" => built!(GoogleCloudStorageBuilder, "GOOGLE_"),
            "az" => built!(MicrosoftAzureBuilder, "AZURE_"),
            _ => built!(AmazonS3Builder, "AWS_"),
        })
    }
}

/// The client of an object store, and the key of the object or folder that a URI names in it. Requests are repeated as
/// the settings say.
///
/// # Errors
/// The URI names no bucket or no valid key, or the variables are incomplete or contradictory.
pub(crate) fn store(
    uri: &str,
    settings: &StoreSettings,
    hub: &HubSettings,
) -> Result<(Arc<dyn WritableStore>, Path)> {
    let wanted = ObjectRequest::parse(uri)?;
    let http = Http::new(Server::Store, None, &hub.patience, &hub.noted)?;
    let failed = |cause| refused_by_store(uri, &cause);
    let store = wanted.store(settings, http).map_err(failed)?;
    let key = Path::parse(wanted.folder()).map_err(|cause| failed(cause.into()))?;
    Ok((store, key))
}

/// Lists the objects that a URI names, in byte order of their names. None of their content is read.
///
/// Lists all of the folder before anything is returned. Objects are shared by one client of the store.
///
/// # Errors
/// The URI names no bucket or no objects; or the store cannot be reached, or refuses.
pub(super) fn list(
    uri: &str,
    any_name: bool,
    settings: &StoreSettings,
    hub: &HubSettings,
    stop: &Stop,
) -> Result<Vec<Streamed>> {
    let wanted = ObjectRequest::parse(uri)?;
    let (store, folder) = store(uri, settings, hub)?;
    let store: Arc<dyn ObjectStore> = store;
    let mut objects = wait_for(&**stop, uri, async {
        find(&wanted, &folder, any_name, &*store).await.map_err(|cause| refused_by_store(uri, &cause))
    })?;
    if objects.is_empty() {
        let error = RemoteError::NoFiles { uri: uri.to_owned() }.with(ErrorKind::Failed);
        return Err(error.with_help("check the path: in a folder, files are known by their extensions"));
    }
    objects.sort_by(|one, other| one.location.as_ref().cmp(other.location.as_ref()));
    let streamed = objects.into_iter().map(|object| {
        let what = format!("{}://{}/{}", wanted.scheme, wanted.bucket, object.location);
        let (path, bytes) = (PathBuf::from(object.location.as_ref()), object.size);
        let version = Version::of_object(&object);
        let identity = Identity::Web { bytes, etag: version.name().to_owned() };
        let place = Place::Object(Arc::clone(&store), object.location);
        let remote: Arc<dyn RangeRead> =
            Arc::new(RemoteFile { place, what: what.clone(), bytes, version, stop: Arc::clone(stop) });
        (((path, what), identity), Some(remote))
    });
    Ok(streamed.collect())
}

/// The requested objects: a single one with that name, or those in the folder that match.
///
/// If the path has no wildcard, it is first taken as the name of an object, and as that of a folder only if there is
/// no such object. `any_name` says that the extension does not matter.
///
/// # Errors
/// The store refuses or cannot be reached. If nothing matches, the list is empty.
async fn find(
    wanted: &ObjectRequest<'_>,
    folder: &Path,
    any_name: bool,
    store: &dyn ObjectStore,
) -> object_store::Result<Vec<ObjectMeta>> {
    if !wanted.path.is_empty() && folder.as_ref() == wanted.path {
        match store.head(folder).await {
            Ok(object) => return Ok(vec![object]),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let mut objects: Vec<ObjectMeta> = Vec::new();
    let mut listed = store.list(Some(folder).filter(|folder| !folder.as_ref().is_empty()));
    while let Some(object) = listed.try_next().await? {
        objects.extend(wants(wanted.path, object.location.as_ref(), any_name).then_some(object));
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only variables with the prefix of the store are its settings: others may have the same short names.
    #[test]
    fn variables_of_other_programs_are_no_settings() {
        for (name, is_setting) in [
            ("AZURE_STORAGE_ACCOUNT_NAME", true),
            ("ACCOUNT_NAME", false),
            ("azure_storage_account_name", false),
            ("AWS_ACCOUNT_NAME", false),
        ] {
            let settings = StoreSettings { variables: vec![(name.to_owned(), "somebody".to_owned())] };
            let opened = store("az://container/a", &settings, &HubSettings::default());
            assert_eq!(opened.is_ok(), is_setting, "{name}");
        }
    }
}
