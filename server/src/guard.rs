//! Who may ask: API keys, and on a machine's own address without keys, whose page a browser shows.

use std::{net::IpAddr, sync::Arc};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use subtle::{Choice, ConstantTimeEq as _};

use crate::error::ApiError;

/// The only route that needs no key.
const OPEN: &str = "/health";

/// What is asked of every request before its body is read.
#[derive(Debug)]
pub(crate) struct Guard {
    keys: Vec<String>,
    /// Origins of other sites that may ask; `*` for all.
    origins: Vec<String>,
    /// Whether `Host` must be this machine: it listens on its own address, and has no key.
    local: bool,
    host: String,
}

impl Guard {
    pub(crate) fn new(keys: Vec<String>, origins: Vec<String>, host: String, address: IpAddr) -> Self {
        let local = keys.is_empty() && address.is_loopback();
        Self { keys, origins, local, host }
    }

    fn check(&self, request: &Request) -> Result<(), ApiError> {
        if !self.keys.is_empty() {
            let open =
                request.uri().path() == OPEN && matches!(*request.method(), Method::GET | Method::HEAD);
            if !open && !self.has_key(request.headers()) {
                let message = "an API key is needed: Authorization: Bearer KEY";
                return Err(ApiError::status(StatusCode::UNAUTHORIZED, message));
            }
        }
        if self.local {
            self.check_host(request.headers())?;
            self.check_origin(request.headers())?;
        }
        Ok(())
    }

    /// Exactly one `Authorization`, with a key as a bearer's token or as a password. Every key is compared, and each in the
    /// same time wherever it differs.
    fn has_key(&self, headers: &HeaderMap) -> bool {
        let mut fields = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(field), None) = (fields.next(), fields.next()) else { return false };
        let Ok(field) = field.to_str() else { return false };
        let Some((scheme, rest)) = field.split_once(' ') else { return false };
        let given = match scheme.to_ascii_lowercase().as_str() {
            "bearer" => rest.to_owned(),
            "basic" => password(rest).unwrap_or_default(),
            _ => return false,
        };
        let same = |key: &String| key.as_bytes().ct_eq(given.as_bytes());
        let any = self.keys.iter().map(same).fold(Choice::from(0), |any, same| any | same);
        any.into()
    }

    /// A page of another site can make a browser send requests here under the site's name (DNS rebinding).
    fn check_host(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(host) = headers.get(header::HOST) else { return Ok(()) };
        let name = host.to_str().map(without_port).unwrap_or_default();
        if is_local(name) || name.eq_ignore_ascii_case(without_port(&self.host)) {
            return Ok(());
        }
        let message =
            "the Host field names another machine than this one; with an API key any name is served";
        Err(ApiError::status(StatusCode::FORBIDDEN, message))
    }

    /// A page of another site may not ask, unless its site is named.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let named = self.origins.iter().any(|named| named == "*" || named == origin);
        let site = origin.split_once("://").map_or("", |(_, site)| site);
        let own = headers.get(header::HOST).is_some_and(|host| host.as_bytes() == site.as_bytes());
        if named || own {
            return Ok(());
        }
        let message = "pages of other sites may not ask; name theirs with --cors-origins";
        Err(ApiError::status(StatusCode::FORBIDDEN, message))
    }
}

/// The layer.
pub(crate) async fn guard(State(guard): State<Arc<Guard>>, request: Request<Body>, next: Next) -> Response {
    let page = request.uri().path() == "/";
    match guard.check(&request) {
        Ok(()) => next.run(request).await,
        Err(error) => {
            let mut response = error.into_response();
            if response.status() == StatusCode::UNAUTHORIZED {
                // A browser asks for the password of the page; programs are told of bearers.
                let scheme =
                    if page { "Basic realm=\"mlxcel: the API key is the password\"" } else { "Bearer" };
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme));
            }
            response
        }
    }
}

/// The password of basic credentials.
fn password(encoded: &str) -> Option<String> {
    let text = String::from_utf8(base64(encoded.trim())?).ok()?;
    Some(text.split_once(':')?.1.to_owned())
}

/// Decodes standard base64 (RFC 4648), with or without its padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        // An address of version 6 without brackets has no port.
        None if host.matches(':').count() > 1 => host,
        None => host.split(':').next().unwrap_or(host),
    }
}

fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().uri("/v1/models");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn with_keys(keys: &[&str]) -> Guard {
        let keys = keys.iter().map(|&key| key.to_owned()).collect();
        Guard::new(keys, Vec::new(), "127.0.0.1".to_owned(), IpAddr::from([127, 0, 0, 1]))
    }

    #[test]
    fn keys() {
        let guard = with_keys(&["first", "test-key-123"]);
        let ok = |fields: &[(&str, &str)]| guard.check(&request(fields)).is_ok();
        for right in [
            "Bearer test-key-123",
            "bearer first",
            "BEARER first",
            "Basic OnRlc3Qta2V5LTEyMw==",
            "basic eDpmaXJzdA",
        ] {
            assert!(ok(&[("authorization", right)]), "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer wrong",
            "Bearer test-key-12",
            "Bearer test-key-1234",
            "Bearer TEST-KEY-123",
            "Bearer  test-key-123",
            "test-key-123",
            "Basic dGVzdDp0ZXN0",
            "Basic ???",
            "Digest first",
        ] {
            assert!(!ok(&[("authorization", wrong)]), "{wrong}");
        }
        assert!(!ok(&[]));
        assert!(!ok(&[("authorization", "Bearer first"), ("authorization", "Bearer first")]));
        // With a key, any name and site may ask.
        let other =
            [("authorization", "Bearer first"), ("host", "a.example"), ("origin", "https://b.example")];
        assert!(ok(&other));
    }

    #[test]
    fn the_health_route_alone_is_open() {
        let guard = with_keys(&["k"]);
        let ok = |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            guard.check(&request).is_ok()
        };
        assert!(ok("GET", "/health") && ok("HEAD", "/health") && ok("GET", "/health?x=1"));
        for path in ["/", "/health/", "//health", "/Health", "/metrics", "/nothing"] {
            assert!(!ok("GET", path), "{path}");
        }
        assert!(!ok("POST", "/health"));
    }

    #[test]
    fn other_names_and_other_sites_may_not_ask_without_a_key() {
        let guard = with_keys(&[]);
        let ok = |host: &str, origin: Option<&str>| {
            let mut fields = vec![("host", host)];
            fields.extend(origin.map(|origin| ("origin", origin)));
            guard.check(&request(&fields)).is_ok()
        };
        for host in [
            "localhost",
            "localhost:8080",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:80",
            "LOCALHOST.",
            "a.localhost",
        ] {
            assert!(ok(host, None), "{host}");
        }
        for host in ["a.example", "localhost.a.example:80", "10.0.0.1", "", "[::2]"] {
            assert!(!ok(host, None), "{host}");
        }
        assert!(ok("localhost:8080", Some("http://localhost:8080")));
        for origin in ["http://localhost:3000", "https://a.example", "null"] {
            assert!(!ok("localhost:8080", Some(origin)), "{origin}");
        }
        let mut named = with_keys(&[]);
        named.origins = vec!["https://a.example".to_owned()];
        assert!(named.check(&request(&[("host", "localhost"), ("origin", "https://a.example")])).is_ok());
    }

    #[test]
    fn on_a_network_address_any_name_is_served() {
        let guard = Guard::new(Vec::new(), Vec::new(), "0.0.0.0".to_owned(), IpAddr::from([0, 0, 0, 0]));
        assert!(guard.check(&request(&[("host", "a.example")])).is_ok());
    }
}
