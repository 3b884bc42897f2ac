//! Calls as the dashboard copies them as Rust, each in a function. Written by the test beside it.

use std::error::Error;

use mcpdeck::host::{CallOutcome, Host};

type Copied = Result<CallOutcome, Box<dyn Error>>;

pub async fn nothing(host: &Host) -> Copied {
    let tool = "my deck.say";
    let json = r"{}";
    let arguments = serde_json::from_str(json)?;
    let outcome = host.call_tool(tool, arguments).await?;
    Ok(outcome)
}

pub async fn plain(host: &Host) -> Copied {
    let tool = "my deck.a-tool-whose-name-is-rather-long-for-a-line-of-code-that-has-more-on-it";
    let json = r#"{
      "a": "x",
      "b": [
        1,
        {
          "c": 2
        }
      ]
    }"#;
    let arguments = serde_json::from_str(json)?;
    let outcome = host.call_tool(tool, arguments).await?;
    Ok(outcome)
}

pub async fn awkward(host: &Host) -> Copied {
    let tool = "my deck.say";
    let json = r#"{
      "quo\"te": "a\\b \"c\" 'd' ${e} {f} \u0007 ü 🦀\nline\ttab",
      "numbers": [
        0,
        -1,
        2147483648,
        -9223372036854775808,
        18446744073709551615,
        0.5,
        1e+300,
        -0.0
      ],
      "nothing": null,
      "no": false,
      "empty": {},
      "none": [],
      "": {
        "deep": [
          [
            {
              "er": ""
            }
          ]
        ]
      }
    }"#;
    let arguments = serde_json::from_str(json)?;
    let outcome = host.call_tool(tool, arguments).await?;
    Ok(outcome)
}

pub async fn large(host: &Host) -> Copied {
    let tool = "my deck.say";
    let json = r###"{
      "many": [
        "\"#0\"##",
        "\"#1\"##",
        "\"#2\"##",
        "\"#3\"##",
        "\"#4\"##",
        "\"#5\"##",
        "\"#6\"##",
        "\"#7\"##",
        "\"#8\"##",
        "\"#9\"##",
        "\"#10\"##",
        "\"#11\"##",
        "\"#12\"##",
        "\"#13\"##",
        "\"#14\"##",
        "\"#15\"##",
        "\"#16\"##",
        "\"#17\"##",
        "\"#18\"##",
        "\"#19\"##",
        "\"#20\"##",
        "\"#21\"##",
        "\"#22\"##",
        "\"#23\"##",
        "\"#24\"##",
        "\"#25\"##",
        "\"#26\"##",
        "\"#27\"##",
        "\"#28\"##",
        "\"#29\"##",
        "\"#30\"##",
        "\"#31\"##",
        "\"#32\"##",
        "\"#33\"##",
        "\"#34\"##",
        "\"#35\"##",
        "\"#36\"##",
        "\"#37\"##",
        "\"#38\"##",
        "\"#39\"##",
        "\"#40\"##",
        "\"#41\"##",
        "\"#42\"##",
        "\"#43\"##",
        "\"#44\"##",
        "\"#45\"##",
        "\"#46\"##",
        "\"#47\"##",
        "\"#48\"##",
        "\"#49\"##",
        "\"#50\"##",
        "\"#51\"##",
        "\"#52\"##",
        "\"#53\"##",
        "\"#54\"##",
        "\"#55\"##",
        "\"#56\"##",
        "\"#57\"##",
        "\"#58\"##",
        "\"#59\"##"
      ]
    }"###;
    let arguments = serde_json::from_str(json)?;
    let outcome = host.call_tool(tool, arguments).await?;
    Ok(outcome)
}

pub async fn forced(host: &Host) -> Copied {
    let tool = "my deck.strict";
    let json = r#"{
      "n": "no number"
    }"#;
    let arguments = serde_json::from_str(json)?;
    let options = mcpdeck::host::CallOptions {
        validation: mcpdeck::host::Validation::Force,
        ..Default::default()
    };
    let outcome = host.call_tool_with(tool, arguments, options).await?;
    Ok(outcome)
}

pub async fn prompt(host: &Host) -> Copied {
    let prompt = "my deck.greet";
    let json = r#"{
      "who": "Ada"
    }"#;
    let arguments = serde_json::from_str(json)?;
    let outcome = host.get_prompt(prompt, arguments).await?;
    Ok(outcome)
}

pub async fn resource(host: &Host) -> Copied {
    let uri = "note://one";
    let outcome = host.get_resource(uri).await?;
    Ok(outcome)
}
