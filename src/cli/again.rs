//! The command line that would ask the same servers something else: advice that can be pasted.

use super::args::{Common, OneServer};
use crate::base::ServerName;
use crate::base::text::quoted;

/// Where the servers of this command come from.
#[derive(Clone, Copy)]
pub struct Again<'a> {
    /// Options of every command.
    pub common: &'a Common,
    /// A server without a file.
    pub one: &'a OneServer,
}

impl Again<'_> {
    /// The check of a server, with every step.
    pub fn check(self, server: &ServerName) -> String {
        self.line(["--check", "-v"], (None, Some("--server")), server)
    }

    /// The list of a server, with the parameters of its tools.
    pub fn list(self, server: &ServerName) -> String {
        self.line(["list", "--long"], (Some("--url"), None), server)
    }

    /// Headers as they were given; a value that names no variable may be a secret.
    fn headers(self) -> impl Iterator<Item = String> {
        self.one.given.header.iter().flat_map(|(name, value)| {
            let value = if value.contains("${") { value.as_str() } else { "..." };
            ["-H".to_owned(), quoted(&format!("{name}: {value}"))]
        })
    }

    /// The command line that says it.
    fn line(
        self,
        verb: [&str; 2],
        (url_option, server_option): (Option<&str>, Option<&str>),
        server: &ServerName,
    ) -> String {
        let mut words = vec!["mcpdeck".to_owned()];
        words.extend(verb.map(str::to_owned));
        match &self.one.url {
            Some(url) => {
                words.extend(url_option.map(str::to_owned));
                words.push(quoted(url));
                words.extend(self.headers());
            }
            None if self.one.command.is_empty() => {
                words.extend(server_option.map(str::to_owned));
                words.push(quoted(server.as_str()));
            }
            None => {}
        }
        for (option, files) in
            [("--config", &self.common.config), ("--env-file", &self.common.env_file)]
        {
            for file in files {
                words.extend([option.to_owned(), quoted(&file.display().to_string())]);
            }
        }
        for (name, value) in &self.one.given.env {
            let own = *value == format!("${{{name}}}");
            words.extend([
                "-e".to_owned(),
                quoted(&if own { name.clone() } else { format!("{name}=...") }),
            ]);
        }
        if !self.one.command.is_empty() {
            words.push("--".to_owned());
            words.extend(self.one.command.iter().map(|word| quoted(word)));
        }
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Given;

    #[test]
    fn advice_names_the_servers_as_the_command_did() {
        let name = ServerName::new("files");
        let said = |common: &Common, one: &OneServer| {
            let again = Again { common, one };
            (again.check(&name), again.list(&name))
        };
        let (plain, none) = (Common::default(), OneServer::default());
        let (check, list) = said(&plain, &none);
        assert_eq!(check, "mcpdeck --check -v --server files");
        assert_eq!(list, "mcpdeck list --long files");
        let file = Common { config: vec!["my team.json".into()], ..Common::default() };
        assert!(said(&file, &none).0.ends_with("--server files --config 'my team.json'"));
        let command = ["node", "a b.js"].map(str::to_owned).to_vec();
        let one = OneServer { command, ..OneServer::default() };
        assert_eq!(said(&plain, &one).0, "mcpdeck --check -v -- node 'a b.js'");
        assert_eq!(said(&plain, &one).1, "mcpdeck list --long -- node 'a b.js'");
        let header = ("Authorization".to_owned(), "Bearer ${TOKEN}".to_owned());
        let given =
            Given { header: vec![header, ("X-Key".to_owned(), "k3y".to_owned())], env: Vec::new() };
        let one = OneServer { url: Some("http://h/mcp".to_owned()), given, command: Vec::new() };
        let (check, list) = said(&plain, &one);
        let headers = "-H 'Authorization: Bearer ${TOKEN}' -H 'X-Key: ...'";
        assert_eq!(check, format!("mcpdeck --check -v http://h/mcp {headers}"));
        assert_eq!(list, format!("mcpdeck list --long --url http://h/mcp {headers}"));
        let one = OneServer { url: Some("http://h/mcp".to_owned()), ..OneServer::default() };
        assert_eq!(said(&plain, &one).0, "mcpdeck --check -v http://h/mcp");
        assert_eq!(said(&plain, &one).1, "mcpdeck list --long --url http://h/mcp");
    }
}
