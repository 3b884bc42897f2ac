//! Keys of servers reached by URL: signing in, certificates.

use super::key;
use crate::config::shape::{ObjectShape, Shape};

pub(super) static OAUTH: ObjectShape = ObjectShape {
    name: "oauth",
    doc: "how the host signs in",
    keys: &[
        key("clientId", Shape::Text, "Client that was registered manually"),
        key("clientSecret", Shape::Text, "Its secret"),
        key("clientMetadataUrl", Shape::Text, "Address of a client metadata document"),
        key(
            "callbackPort",
            Shape::Integer { min: 1, max: 65_535 },
            "Port of http://127.0.0.1:PORT/callback; otherwise one is chosen and remembered",
        ),
        key("scopes", Shape::List(&Shape::Text), "Scopes to ask for, instead of the server's"),
        key(
            "grant",
            Shape::Word(&[
                ("authorization_code", "a person signs in with a browser"),
                ("client_credentials", "the client signs in for itself"),
            ]),
            "Who signs in",
        )
        .default("\"authorization_code\""),
        key("privateKey", Shape::Text, "PEM of the key that signs the client's assertions"),
    ],
    required: &[],
    foreign: &[],
};

pub(super) static TLS: ObjectShape = ObjectShape {
    name: "tls",
    doc: "certificates",
    keys: &[
        key("ca", Shape::Text, "PEM file of authorities to trust besides those of the system"),
        key("cert", Shape::Text, "PEM file of the certificate the client shows"),
        key("key", Shape::Text, "PEM file of its key"),
    ],
    required: &[],
    foreign: &[],
};
