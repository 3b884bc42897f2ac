//! Export of a call as a command line, JSON-RPC, curl, code in Rust, Python, TypeScript, or a page
//! with its result. Pure.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::subject::{CallSubject, SubjectKind};
use base::text::json::WrittenValue;
use base::text::quoted;
use host::Validation;

named! {
    /// The formats to copy a call in, in menu order, with their labels.
    pub enum Export {
        /// `mcpdeck call ...`
        CommandLine = "command line",
        /// The JSON-RPC request.
        JsonRpc = "JSON-RPC",
        /// `curl`, for a server with a URL.
        Curl = "curl",
        /// Python, with the MCP SDK.
        Python = "Python",
        /// TypeScript, with the MCP SDK.
        TypeScript = "TypeScript",
        /// Rust, with this library.
        Rust = "Rust",
        /// The arguments alone.
        Arguments = "arguments",
    }
}

impl Export {
    /// Whether calls of this subject have this format.
    pub fn fits(self, subject: &CallSubject) -> bool {
        match self {
            Self::Curl => subject.has_address(),
            Self::Rust | Self::Python | Self::TypeScript => subject.kind != SubjectKind::Request,
            Self::CommandLine | Self::JsonRpc | Self::Arguments => true,
        }
    }

    /// The call in this format.
    pub fn text(self, call: &WrittenCall<'_>) -> String {
        match self {
            Self::CommandLine => call.command_line(),
            Self::JsonRpc => call.json_rpc(),
            Self::Rust => call.rust(),
            Self::Python => call.python(),
            Self::TypeScript => call.typescript(),
            Self::Curl => format!(
                "curl -sS {} -H 'Content-Type: application/json' \\\n  \
                 -H 'Accept: application/json, text/event-stream' \\\n  -d {}",
                quoted(&call.subject.target),
                quoted(&call.json_rpc())
            ),
            Self::Arguments => serde_json::to_string_pretty(call.arguments).unwrap_or_default(),
        }
    }
}

/// A call to be exported.
#[derive(Clone, Copy, Debug)]
pub struct WrittenCall<'a> {
    /// The subject of the call.
    pub subject: &'a CallSubject,
    pub arguments: &'a WrittenValue,
    /// The expanded template, or the URI of a resource.
    pub uri: &'a str,
    /// Whether validation is enforced or bypassed.
    pub validation: Validation,
    /// Where the server comes from, for the command line.
    pub origin: &'a ExportOrigin,
}

/// How a call ended, for a page.
#[derive(Clone, Debug, Default)]
pub struct SharedResult {
    /// How it ended, in a few words.
    pub ending: String,
    /// The error, if there is no result.
    pub error: Option<String>,
    pub result: Option<WrittenValue>,
}

/// Longest text of a block on a page, in characters.
const MAX_BLOCK_CHARS: usize = 4 << 20;

/// One HTML page with a call and its result. It loads nothing, and nothing on it runs.
pub fn page(call: &WrittenCall<'_>, shared: &SharedResult) -> String {
    let pretty = |value: &WrittenValue| serde_json::to_string_pretty(value).unwrap_or_default();
    let title = escaped(&call.subject.canonical());
    let mut body = format!("<h1>{title}</h1>\n<p>{}</p>\n", escaped(&shared.ending));
    let mut section = |heading: &str, text: &str| {
        let _ = write!(body, "<h2>{heading}</h2>\n<pre>{}</pre>\n", escaped(text));
    };
    section("Arguments", &pretty(call.arguments));
    if let Some(error) = &shared.error {
        section("Error", error);
    }
    let blocks = shared.result.as_ref().and_then(|result| result.get("content")?.as_array());
    for (index, block) in blocks.into_iter().flatten().enumerate() {
        let whole = || shared.result.as_ref().map(|it| it.part(&format!("/content/{index}")));
        match block.get("text").and_then(Value::as_str) {
            Some(text) => section("Result", text),
            None => section("Result", &pretty(&whole().unwrap_or_default())),
        }
    }
    match &shared.result {
        Some(result) if blocks.is_none() => section("Result", &pretty(result)),
        Some(result) if result.get("structuredContent").is_some() => {
            section("Structured result", &pretty(&result.part("/structuredContent")));
        }
        _ => {}
    }
    section("Make it again", &call.command_line());
    framed(&title, &body)
}

/// A text as it is written on a page: nothing in it is markup, and what is hidden in it is marked.
pub fn escaped(text: &str) -> String {
    base::text::SafeText::cut_block(text, MAX_BLOCK_CHARS).to_html()
}

