//! A Streamable HTTP server that floods: this program in another process, so that its cost does not
//! count for the host. Implements just enough HTTP for one well-behaved client.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// Environment variable that makes this program the server: size of the flood in bytes.
pub const SERVER: &str = "MCPDECK_BENCH_WEB";

/// Tool that floods with notifications before its answer.
pub const EVENTS: &str = "web.events";
/// Tool whose answer is the flood.
pub const BODY: &str = "web.body";

/// The server process, killed on drop, and its address.
pub struct Web(Child, pub String);

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the server.
pub fn start(bytes: u64) -> io::Result<Web> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.env(SERVER, bytes.to_string()).stdout(Stdio::piped()).spawn()?;
    let mut url = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut url)?;
    }
    Ok(Web(child, url.trim().to_owned()))
}

/// Serves until it is terminated; prints its address first.
pub fn serve() {
    let bytes = std::env::var(SERVER).unwrap().parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("http://{}/mcp", listener.local_addr().unwrap());
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || while answer(&stream, bytes).is_ok() {});
    }
}

/// Handles one request; returns an error at the end of the connection.
fn answer(stream: &TcpStream, bytes: u64) -> io::Result<()> {
    let (method, body) = request(stream)?;
    let mut out = io::BufWriter::with_capacity(64 << 10, stream);
    if method != "POST" {
        let status = if method == "GET" { "405 Method Not Allowed" } else { "200 OK" };
        write!(out, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")?;
        return out.flush();
    }
    let message: serde_json::Value = serde_json::from_slice(&body)?;
    let id = &message["id"];
    let result = match (message["method"].as_str(), message["params"]["name"].as_str()) {
        (Some("initialize"), _) => {
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}"#
        }
        (Some("tools/list"), _) => {
            r#"{"tools":[{"name":"events","inputSchema":{"type":"object"}},{"name":"body","inputSchema":{"type":"object"}}]}"#
        }
        (_, Some("events")) => {
            events(&mut out, id, bytes)?;
            return out.flush();
        }
        (_, Some("body")) => {
            huge(&mut out, id, bytes)?;
            return out.flush();
        }
        _ if id.is_null() => {
            write!(out, "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")?;
            return out.flush();
        }
        _ => "{}",
    };
    let json = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    let length = json.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    write!(out, "{head} {length}\r\n\r\n{json}")?;
    out.flush()
}

fn request(stream: &TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut input = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    if input.read_line(&mut first)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok((first.split(' ').next().unwrap_or_default().to_owned(), body))
}

/// Sends a stream of notifications that ends with the answer.
fn events(out: &mut impl Write, id: &serde_json::Value, bytes: u64) -> io::Result<()> {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a line, as logs have them"}}"#;
    let block = format!("event: message\ndata: {note}\n\n").repeat(400);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
    write!(out, "{head}\r\n\r\n")?;
    for _ in 0..bytes / block.len() as u64 {
        write!(out, "{:x}\r\n{block}\r\n", block.len())?;
    }
    let last =
        format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[]}}}}\n\n");
    write!(out, "{:x}\r\n{last}\r\n0\r\n\r\n", last.len())
}

/// Sends one answer of the size of the flood.
fn huge(out: &mut impl Write, id: &serde_json::Value, bytes: u64) -> io::Result<()> {
    let before =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
    let after = r#""}]}}"#;
    let block = vec![b'x'; 64 << 10];
    let blocks = bytes / block.len() as u64;
    let length = before.len() as u64 + blocks * block.len() as u64 + after.len() as u64;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    write!(out, "{head} {length}\r\n\r\n{before}")?;
    for _ in 0..blocks {
        out.write_all(&block)?;
    }
    out.write_all(after.as_bytes())
}
