//! `mcpdeck serve` with a row: the exact bytes that clients send, and the answers. No process of
//! the service may be alive after SIGTERM, and no secret or token may leak.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::pty::{Signal, signal};
use super::row::{Exchange, Row, ServePlan};
use super::stage::{Stage, secrets};
use super::support::{bin, wait_for};

/// Timeout for an answer.
const ANSWER: Duration = Duration::from_secs(60);

/// A running service; killed on drop.
struct Service<'a> {
    child: Child,
    stage: &'a Stage,
    /// Replacements of `@NAME@` in requests.
    words: BTreeMap<String, String>,
    tokens: BTreeMap<String, String>,
}

/// Plays the plan; returns the problems.
pub fn play(row: &Row, plan: &ServePlan, stage: &Stage) -> Vec<String> {
    let mut service = Service::start(stage, &plan.args);
    service.admit(plan);
    let mut problems = Vec::new();
    for exchange in &plan.requests {
        exchange.harm.iter().for_each(|harm| stage.harm(harm));
        let mut answers = service.exchange(exchange);
        let begun = Instant::now();
        while exchange.until && judge(exchange, &answers).is_some() && begun.elapsed() < ANSWER {
            std::thread::park_timeout(Duration::from_millis(100));
            answers = service.exchange(exchange);
        }
        problems
            .extend(judge(exchange, &answers).map(|problem| format!("{}: {problem}", row.title)));
        for answer in &answers {
            let foreign = secrets().into_iter().find(|secret| answer.contains(secret));
            problems.extend(foreign.map(|secret| format!("I8: {secret} in {answer}")));
            if let Some(name) = &exchange.keep {
                service.keep(name, answer);
            }
        }
    }
    problems.extend(stage.flaws(&[]));
    let streams: Vec<_> = (0..plan.streams).map(|_| service.listen()).collect();
    problems.extend(service.end());
    for mut stream in streams {
        // Reads the rest, up to the end.
        if let Err(error) = stream.read_to_end(&mut Vec::new()) {
            problems.push(format!("SIGTERM: a stream was not ended: {error}"));
        }
    }
    let left = stage.bench.left_after(Duration::from_secs(2));
    if !left.is_empty() {
        problems.push(format!("I6: the service left behind: {left:#?}"));
    }
    problems
}

fn judge(exchange: &Exchange, answers: &[String]) -> Option<String> {
    let status = |answer: &String| answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let fits = |(number, answer): &(usize, &String)| {
        let number = number.to_string();
        status(answer).is_some_and(|status: u16| exchange.status.contains(&status))
            && exchange.says.iter().all(|text| answer.contains(&text.replace("@N@", &number)))
            && !exchange.never_says.iter().any(|text| answer.contains(text.as_str()))
    };
    if let Some((_, odd)) = answers.iter().enumerate().find(|answer| !fits(answer)) {
        return Some(format!("{exchange:?} was answered\n{odd}"));
    }
    let first = answers.iter().filter(|a| status(a) == exchange.status.first().copied()).count();
    let wrong = exchange.count.filter(|count| *count != first);
    wrong.map(|count| format!("{exchange:?}: {first} of {} instead of {count}", answers.len()))
}

impl<'a> Service<'a> {
    fn start(stage: &'a Stage, args: &[String]) -> Self {
        let mut command = verb(stage, &["serve", "--listen", "127.0.0.1:0"]);
        command.args(args);
        command.arg("--token-file").arg(stage.state().join("own-token"));
        command.arg("--log-file").arg(&stage.log);
        let told = stage.bench.path().join("told-by-the-service");
        let stderr = std::fs::File::create(&told).expect("a file");
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        let _ = BufReader::new(stdout).read_line(&mut line);
        let event: Value = serde_json::from_str(&line).expect("an event");
        let url = event["url"].as_str().expect("an address");
        let file = event["tokenFile"].as_str().expect("a file");
        let own = std::fs::read_to_string(file).expect("a token").trim().to_owned();
        let port = url.rsplit(':').next().expect("a port").to_owned();
        let mut words = BTreeMap::from([("PORT".to_owned(), port)]);
        if args.iter().any(|arg| arg == "--admin") {
            let link = wait_for("the link to the page", ANSWER, || {
                let told = std::fs::read_to_string(&told).ok()?;
                let (_, link) = told.split_once("/admin/login?code=")?;
                let (code, _) = link.split_once(char::is_whitespace)?;
                Some(format!("/admin/login?code={code}"))
            });
            words.insert("ADMIN".to_owned(), link);
        }
        let service = Self { child, stage, words, tokens: [("own".to_owned(), own)].into() };
        service.wait_for("GET /readyz", "own");
        service
    }

    /// Waits until a request succeeds.
    fn wait_for(&self, send: &str, token: &str) {
        let wanted = json!({"send": send, "token": token, "status": [200]});
        let wanted: Exchange = serde_json::from_value(wanted).expect("an exchange");
        wait_for(send, ANSWER, || {
            self.exchange(&wanted)[0].starts_with("HTTP/1.1 200").then_some(())
        });
    }

