//! Requests to other machines: the settings, the client of all servers, and how failures are repeated.
//!
//! Reading and publishing use the same settings and failures. The library reads no environment variables itself, except
//! those that name a proxy: the settings hold the values that other tools take from them.

#[cfg(feature = "hub")]
mod failure;
#[cfg(feature = "hub")]
mod http;
mod settings;

#[cfg(feature = "hub")]
pub(crate) use failure::{
    HubFailure, Refused, RequestError, Retries, Server, cannot_fetch, connection_failure, header,
    in_one_line, refused, requested_wait, too_slow,
};
#[cfg(feature = "hub")]
pub(crate) use http::{
    Head, Http, MAX_ANSWER_BYTES, Request, Sink, address, build, check_token, client_builder, hub_client,
    wait_for,
};
pub use settings::{HubSettings, Note, Patience, StoreSettings};
