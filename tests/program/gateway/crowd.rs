//! Many clients at once: their connections are spread over the cores, and one client alone is not.

use std::io::{BufReader, Write as _};
use std::net::TcpStream;

use serde_json::json;

use super::{Answer, Service};

/// Names of the threads that only serve clients.
fn helpers(service: &Service) -> Vec<String> {
    let tasks = format!("/proc/{}/task", service.child.id());
    let tasks = std::fs::read_dir(tasks).unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| name.starts_with("clients-")).collect()
}

#[test]
fn clients_that_come_while_others_are_served_get_other_cores() {
    const CLIENTS: usize = 16;
    let service = Service::start();
    for _ in 0..5 {
        assert_eq!(service.post("/tools/vendor__late/call", &json!({})).status, 200);
    }
    assert_eq!(helpers(&service), Vec::<String>::new(), "one client after the other");

    let (address, token) = (service.url.strip_prefix("http://").unwrap(), &service.token);
    let mut open: Vec<TcpStream> =
        (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut open {
        let head = format!(
            "POST /tools/vendor__late/call HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Content-Length: 2\r\n\r\n{{}}"
        );
        stream.write_all(head.as_bytes()).unwrap();
    }
    for stream in open {
        let answer = Answer::read(BufReader::new(stream));
        assert!(answer.status == 200 && answer.body.contains("at last"), "{}", answer.body);
    }
    // The engine has half of the cores, and one client for each of its threads; helpers the others.
    let cores = std::thread::available_parallelism().unwrap().get();
    let workers = cores.div_ceil(2);
    let (started, most) = (helpers(&service).len(), cores - workers);
    let is_crowd = most > 0 && CLIENTS > workers;
    assert!(started <= most && (started > 0) == is_crowd, "{started} of {most}");
}