    /// Opens a stream of changes (`subscriptions/listen`).
    fn listen(&self) -> BufReader<TcpStream> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
            "params": {"notifications": {"toolsListChanged": true}, "_meta": meta}});
        let send = json!({"send": "POST /mcp", "body": body, "status": [],
            "headers": ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"]});
        let exchange: Exchange = serde_json::from_value(send).expect("an exchange");
        let mut stream =
            TcpStream::connect(format!("127.0.0.1:{}", self.words["PORT"])).expect("it listens");
        stream.set_read_timeout(Some(ANSWER)).expect("a socket");
        stream.write_all(&self.request(&exchange, 0)).expect("it reads");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while !line.contains("subscriptions/acknowledged") {
            line.clear();
            assert!(stream.read_line(&mut line).expect("it answers") > 0, "a stream");
        }
        stream
    }

    /// Creates the tokens and grants of the row.
    fn admit(&mut self, plan: &ServePlan) {
        let run = |args: &[&str]| {
            let done = verb(self.stage, args).output().expect("it runs");
            assert!(done.status.success(), "{args:?}: {done:?}");
            String::from_utf8(done.stdout).expect("text").trim().to_owned()
        };
        for (name, args) in &plan.tokens {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            self.tokens.insert(name.clone(), run(&[&["token", "new"], &args[..]].concat()));
            let list: Value =
                serde_json::from_str(&run(&["token", "list", "--json"])).expect("JSON");
            let last = list["tokens"].as_array().and_then(|tokens| tokens.last());
            let id = last.and_then(|token| token["id"].as_str()).expect("an id");
            self.words.insert(name.clone(), format!("gateway:{id}"));
        }
        for args in &plan.grants {
            let args: Vec<String> = args.iter().map(|word| self.at(word)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            run(&[&["grants", "add"], &args[..]].concat());
        }
        // The service polls its files.
        for name in plan
            .tokens
            .keys()
            .filter(|name| plan.grants.iter().flatten().any(|word| *word == format!("@{name}@")))
        {
            self.wait_for("GET /tools", name);
        }
    }

    fn at(&self, text: &str) -> String {
        let all = self.words.iter();
        all.fold(text.to_owned(), |text, (name, word)| text.replace(&format!("@{name}@"), word))
    }

    /// Sends a request, or many concurrently; returns the answers including heads.
    fn exchange(&self, exchange: &Exchange) -> Vec<String> {
        let port = &self.words["PORT"];
        let send = |number: usize| {
            let request = self.request(exchange, number);
            let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
            stream.set_read_timeout(Some(ANSWER)).expect("a socket");
            let _ = stream.write_all(&request);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8_lossy(&answer).into_owned()
        };
        std::thread::scope(|scope| {
            let all: Vec<_> =
                (0..exchange.times.unwrap_or(1)).map(|n| scope.spawn(move || send(n))).collect();
            all.into_iter().map(|one| one.join().expect("an answer")).collect()
        })
    }

    fn request(&self, exchange: &Exchange, number: usize) -> Vec<u8> {
        let body = match &exchange.body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            json => json.to_string(),
        };
        let body = self.at(&body).replace("@N@", &number.to_string());
        let mut usual = vec![
            format!("Host: 127.0.0.1:{}", self.words["PORT"]),
            "Connection: close".to_owned(),
            format!("Content-Length: {}", body.len()),
        ];
        let hex = exchange.hex.replace(' ', "");
        if hex.is_empty() && !body.is_empty() {
            usual.push("Content-Type: application/json".to_owned());
            usual.push("Accept: application/json, text/event-stream".to_owned());
        }
        let token = exchange.token.as_deref().unwrap_or("own");
        usual.extend(self.tokens.get(token).map(|token| format!("Authorization: Bearer {token}")));
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_ascii_lowercase();
        usual.retain(|line| !exchange.headers.iter().any(|own| name(own) == name(line)));
        usual.extend(exchange.headers.iter().map(|line| self.at(line)));
        // A header line without a value removes the default one.
        usual.retain(|line| !line.ends_with(": "));
        let mut send = self.at(&exchange.send);
        for (name, token) in &self.tokens {
            send = send.replace(&format!("@TOKEN-{name}@"), token);
        }
        let head = format!("{send} HTTP/1.1\r\n{}\r\n\r\n{body}", usual.join("\r\n"));
        let more = hex.as_bytes().chunks(2).map(|two| {
            let two = std::str::from_utf8(two).expect("digits");
            u8::from_str_radix(two, 16).expect("two digits")
        });
        head.into_bytes().into_iter().chain(more).collect()
    }

    fn keep(&mut self, header: &str, answer: &str) {
        let line = answer.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case(header).then(|| value.trim().to_owned())
        });
        self.words.insert(header.to_uppercase(), line.expect("the header that is kept"));
    }

    /// Checks that SIGTERM ends it with code 0 and that the log holds no token.
    fn end(&mut self) -> Vec<String> {
        signal(i32::try_from(self.child.id()).expect("a process id"), Signal::TERM);
        let child = &mut self.child;
        let status = wait_for("the service to end", ANSWER, || child.try_wait().expect("a child"));
        let mut problems = Vec::new();
        if status.code() != Some(0) {
            problems.push(format!("SIGTERM: {status}"));
        }
        let log = std::fs::read_to_string(&self.stage.log).unwrap_or_default();
        let kept = super::stage::files(&self.stage.state());
        for (name, token) in &self.tokens {
            let own = |path: &std::path::Path| path.ends_with("own-token");
            let in_file = kept.iter().any(|(path, text)| {
                !own(path) && memchr::memmem::find(text, token.as_bytes()).is_some()
            });
            if log.contains(token.as_str()) || in_file {
                problems.push(format!("I8: the token {name} is in the log or in a file"));
            }
        }
        problems
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program with the row's configuration and state.
fn verb(stage: &Stage, args: &[&str]) -> Command {
    let mut command = Command::new(bin());
    command.args(args).arg("--config").arg(&stage.config).current_dir(stage.bench.path());
    command.env("MCPDECK_STATE_DIR", stage.state()).env("HOME", stage.bench.path());
    command.env("MCPDECK_CANARY_HOST", secrets()[0]).stdin(Stdio::null());
    command
}