/// A whole page with this title and body, both as markup. It loads nothing and runs nothing.
pub fn framed(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{title}</title>\n<style>\n\
         :root {{ color-scheme: light dark }}\n\
         body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}\n\
         h1 {{ font-size: 1.4rem }}\nh2 {{ font-size: 1rem; margin: 1.5rem 0 .3rem }}\n\
         pre {{ white-space: pre-wrap; overflow-wrap: anywhere; padding: .8rem; border: 1px solid #8886; \
         border-radius: .4rem }}\n\
         table {{ border-collapse: collapse; width: 100% }}\n\
         th, td {{ text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0 }}\n\
         .number {{ text-align: right; white-space: nowrap }}\n.red {{ color: #c33 }}\n</style>\n{body}</html>\n"
    )
}

/// Where the servers of the dashboard come from, as far as a command line has to repeat it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportOrigin {
    /// How the dashboard was started.
    pub start: Start,
    /// Options it was started with: files of variables, headers, variables.
    pub options: Vec<String>,
}

/// What the dashboard was started with.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// These configuration files.
    Files(Vec<PathBuf>),
    /// A single server at this URL.
    Url(String),
    /// A single server started by this command.
    Command(Vec<String>),
    /// The embedded demo servers.
    Demo,
}

impl Default for Start {
    fn default() -> Self {
        Self::Files(Vec::new())
    }
}

