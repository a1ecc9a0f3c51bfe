//! The address.

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, lookup_host};

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The host is no address and no name that can be resolved.
    #[error(
        "--host {host:?} is no address that can be found\nhint: use 127.0.0.1 for this machine only, 0.0.0.0 for all its networks"
    )]
    Host {
        /// What was asked for.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else listens there.
    #[error(
        "port {port} of {host} is in use\nhint: choose another one with --port, or end the program that uses it"
    )]
    InUse {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The system refuses.
    #[error("cannot listen on {host} port {port}")]
    Refused {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
}

/// Listens on `host` and `port`; port 0 takes a free one.
pub(crate) async fn bind(host: &str, port: u16) -> Result<(TcpListener, SocketAddr), BindError> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let found = |source| BindError::Host { host: host.to_owned(), source };
    let addresses: Vec<_> = lookup_host((name, port)).await.map_err(found)?.collect();
    let listened = TcpListener::bind(addresses.as_slice()).await.and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    listened.map_err(|source| {
        let host = host.to_owned();
        if source.kind() == io::ErrorKind::AddrInUse {
            BindError::InUse { host, port }
        } else {
            BindError::Refused { host, port, source }
        }
    })
}
