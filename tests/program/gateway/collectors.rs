//! Collectors that spans and audit events are sent to: what they get with them, and what the
//! environment says about it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;

use super::{Service, configured, program};

/// A request to a collector: its path, its headers and its body.
type Received = (String, Vec<String>, String);

fn collector() -> (String, mpsc::Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut from = BufReader::new(stream.try_clone().unwrap());
                let mut first = String::new();
                while from.read_line(&mut first).unwrap_or(0) > 0 {
                    let path = first.split(' ').nth(1).unwrap().to_owned();
                    let (mut headers, mut line) = (Vec::new(), String::new());
                    while from.read_line(&mut line).unwrap() > 2 {
                        headers.push(line.trim().to_ascii_lowercase());
                        line.clear();
                    }
                    let length =
                        headers.iter().find_map(|line| line.strip_prefix("content-length: "));
                    let mut body = vec![0; length.unwrap().parse().unwrap()];
                    from.read_exact(&mut body).unwrap();
                    let body = String::from_utf8(body).unwrap();
                    let _ = sender.send((path, headers, body));
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                    first.clear();
                }
            });
        }
    });
    (address, received)
}

#[test]
fn spans_and_audit_events_come_with_headers_that_no_log_shows() {
    let (address, received) = collector();
    let folder = tempfile::tempdir().unwrap();
    let (env, log) = (folder.path().join("otel.env"), folder.path().join("log"));
    let text = format!(
        "OTEL_EXPORTER_OTLP_ENDPOINT={address}\n\
         OTEL_EXPORTER_OTLP_PROTOCOL=http/json\n\
         OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20general+==,x-team=blue\n\
         OTEL_EXPORTER_OTLP_LOGS_HEADERS=x-team=red,authorization=Basic%20unused\n\
         AUDIT_KEY=of-the-audit\n"
    );
    std::fs::write(&env, text).unwrap();
    let policy = json!({"audit": {
        "otlp": "${env:OTEL_EXPORTER_OTLP_ENDPOINT}",
        "otlpHeaders": {"Authorization": "Bearer ${env:AUDIT_KEY}", "X-Scope": "ops"},
    }});
    let paths = [env.to_str().unwrap(), log.to_str().unwrap()];
    let args = ["--otlp", "--env-file", paths[0], "--log-file", paths[1], "--log-level", "debug"];
    let service = Service::with(&policy, &args);
    assert_eq!(
        service.post("/tools/greeter__greet/call", &json!({"arguments": {"name": "A"}})).status,
        200
    );
    let mut seen = std::collections::BTreeMap::new();
    while seen.len() < 2 {
        let (path, headers, body) = received.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(body.contains("greet"), "{body}");
        seen.insert(path, headers);
    }
    for (path, expected) in [
        ("/v1/traces", &["authorization: basic general+==", "x-team: blue"][..]),
        ("/v1/logs", &["authorization: bearer of-the-audit", "x-team: red", "x-scope: ops"]),
    ] {
        let headers = &seen[path];
        assert!(expected.iter().all(|line| headers.iter().any(|it| it == line)), "{headers:?}");
    }
    let told = std::fs::read_to_string(service.folder.join("stderr")).unwrap();
    drop(service);
    let log = std::fs::read_to_string(&log).unwrap();
    for secret in ["general+==", "of-the-audit", "unused"] {
        for text in [&log, &told] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn what_the_environment_asks_for_in_vain_is_told() {
    let folder = tempfile::tempdir().unwrap();
    configured(folder.path());
    let serve = |vars: &[(&str, &str)]| {
        let mut command = program();
        command.args(["serve", "--listen", "127.0.0.1:0", "--otlp", "-c"]);
        command.arg(folder.path().join("mcp.json")).env("MCPDECK_STATE_DIR", folder.path());
        let out = command.envs(vars.iter().copied()).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    for (vars, named) in [
        (&[][..], "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "http/json alone"),
        (&[endpoint, ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "soon")], "milliseconds"),
        (&[endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")], "KEY=VALUE"),
    ] {
        let (code, told) = serve(vars);
        assert!(code != Some(0) && told.contains(named), "{named}: {code:?} {told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
    // A secret is not written into a policy.
    let policy = json!({"audit": {"otlp": "http://127.0.0.1:9", "otlpHeaders": {"Authorization": "hunter2"}}});
    std::fs::write(folder.path().join("mcpdeck.policy.json"), policy.to_string()).unwrap();
    let out = program()
        .args(["policy", "why", "gateway:t1", "greeter.greet", "-c"])
        .arg(folder.path().join("mcp.json"))
        .env("MCPDECK_STATE_DIR", folder.path())
        .output()
        .unwrap();
    let told = format!("{out:?}");
    assert!(told.contains("otlpHeaders/Authorization"), "{told}");
}
