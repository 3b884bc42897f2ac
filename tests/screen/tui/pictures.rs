//! Pictures of the main screens at three sizes, drawn by the dashboard itself and kept in
//! `fixtures/screens`. `INSTA_UPDATE=always` draws them anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use mcpdeck::host::{CallOutcome, ServerMetrics};
use mcpdeck::protocol::CallId;
use mcpdeck::tui::app::App;
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr as _;

use super::*;

const NONE: KeyModifiers = KeyModifiers::NONE;
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];
/// Cells of the picture, in pixels.
const CELL: (u32, u32) = (8, 18);

/// Rows of the screen as an SVG picture: the cells of a row that look alike are one text.
pub fn picture(app: &mut App, width: u16, height: u16, rows: Range<u16>) -> String {
    draw(app, width, height);
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    app.render(area, &mut buffer);
    let rgb = |colour: Color| match colour {
        Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
        _ => None,
    };
    let ground = rgb(buffer[(0, 0)].bg).unwrap_or_else(|| "#1e1e2e".to_owned());
    let (w, h) = (u32::from(width) * CELL.0, rows.len() as u32 * CELL.1);
    let mut classes: BTreeMap<String, usize> = BTreeMap::new();
    let mut body = String::new();
    for y in rows.clone() {
        let style = |x: u16| {
            let cell = &buffer[(x, y)];
            (cell.fg, cell.bg, cell.modifier & (Modifier::BOLD | Modifier::ITALIC))
        };
        let top = u32::from(y - rows.start) * CELL.1;
        let mut from = 0;
        while from < width {
            let to = (from..width).find(|x| style(*x) != style(from)).unwrap_or(width);
            let symbols = || (from..to).map(|x| buffer[(x, y)].symbol());
            let text: String =
                symbols().map(|one| if strokes(one).is_some() { " " } else { one }).collect();
            let lines = drawn_lines(symbols().map(strokes), (from, top));
            let (fg, bg, modifier) = style(from);
            let (x, cells) = (u32::from(from) * CELL.0, u32::from(to - from) * CELL.0);
            if let Some(bg) = rgb(bg).filter(|bg| *bg != ground) {
                let _ = writeln!(
                    body,
                    "<rect x=\"{x}\" y=\"{top}\" width=\"{cells}\" height=\"{}\" fill=\"{bg}\"/>",
                    CELL.1
                );
            }
            let fg = rgb(fg).unwrap_or_else(|| "#cdd6f4".to_owned());
            if !lines.is_empty() {
                let _ = writeln!(body, "<path d=\"{lines}\" fill=\"{fg}\"/>");
            }
            let mut look = format!("fill:{fg}");
            if modifier.contains(Modifier::BOLD) {
                look.push_str(";font-weight:bold");
            }
            if modifier.contains(Modifier::ITALIC) {
                look.push_str(";font-style:italic");
            }
            for (start, shown) in words(&text) {
                let known = classes.len();
                let class = *classes.entry(look.clone()).or_insert(known);
                let (x, cells) = (x + start * CELL.0, shown.width() as u32 * CELL.0);
                let shown = shown.replace('&', "&amp;").replace('<', "&lt;");
                let _ = writeln!(
                    body,
                    "<text x=\"{x}\" y=\"{}\" textLength=\"{cells}\" class=\"c{class}\">{shown}</text>",
                    top + 13
                );
            }
            from = to;
        }
    }
    let styles: Vec<String> = classes.iter().map(|(look, n)| format!(".c{n}{{{look}}}")).collect();
    let styles = styles.concat();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" font-family=\"monospace\" \
         font-size=\"13.3\"><style>{styles}</style><rect width=\"{w}\" height=\"{h}\" fill=\"{ground}\"/>\n\
         {body}</svg>\n"
    )
}

/// How thick the lines of a sign are to the left, to the right, up and down, in pixels. Fonts leave
/// gaps between such signs.
fn strokes(symbol: &str) -> Option<[u32; 4]> {
    Some(match symbol {
        "─" => [1, 1, 0, 0],
        "━" => [2, 2, 0, 0],
        "│" => [0, 0, 1, 1],
        "┃" => [0, 0, 2, 2],
        "┬" => [1, 1, 0, 1],
        "┴" => [1, 1, 1, 0],
        "├" => [0, 1, 1, 1],
        "┤" => [1, 0, 1, 1],
        "╭" => [0, 1, 0, 1],
        "╮" => [1, 0, 0, 1],
        "╰" | "└" => [0, 1, 1, 0],
        "╯" => [1, 0, 1, 0],
        _ => return None,
    })
}

