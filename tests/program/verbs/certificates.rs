//! Certificates that must not be trusted: each failed check is told by its name with what to do,
//! nothing is sent to such a server, and the servers beside it are as they were.

use rcgen::{CertificateParams, date_time_ymd};
use serde_json::{Value, json};

use super::AT_MOST;
use super::tls::{Authority, TlsServer};
use crate::support::{Bench, Finished, finish};

/// Server, and the words that name the failed check and the next step.
const BAD: [(&str, [&str; 2]); 4] = [
    ("selfsigned", ["self-signed", "trust store of the system"]),
    ("expired", ["has expired", "have it renewed"]),
    ("early", ["not valid yet", "compare the clocks"]),
    ("othername", ["for another host name", "use the name that the certificate has"]),
];

struct Scene {
    bench: Bench,
    servers: Vec<(&'static str, TlsServer)>,
}

impl Scene {
    fn set() -> Self {
        let (bench, authority) = (Bench::new(), Authority::named("Ours"));
        bench.write("authority.pem", &authority.pem());
        let named = |name: &str| CertificateParams::new([name.to_owned()]).expect("a name");
        let valid = |from: i32, until: i32| {
            let mut params = named("localhost");
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
            params
        };
        let signed = Some(&authority);
        let servers = vec![
            ("selfsigned", TlsServer::serve(&named("localhost"), None)),
            ("expired", TlsServer::serve(&valid(2001, 2002), signed)),
            ("early", TlsServer::serve(&valid(3001, 3002), signed)),
            ("othername", TlsServer::serve(&named("elsewhere.example"), signed)),
            ("good", TlsServer::serve(&named("localhost"), signed)),
        ];
        let mut entries = json!({"well": bench.mock("well", &json!({}), &json!({}))});
        for (name, server) in &servers {
            entries[name] = json!({"url": server.url(), "retry": {"maxRetries": 0},
                "startupTimeout": 20, "headers": {"Authorization": "Bearer canary-0123456789"}});
        }
        bench.servers(&entries);
        Self { bench, servers }
    }

    /// The program, which trusts the authority of the scene and no other.
    fn run(&self, args: &[&str]) -> Finished {
        let mut command = self.bench.command(args);
        command.env("SSL_CERT_FILE", self.bench.path().join("authority.pem"));
        command.env_remove("SSL_CERT_DIR");
        finish(command, AT_MOST)
    }

    fn requests(&self, name: &str) -> usize {
        let (_, server) = self.servers.iter().find(|(key, _)| *key == name).expect("a server");
        server.requests()
    }

    /// Nobody whose certificate does not hold was sent anything, the secret header least of all.
    fn expect_nothing_sent(&self) {
        for (name, _) in BAD {
            assert_eq!(self.requests(name), 0, "{name}");
        }
    }
}

fn named<'a>(report: &'a Value, name: &str) -> &'a Value {
    let servers = report["servers"].as_array().expect("servers");
    servers.iter().find(|server| server["name"] == name).expect("every server is listed")
}

#[test]
fn a_check_names_the_failed_check_of_each_certificate_and_what_to_do() {
    let scene = Scene::set();
    let done = scene.run(&["--check", "--format", "json"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let report = done.json();
    for (name, words) in BAD {
        let server = named(&report, name);
        assert_eq!(server["verdict"], "incomplete", "{server:#}");
        let findings = server["findings"].to_string();
        for word in words {
            assert!(findings.contains(word), "{word}: {server:#}");
        }
    }
    for name in ["good", "well"] {
        assert_eq!(named(&report, name)["verdict"], "ok", "{report:#}");
    }
    assert!(scene.requests("good") > 0);
    scene.expect_nothing_sent();
    assert!(
        !done.stdout.contains("canary-0123456789") && !done.stderr.contains("canary-0123456789")
    );
}

#[test]
fn the_status_reports_them_too_and_the_other_servers_are_ready() {
    let scene = Scene::set();
    let done = scene.run(&["status", "--json"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let report = done.json();
    for (name, words) in BAD {
        let server = named(&report, name);
        assert_ne!(server["state"], "ready", "{server:#}");
        for word in words {
            assert!(server.to_string().contains(word), "{word}: {server:#}");
        }
    }
    for name in ["good", "well"] {
        assert_eq!(named(&report, name)["state"], "ready", "{report:#}");
    }
    scene.expect_nothing_sent();
}

#[test]
fn a_private_authority_is_trusted_only_when_it_is_named() {
    let scene = Scene::set();
    let trusted = scene.run(&["list", "good", "--json"]);
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    assert_eq!(trusted.json()["servers"][0]["tools"][0]["name"], "echo");
    let before = scene.requests("good");
    for (authority, word) in [("Theirs", "private authority"), ("Ours", "recreated")] {
        scene.bench.write("authority.pem", &Authority::named(authority).pem());
        let refused = scene.run(&["list", "good", "--json"]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(word) && said.contains("SSL_CERT_FILE"), "{said}");
    }
    assert_eq!(scene.requests("good"), before, "nothing was sent");
}

#[test]
fn a_certificate_of_the_client_that_cannot_be_used_is_named_with_what_is_wrong() {
    let bench = Bench::new();
    let authority = Authority::named("Ours");
    let (key, other) = (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
    let own = CertificateParams::new(["client".to_owned()]).unwrap().self_signed(&key).unwrap();
    let sealed =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    bench.write("cert.pem", &own.pem());
    bench.write("key.pem", &key.serialize_pem());
    bench.write("other.pem", &other.serialize_pem());
    bench.write("sealed.pem", sealed);
    bench.write("empty.pem", "");
    bench.write("chain.pem", &(authority.pem() + &own.pem()));
    bench.write("both.pem", &(key.serialize_pem() + &own.pem()));
    let server = TlsServer::serve(&CertificateParams::new(["localhost".to_owned()]).unwrap(), None);
    for (cert, at_fault, key, why) in [
        ("cert.pem", "other.pem", "other.pem", "it does not belong to the first certificate of"),
        ("chain.pem", "key.pem", "key.pem", "that of the client comes first"),
        ("cert.pem", "sealed.pem", "sealed.pem", "openssl pkey"),
        ("cert.pem", "empty.pem", "empty.pem", "it holds no private key in PEM"),
        ("empty.pem", "empty.pem", "key.pem", "it holds no certificate in PEM"),
        ("gone.pem", "gone.pem", "key.pem", "No such file"),
        // In order, in whatever file: what is wrong then is the server's.
        ("both.pem", "", "both.pem", "self-signed"),
        ("cert.pem", "", "key.pem", "self-signed"),
    ] {
        let tls = json!({"cert": cert, "key": key});
        bench.servers(&json!({"a": {"url": server.url(), "tls": tls, "startupTimeout": 20}}));
        let done = bench.run(&["list"], AT_MOST);
        let text = format!("{}{}", done.stdout, done.stderr);
        assert!(text.contains(why) && text.contains(at_fault), "{cert} {key}: {text}");
        assert!(!text.contains("builder error") && !text.contains("signing in"), "{text}");
    }
    assert_eq!(server.requests(), 0);
}