impl WrittenCall<'_> {
    fn json_rpc(&self) -> String {
        let mut request = WrittenValue::from(json!({"jsonrpc": "2.0", "id": 1}));
        let named = || {
            let mut named = WrittenValue::from(json!({"name": &*self.subject.wire}));
            named.insert_written("arguments", self.arguments.clone());
            named
        };
        let (method, params) = match self.subject.kind {
            SubjectKind::Tool => (json!("tools/call"), Some(named())),
            SubjectKind::Prompt => (json!("prompts/get"), Some(named())),
            SubjectKind::Request => {
                let params = self.arguments.get("params").map(|_| self.arguments.part("/params"));
                (self.arguments["method"].clone(), params)
            }
            SubjectKind::Template | SubjectKind::Resource => {
                (json!("resources/read"), Some(json!({"uri": self.uri}).into()))
            }
        };
        request.insert("method", method);
        if let Some(params) = params {
            request.insert_written("params", params);
        }
        request.to_string()
    }

    /// A program that starts the server or connects to it, and makes the call.
    fn python(&self) -> String {
        let target = Value::from(self.subject.target.as_str());
        let (import, connect) = if self.subject.has_address() {
            let import = "from mcp.client.streamable_http import streamable_http_client".to_owned();
            (import, format!("streamable_http_client({target}) as (read, write, *_)"))
        } else {
            let import = format!(
                "from mcp import StdioServerParameters\nfrom mcp.client.stdio import stdio_client\n\n\
                 command, *args = shlex.split({target})\n\
                 server = StdioServerParameters(command=command, args=args)"
            );
            (import, "stdio_client(server) as (read, write)".to_owned())
        };
        // A JSON string is also a valid Python string.
        let arguments = Value::from(self.arguments.to_string());
        let name = Value::from(&*self.subject.wire);
        let call = match self.subject.kind {
            SubjectKind::Tool => format!("call_tool({name}, json.loads({arguments}))"),
            SubjectKind::Prompt => format!("get_prompt({name}, json.loads({arguments}))"),
            _ => format!("read_resource({})", Value::from(self.uri)),
        };
        format!(
            "import asyncio, json, shlex\nfrom mcp import ClientSession\n{import}\n\n\
             async def main():\n    async with {connect}, ClientSession(read, write) as session:\n        \
             await session.initialize()\n        print(await session.{call})\n\n\
             asyncio.run(main())\n"
        )
    }

    fn typescript(&self) -> String {
        const SDK: &str = "@modelcontextprotocol/sdk/client";
        let target = Value::from(self.subject.target.as_str());
        let (import, transport) = if self.subject.has_address() {
            let import = format!(
                "import {{ StreamableHTTPClientTransport }} from \"{SDK}/streamableHttp.js\";"
            );
            (import, format!("new StreamableHTTPClientTransport(new URL({target}))"))
        } else {
            let import = format!("import {{ StdioClientTransport }} from \"{SDK}/stdio.js\";");
            let words = format!("const [command, ...args] = {target}.split(\" \");");
            (
                format!("{import}\n\n{words}"),
                "new StdioClientTransport({ command, args })".to_owned(),
            )
        };
        let arguments = self.arguments;
        let name = Value::from(&*self.subject.wire);
        let call = match self.subject.kind {
            SubjectKind::Tool => format!("callTool({{ name: {name}, arguments: {arguments} }})"),
            SubjectKind::Prompt => format!("getPrompt({{ name: {name}, arguments: {arguments} }})"),
            _ => format!("readResource({{ uri: {} }})", Value::from(self.uri)),
        };
        format!(
            "import {{ Client }} from \"{SDK}/index.js\";\n{import}\n\
             const client = new Client({{ name: \"example\", version: \"1.0.0\" }});\n\
             await client.connect({transport});\nconsole.log(await client.{call});\n\
             await client.close();\n"
        )
    }

    fn command_line(&self) -> String {
        let verb = match self.subject.kind {
            SubjectKind::Tool => "call",
            SubjectKind::Prompt => "prompt",
            SubjectKind::Template | SubjectKind::Resource => "read",
            SubjectKind::Request => "request",
        };
        let mut words = vec!["mcpdeck".to_owned(), verb.to_owned()];
        let named =
            |option: &str, path: &PathBuf| [option.to_owned(), path.to_string_lossy().into_owned()];
        words.extend(self.origin.options.iter().cloned());
        match &self.origin.start {
            Start::Files(files) => words.extend(files.iter().flat_map(|f| named("--config", f))),
            Start::Url(url) => words.extend(["--url".to_owned(), url.clone()]),
            Start::Command(_) | Start::Demo => {}
        }
        let demo = self.origin.start == Start::Demo;
        // A single demo server gets its name from the program, so the bare name is used.
        let name = if demo { self.subject.wire.to_string() } else { self.subject.canonical() };
        match self.subject.kind {
            SubjectKind::Tool => {
                if self.validation == Validation::Force {
                    words.push("--force".to_owned());
                }
                words.extend([name, self.arguments.to_string()]);
            }
            SubjectKind::Prompt => words.extend([name, self.arguments.to_string()]),
            _ => {
                if !demo {
                    words.extend(["--server".to_owned(), self.subject.server.to_string()]);
                }
                match self.arguments["method"].as_str() {
                    Some(method) if self.subject.kind == SubjectKind::Request => {
                        words.push(method.to_owned());
                        let params = self.arguments.get("params");
                        words.extend(params.map(|_| self.arguments.part("/params").to_string()));
                    }
                    _ => words.push(self.uri.to_owned()),
                }
            }
        }
        match &self.origin.start {
            Start::Command(command) => {
                words.push("--".to_owned());
                words.extend(command.iter().cloned());
            }
            Start::Demo => {
                let server = self.subject.server.to_string();
                words.extend(["--", "mcpdeck", "demo-server"].map(str::to_owned));
                words.push(server);
            }
            Start::Files(_) | Start::Url(_) => {}
        }
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Statements of an async function that has a `host`. They are kept short so that they are
    /// formatted as rustfmt would, whatever the names are.
    fn rust(&self) -> String {
        const FORCE: &str = "let options = mcpdeck::host::CallOptions {\n    \
                             validation: mcpdeck::host::Validation::Force,\n    \
                             ..Default::default()\n};\n";
        let (name, json) = (self.subject.canonical(), raw_string(self.arguments));
        let arguments =
            format!("let json = {json};\nlet arguments = serde_json::from_str(json)?;\n");
        match (self.subject.kind, self.validation) {
            (SubjectKind::Tool, Validation::Enforce) => format!(
                "let tool = {name:?};\n{arguments}\
                 let outcome = host.call_tool(tool, arguments).await?;\n"
            ),
            (SubjectKind::Tool, Validation::Force) => format!(
                "let tool = {name:?};\n{arguments}{FORCE}\
                 let outcome = host.call_tool_with(tool, arguments, options).await?;\n"
            ),
            (SubjectKind::Prompt, _) => format!(
                "let prompt = {name:?};\n{arguments}\
                 let outcome = host.get_prompt(prompt, arguments).await?;\n"
            ),
            _ => {
                format!("let uri = {:?};\nlet outcome = host.get_resource(uri).await?;\n", self.uri)
            }
        }
    }
}

/// The JSON of a value as a Rust raw string literal.
fn raw_string(value: &WrittenValue) -> String {
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut fence = String::new();
    while json.contains(&format!("\"{fence}")) {
        fence.push('#');
    }
    format!("r{fence}\"{json}\"{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_ends_no_raw_string_that_holds_it() {
        assert_eq!(raw_string(&json!({}).into()), "r\"{}\"");
        assert_eq!(raw_string(&json!("a\"#b").into()), "r##\"\"a\\\"#b\"\"##");
    }
}
