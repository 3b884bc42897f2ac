//! Values the server suggests while a prompt or a template is filled in, depending on what was
//! filled in before.

use super::results::{received, scripted};
use super::*;

const CTRL_SPACE: &str = "\0";

/// A server that suggests values which name the argument, what was typed of it, and the country
/// that was chosen before.
fn suggesting(capabilities: &Value) -> Value {
    json!({
        "capabilities": capabilities,
        "prompts": [{"name": "visit", "arguments": [
            {"name": "country", "required": true}, {"name": "city", "required": true}]}],
        "resourceTemplates": [{"uriTemplate": "map://{country}/{city}{?zoom}", "name": "map"}],
        "on": {
            "completion/complete": {"answer": {"completion": {"values": [
                "${params.argument.name}-${params.argument.value}-${params.context.arguments.country:-anywhere}"]}}},
            "prompts/get": {"answer": {"messages": [{"role": "user", "content": {"type": "text",
                "text": "to ${params.arguments.city} of ${params.arguments.country}"}}]}},
            "resources/read": {"answer": {"contents": [{"uri": "${params.uri}", "text": "read ${params.uri}"}]}},
        },
    })
}

#[test]
fn a_prompt_is_completed_by_the_server_with_what_was_chosen_before() {
    let offers = json!({"prompts": {}, "completions": {}});
    let mut deck = scripted(&suggesting(&offers));
    deck.keys("3v");
    deck.wait("visit");
    deck.keys(ENTER);
    // Before a key is typed, and again with what was typed.
    deck.wait("country--anywhere");
    deck.keys("No");
    deck.wait("country-No-anywhere");
    deck.keys(CTRL_SPACE);
    deck.gone("ctrl-space");
    deck.keys(DOWN);
    deck.wait("city--country-No-anywhere");
    deck.keys("Os");
    deck.wait("city-Os-country-No-anywhere");
    deck.keys(CTRL_SPACE);
    deck.gone("ctrl-space");
    deck.keys(F5);
    deck.wait("to city-Os-country-No-anywhere of country-No-anywhere");
    leave(&mut deck);
    deck.quit();
}

#[test]
fn a_template_is_completed_by_the_server_and_read_where_it_leads() {
    let offers = json!({"resources": {}, "completions": {}});
    let mut deck = scripted(&suggesting(&offers));
    deck.keys("3");
    deck.wait("map://");
    deck.keys(ENTER);
    deck.wait("country--anywhere");
    deck.keys("Fr");
    deck.wait("country-Fr-anywhere");
    deck.keys(CTRL_SPACE);
    deck.gone("ctrl-space");
    deck.keys(DOWN);
    deck.wait("city--country-Fr-anywhere");
    deck.keys("St. \u{c9}tienne");
    deck.keys(DOWN);
    deck.wait("zoom--country-Fr-anywhere");
    deck.keys("3");
    deck.keys(F5);
    deck.wait("read map://country-Fr-anywhere/St.%20%C3%89tienne?zoom=3");
    assert!(received(&deck, "ref/resource") >= 4, "the template is what is completed");
    leave(&mut deck);
    deck.quit();
}

#[test]
fn a_server_that_offers_no_completions_is_never_asked_for_them() {
    let offers = json!({"prompts": {}});
    let mut deck = scripted(&suggesting(&offers));
    deck.keys("3v");
    deck.wait("visit");
    deck.keys(ENTER);
    deck.wait("country *");
    deck.keys("Norway");
    deck.keys(DOWN);
    deck.keys("Oslo");
    deck.keys(F5);
    deck.wait("to Oslo of Norway");
    assert_eq!(received(&deck, "completion/complete"), 0);
    leave(&mut deck);
    deck.quit();
}