/// These lines as rectangles of a path; those that go on to the right are one.
fn drawn_lines(signs: impl Iterator<Item = Option<[u32; 4]>>, (column, top): (u16, u32)) -> String {
    let mut out = String::new();
    let mut rectangle = |x: u32, y: u32, w: u32, h: u32| {
        let _ = write!(out, "M{x} {y}h{w}v{h}h-{w}z");
    };
    let middle = top + CELL.1 / 2;
    // Where a line to the right began, and how thick it is.
    let mut open: Option<(u32, u32)> = None;
    let mut x = u32::from(column) * CELL.0;
    for sign in signs.chain([None]) {
        let [left, right, up, down] = sign.unwrap_or_default();
        let half = x + CELL.0 / 2;
        let was_open = open.is_some();
        if let Some((begun, thick)) = open.take_if(|(_, thick)| *thick != left || left != right) {
            let end = if left == thick { half + 1 } else { x };
            rectangle(begun, middle, end - begun, thick);
        }
        if right > 0 && open.is_none() {
            open = Some((if left == right { x } else { half }, right));
        } else if left > 0 && right == 0 && !was_open {
            rectangle(x, middle, half + 1 - x, left);
        }
        for (thick, from, to) in [(up, top, middle + 1), (down, middle, top + CELL.1)] {
            if thick > 0 {
                rectangle(half, from, thick, to - from);
            }
        }
        x += CELL.0;
    }
    out
}

/// The parts of a text that have no gap of several blanks, with the column each begins in.
fn words(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = &text[from..];
        let begin = from + (rest.len() - rest.trim_start_matches(' ').len());
        let end = text[begin..].find("  ").map_or(text.trim_end().len(), |gap| begin + gap);
        from = end.max(begin);
        (begin < end).then(|| (text[..begin].width() as u32, &text[begin..end]))
    })
}

/// Compares a picture with the one that is kept under a name.
pub fn is_kept(name: &str, drawn: &str) {
    let file = format!("{}/fixtures/screens/{name}.svg", env!("CARGO_MANIFEST_DIR"));
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&file, drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default().replace("\r\n", "\n");
    assert!(kept == drawn, "{file} shows another screen");
}

/// A dashboard over a recorded session, in colour.
fn coloured(situation: &str) -> App {
    let setup =
        Setup { theme: Some("catppuccin".to_owned()), themes: mcpdeck::THEMES, ..Setup::default() };
    let mut app = app_with(situation, setup);
    let metrics = |requests, tool_errors| {
        let mut metrics = ServerMetrics::default();
        metrics.total.requests = requests;
        metrics.total.tool_errors = tool_errors;
        metrics
    };
    let figures = [("filesystem".into(), metrics(128, 2)), ("memory".into(), metrics(41, 0))];
    app.update(Message::News(News::Metrics(figures.into())));
    app
}

/// A screen: its name, the session, the keys that lead there.
const SCREENS: [(&str, &str, &str); 9] = [
    ("servers", "degraded", "1"),
    ("metrics", "typical", "1v"),
    ("tools", "typical", "2"),
    ("prompts", "typical", "3v"),
    ("traffic", "typical", "4"),
    ("logs", "typical", "5"),
    ("inbox", "degraded", "6"),
    ("config", "degraded", "7"),
    ("palette", "typical", "2:"),
];

#[test]
fn the_pictures_of_the_main_screens_are_what_the_program_draws() {
    for (width, height) in SIZES {
        for (name, situation, keys) in SCREENS {
            let mut app = coloured(situation);
            draw(&mut app, width, height);
            for key in keys.chars() {
                press(&mut app, KeyCode::Char(key), NONE);
                draw(&mut app, width, height);
            }
            let drawn = picture(&mut app, width, height, 0..height);
            is_kept(&format!("{name}-{width}x{height}"), &drawn);
        }
    }
}

#[test]
fn the_pictures_of_a_call_with_its_result_are_what_the_program_draws() {
    for (width, height) in SIZES {
        let mut app = coloured("typical");
        draw(&mut app, width, height);
        press(&mut app, KeyCode::Char('2'), NONE);
        draw(&mut app, width, height);
        press(&mut app, KeyCode::Enter, NONE);
        "notes/today.md".chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
        draw(&mut app, width, height);
        let effects = press(&mut app, KeyCode::F(5), NONE);
        let token = effects.iter().find_map(|effect| match effect {
            Effect::Call(token, _) => Some(*token),
            _ => None,
        });
        let token = token.unwrap_or_else(|| panic!("{effects:?}"));
        let result = serde_json::json!({
            "content": [{ "type": "text", "text": "# Today\n\n- water the *plants*\n- call Ada" }],
            "structuredContent": { "lines": 4, "changed": "2026-09-21", "tags": ["home", "calls"] },
        });
        let mut outcome = CallOutcome::new(CallId(1), "filesystem", "read_file", result);
        outcome.duration = Duration::from_millis(12);
        app.update(Message::CallEnded(token, Box::new(Ok(outcome))));
        let drawn = picture(&mut app, width, height, 0..height);
        is_kept(&format!("call-{width}x{height}"), &drawn);
    }
}
