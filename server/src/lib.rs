//! HTTP server over the mlxcel engine: OpenAI's routes, server-sent events, metrics, a chat page.
//!
//! No inference here: requests are checked and turned into the engine's, its events into responses. `docs/server.md` has
//! every route and field.
//!
//! | module | what it is |
//! | --- | --- |
//! | `request` | bodies, read field by field |
//! | `answer` | events to text, whole or streamed |
//! | `routes` | one module a group of routes |
//! | `guard` | API keys, and who may ask without one |
//! | `net` | connections |
//! | `server` | start, drain, end |

mod answer;
mod app;
mod body;
mod error;
mod guard;
mod metrics;
mod net;
mod request;
mod routes;
mod run;
mod server;

pub use app::Speculate;
pub use net::BindError;
pub use run::run;
pub use server::{Http, Model, Running, ServeError, Server};
