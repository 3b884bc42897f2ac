//! From the arguments of a call to an HTTP request that stays within its operation.

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Map, Value};
use url::Url;

use crate::operation::{ApiOperation, PathPiece, leaves_path};
use crate::parameter::{ArgumentProblem, ParameterPlace};

/// A request to send.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApiRequest {
    /// Its method.
    pub method: Method,
    /// Its address: the base of the entry and what the operation adds to it.
    pub url: Url,
    /// Its headers, besides those of the entry.
    pub headers: HeaderMap,
    /// Its body and the media type of that.
    pub body: Option<(String, Vec<u8>)>,
}

impl ApiOperation {
    /// The request of a call.
    ///
    /// # Errors
    /// When an argument is missing, has no form in its place, or would change which operation is
    /// reached: an empty text or a dot segment in the path, control characters in a header.
    pub fn request(&self, arguments: &Map<String, Value>) -> Result<ApiRequest, ArgumentProblem> {
        let given = |argument: &str| arguments.get(argument).filter(|value| !value.is_null());
        let mut url = self.base.clone();
        let path = self.path(&given)?;
        url.set_path(&path);
        // The parser normalizes; what it changes was not meant.
        if url.path() != path {
            return Err(ArgumentProblem::new(
                &self.label(),
                "would leave the path of its operation",
            ));
        }
        let mut query: Vec<String> = self.base.query().map(str::to_owned).into_iter().collect();
        let mut headers = HeaderMap::new();
        let mut cookies = Vec::new();
        for parameter in &self.parameters {
            let Some(value) = given(&parameter.argument) else { continue };
            let pairs = || {
                let pairs = parameter.style.pairs(&parameter.name, value).into_iter();
                pairs.map(|(name, value)| format!("{name}={value}"))
            };
            match parameter.place {
                ParameterPlace::Path => {}
                ParameterPlace::Query => query.extend(pairs()),
                ParameterPlace::Cookie => cookies.extend(pairs()),
                ParameterPlace::Header => {
                    let wrong = |()| {
                        let what = "holds characters that no header may have";
                        ArgumentProblem::new(&parameter.argument, what)
                    };
                    let value = parameter.style.in_header(value);
                    let value = HeaderValue::from_str(&value).map_err(|_| wrong(()))?;
                    let name: HeaderName = parameter
                        .name
                        .parse()
                        .map_err(|_: http::header::InvalidHeaderName| wrong(()))?;
                    headers.insert(name, value);
                }
            }
        }
        if !cookies.is_empty()
            && let Ok(value) = HeaderValue::from_str(&cookies.join("; "))
        {
            headers.insert(COOKIE, value);
        }
        query.retain(|pair| !pair.is_empty());
        url.set_query(Some(query.join("&")).filter(|query| !query.is_empty()).as_deref());
        let body = match &self.body {
            None => None,
            Some(body) => match given(&body.argument) {
                Some(value) => Some(body.write(value)?),
                None if body.is_required => {
                    return Err(ArgumentProblem::new(&body.argument, "is missing"));
                }
                None => None,
            },
        };
        Ok(ApiRequest { method: self.method.clone(), url, headers, body })
    }

    /// The path with its parameters filled in.
    fn path<'v>(
        &self,
        given: &dyn Fn(&str) -> Option<&'v Value>,
    ) -> Result<String, ArgumentProblem> {
        let mut path = self.base.path().trim_end_matches('/').to_owned();
        for piece in &self.path {
            let name = match piece {
                PathPiece::Literal(text) => {
                    path.push_str(text);
                    continue;
                }
                PathPiece::Parameter(name) => name,
            };
            let parameter = self
                .parameters
                .iter()
                .find(|one| one.place == ParameterPlace::Path && one.name == *name);
            let Some(parameter) = parameter else { continue };
            let wrong = |what: &str| ArgumentProblem::new(&parameter.argument, what);
            let value = given(&parameter.argument).ok_or_else(|| wrong("is missing"))?;
            let mut texts = Vec::new();
            texts_within(value, &mut texts);
            // An empty segment would name the collection in place of one of its members.
            if texts.iter().all(String::is_empty) {
                return Err(wrong("is empty, and stands in the path"));
            }
            if texts.iter().any(|text| leaves_path(text)) {
                return Err(wrong("holds `.` or `..` as a segment, which would leave the path"));
            }
            path.push_str(&parameter.style.in_path(name, value));
        }
        Ok(if path.is_empty() { "/".to_owned() } else { path })
    }
}

/// All texts of a value.
fn texts_within(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| texts_within(item, out)),
        Value::Object(members) => {
            for (key, item) in members {
                out.push(key.clone());
                texts_within(item, out);
            }
        }
        value => out.push(crate::parameter::text(value)),
    }
}
