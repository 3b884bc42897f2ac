//! All user actions as one enum, with their texts for footer, palette, help and keymap files.

use terminal::list::{BrowseAction, ToBrowse};

macro_rules! actions {
    ($($name:ident = $id:literal, $label:literal, $help:literal
        => $place:ident $(($performed:expr))?;)*) => {
        /// An action the user can trigger by key, mouse or palette.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Action {
            $(#[doc = $help] $name,)*
            /// A command of the user's keymap file, by index.
            User(u8),
        }

        impl Action {
            /// All built-in actions, in the order of help and palette.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name in keymap files.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* Self::User(_) => "" }
            }

            /// One or two words for the footer.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* Self::User(_) => "command" }
            }

            /// One sentence for help and palette.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$name => $help,)* Self::User(_) => "Run a command of your keymap file" }
            }

            /// Where it is performed if neither the open screen nor the pane does.
            pub const fn place(self) -> ActionPlace {
                match self {
                    $(Self::$name => ActionPlace::$place $(($performed))?,)*
                    Self::User(_) => ActionPlace::User,
                }
            }
        }
    };
}

actions! {
    ShowServers = "show-servers", "servers", "Show the servers" => Show;
    ShowTools = "show-tools", "tools", "Show the tools" => Show;
    ShowResources = "show-resources", "resources", "Show resources and templates" => Show;
    ShowPrompts = "show-prompts", "prompts", "Show the prompts" => Show;
    ShowTraffic = "show-traffic", "traffic", "Show every message" => Show;
    ShowLogs = "show-logs", "logs", "Show logs and stderr" => Show;
    ShowMetrics = "show-metrics", "metrics", "Show counts and latencies" => Show;
    ShowCache = "show-cache", "cache", "Show what is cached" => Show;
    ShowTests = "show-tests", "tests", "Show the suites of mcp.tests.json" => Show;
    ShowInbox = "show-inbox", "inbox", "Show what waits for you: requests, approvals, inputs, changed files" => Show;
    ShowConfig = "show-config", "config", "Show the configuration and its problems" => Show;
    Chat = "chat", "chat", "Chat with a model that calls the tools" => App(AppAction::Chat);
    ChatModel = "chat-model", "model", "Choose the model of the chat" => Here;
    ChatProfile = "chat-profile", "profile", "Choose for whom the model acts: yourself, or a profile of the policy" => Here;
    ChatContext = "chat-context", "context", "Show the system prompt and the tokens of each server" => Here;
    Branch = "branch", "branch", "Continue in a copy of the conversation, before the edited message" => Here;
    Policy = "policy", "policy", "Policy: changed definitions, clients, grants, limits, what was blocked" => App(AppAction::Policy);
    NextView = "next-view", "view", "Show the next view of this tab: metrics; tests; prompts, cache" => App(AppAction::NextView);
    NextPane = "next-pane", "next pane", "Go to the next pane" => App(AppAction::NextPane);
    PreviousPane = "previous-pane", "previous pane", "Go to the previous pane" => App(AppAction::PreviousPane);
    FocusNext = "focus-next", "focus", "Move the focus: servers, list, detail" => App(AppAction::FocusNext);
    FocusPrevious = "focus-previous", "focus back", "Move the focus back" => App(AppAction::FocusPrevious);
    NextServer = "next-server", "next server", "Show only the next server" => App(AppAction::NextServer);
    PreviousServer = "previous-server", "previous server", "Show only the previous server" => App(AppAction::PreviousServer);
    AllServers = "all-servers", "all servers", "Show all servers in every pane" => App(AppAction::AllServers);
    ToggleServerList = "toggle-server-list", "server list", "Show or hide the server list" => App(AppAction::ToggleServerList);
    ToggleDetail = "toggle-detail", "detail", "Show or hide the detail beside the list" => Browse(BrowseAction::ToggleDetail);
    Up = "up", "up", "Move up" => Browse(BrowseAction::Up);
    Down = "down", "down", "Move down" => Browse(BrowseAction::Down);
    Left = "left", "left", "Move or scroll left" => Browse(BrowseAction::Left);
    Right = "right", "right", "Move or scroll right" => Browse(BrowseAction::Right);
    PageUp = "page-up", "page up", "Move up a page" => Browse(BrowseAction::PageUp);
    PageDown = "page-down", "page down", "Move down a page" => Browse(BrowseAction::PageDown);
    Top = "top", "top", "Go to the first row" => Browse(BrowseAction::Top);
    Bottom = "bottom", "bottom", "Go to the last row" => Browse(BrowseAction::Bottom);
    Call = "call", "call", "Fill in and call, get or read what is selected" => Here;
    Open = "open", "open", "Open what is selected" => Browse(BrowseAction::Open);
    Back = "back", "back", "Back; never quits" => App(AppAction::Back);
    Filter = "filter", "filter", "Filter the list" => Browse(BrowseAction::Filter);
    ClearFilter = "clear-filter", "clear filter", "Clear the filter" => Browse(BrowseAction::ClearFilter);
    SaveFilter = "save-filter", "save filter", "Save this filter under a name" => App(AppAction::SaveFilter);
    Filters = "filters", "filters", "Choose a saved filter, or remove it there" => App(AppAction::Filters);
    RemoveFilter = "remove-filter", "remove", "Remove the saved filter" => Here;
    SearchNext = "search-next", "next match", "Go to the next match" => Here;
    SearchPrevious = "search-previous", "previous match", "Go to the previous match" => Here;
    Copy = "copy", "copy", "Copy what is selected" => Here;
    CopyAll = "copy-all", "copy all", "Copy everything" => Here;
    Save = "save", "save", "Save to a file" => Here;
    Page = "page", "HTML page", "Write the marked messages, or all that are listed, as one HTML page" => Here;
    Restart = "restart", "restart", "Restart the server" => Server(ServerAction::Restart);
    StartStop = "start-stop", "start/stop", "Start or stop the server" => Server(ServerAction::StartStop);
    Refresh = "refresh", "refresh", "Fetch the server's lists again" => Server(ServerAction::Refresh);
    ResultKeys = "result-keys", "more", "More about the result: the next key says what" => Here;
    FormKeys = "form-keys", "more", "More about the field: the next key says what" => Here;
    AnswerKeys = "answer-keys", "more", "More about the request: the next key says what" => Here;
    ServerKeys = "server-keys", "more", "More about the server: the next key says what" => App(AppAction::ServerKeys);
    Ping = "ping", "ping", "Ping the server" => Server(ServerAction::Ping);
    Request = "request", "request", "Send any JSON-RPC request to the server" => App(AppAction::Request);
    Watched = "subscriptions", "subscriptions", "List subscriptions and tasks" => App(AppAction::Watched);
    SignIn = "sign-in", "sign in", "Sign in to the server, or again" => Server(ServerAction::SignIn);
    RefreshToken = "refresh-token", "refresh token", "Get a new token for the server now" => Server(ServerAction::RefreshToken);
    SignOut = "sign-out", "sign out", "Revoke and forget the token of the server" => Server(ServerAction::SignOut);
    ResetBreaker = "reset-breaker", "reset breaker", "Close the circuit breaker" => Server(ServerAction::ResetBreaker);
    Tokens = "tokens", "tokens", "What the tools of each server cost a model, in tokens" => App(AppAction::Tokens);
    CompareServers = "compare-servers", "compare", "Compare the tools of this server with those of another one, or with the lock file" => App(AppAction::CompareServers);
    Why = "why", "why", "Why it failed or is down, what is known about it, and what mends it" => App(AppAction::Why);
    BlackBox = "black-box", "diagnostics", "Diagnostics: exit, recent output, start steps and messages of the server" => App(AppAction::BlackBox);
    Graph = "graph", "graph", "Show the order in which servers start" => Here;
    Follow = "follow", "follow", "Follow the end, or stop following" => Here;
    Freeze = "freeze", "pause", "Pause or resume the list" => Here;
    JumpPair = "jump-pair", "pair", "Jump between request and response" => Here;
    Group = "group", "rows", "What has a row: a request with its answer, an operation, every message" => Here;
    Waterfall = "waterfall", "waterfall", "Show operations on one axis of time, or messages again" => Here;
    Longer = "longer", "longer", "Raise the shortest duration shown; past the longest, show all" => Here;
    ZoomIn = "zoom-in", "zoom in", "Magnify the axis of time around the selected operation" => Here;
    ZoomOut = "zoom-out", "zoom out", "Show more of the axis of time" => Here;
    Mark = "mark", "mark", "Mark the row; marked servers are restarted and stopped together" => App(AppAction::Mark);
    CopyEntry = "copy-entry", "copy entry", "Copy the entry of the server as an mcp.json, secrets masked" => App(AppAction::CopyEntry);
    Fold = "fold", "fold", "Fold or unfold" => Here;
    Wrap = "wrap", "wrap", "Wrap long lines, or not" => Here;
    LevelUp = "level-up", "fewer", "Show only more severe logs" => Here;
    LevelDown = "level-down", "more", "Show less severe logs too" => Here;
    ServerLogLevel = "server-log-level", "log level", "Set the log level of mcpdeck or of a server" => App(AppAction::ServerLogLevel);
    ServerInfo = "server-info", "info", "Server info: version, instructions and capabilities" => App(AppAction::ServerInfo);
    Sort = "sort", "sort", "Sort by the next column" => Here;
    SortReverse = "sort-reverse", "reverse", "Reverse the order" => Here;
    RunSuite = "run-suite", "run", "Run the selected suite of tests" => Here;
    RunSuites = "run-suites", "run all", "Run all suites of tests" => Here;
    RunFailed = "run-failed", "run failed", "Run the suites that failed" => Here;
    Coverage = "coverage", "coverage", "Show what the last run of the suites reached, or the selected row" => Here;
    AddStep = "add-step", "as a step", "Add this call to mcp.tests.json as a step of a suite" => Here;
    AddHistory = "add-history", "history as steps", "Add the past calls of this form to mcp.tests.json as steps" => Here;
    DropEntry = "drop-entry", "drop", "Drop the cache entry" => Here;
    DropAll = "drop-all", "drop all", "Clear the cache" => Here;
    Effective = "effective", "view", "Switch between file, effective values and reload plan" => Here;
    NextProblem = "next-problem", "next problem", "Go to the next problem" => Here;
    Accept = "accept", "accept", "Accept the definition as it is now" => Here;
    Refuse = "refuse", "refuse", "Refuse the definition as it is now: callers do not get it" => Here;
    Against = "against", "against", "Compare with what was approved, the lock file, or a recording" => Here;
    WriteLock = "write-lock", "write lock", "Write every definition as it is now to mcp.lock.json" => Here;
    Revoke = "revoke", "revoke", "Revoke a grant; pause, cut or revoke a client" => Here;
    Answer = "answer", "answer", "Open what waits for you first" => App(AppAction::Answer);
    DenyAll = "deny-all", "deny all", "Deny every open request of this server" => Here;
    ApproveAll = "approve-all", "approve all and start", "Approve every command shown, and start them" => Here;
    ApproveOne = "approve-one", "only this one", "Approve the command under the cursor, and start it" => Here;
    AskReload = "ask-reload", "ask first", "Show what a changed file would do before it is used, or use it at once" => App(AppAction::AskReload);
    EditKeys = "edit-keys", "edit", "Change the file or an entry of it: the next key says what" => App(AppAction::EditKeys);
    AddServer = "add-server", "add", "Add a server to the file" => Edit(EditAction::AddServer);
    Import = "import", "import", "Take over servers of other programs on this machine" => Edit(EditAction::Import);
    EditServer = "edit-server", "edit", "Edit the server's entry in a form" => Edit(EditAction::EditServer);
    EditFile = "edit-file", "editor", "Open the file in $EDITOR, at the server's entry" => Edit(EditAction::EditFile);
    DuplicateServer = "duplicate-server", "duplicate", "Copy the server's entry under another name" => Edit(EditAction::DuplicateServer);
    ToggleServer = "toggle-server", "on/off", "Switch the server off or on in the file" => Edit(EditAction::ToggleServer);
    RemoveServer = "remove-server", "remove", "Remove the server from the file" => Edit(EditAction::RemoveServer);
    UndoEdit = "undo-edit", "undo", "Undo the last edit of the file" => Edit(EditAction::UndoEdit);
    Inputs = "inputs", "inputs", "Answer the inputs of the configuration, or change the answers" => App(AppAction::Inputs);
    Keep = "keep", "keep in the keyring", "Keep the answer in the keyring, or only until mcpdeck quits" => Here;
    OpenBrowser = "open-browser", "open", "Open the address in the browser, or use the one that is pasted" => Here;
    CopyUrl = "copy-url", "copy", "Copy the address" => Here;
    QrCode = "qr-code", "QR code", "Show the address as a QR code, for another device" => Here;
    Decline = "decline", "decline", "Do not sign in; the server stays unavailable" => Here;
    Forget = "forget", "forget it", "Forget the answer, also in the keyring" => Here;
    Rules = "rules", "rules", "Decide requests of a server by rule: ask, deny, same answer" => App(AppAction::Rules);
    Roots = "roots", "roots", "Change the roots shared with a server" => App(AppAction::Roots);
    Palette = "palette", "palette", "Find and run any action" => App(AppAction::Palette);
    Help = "help", "help", "Show the keys that work here" => App(AppAction::Help);
    Theme = "theme", "theme", "Use the next theme" => App(AppAction::Theme);
    Bell = "bell", "bell", "Mute the bell, or not" => App(AppAction::Bell);
    AskEnd = "ask-before-ending", "ask first", "Ask before quit, restart or stop end open work, or do not ask" => App(AppAction::AskEnd);
    Tour = "tour", "first steps", "Show the first steps at the foot of the screen, or hide them" => App(AppAction::Tour);
    Record = "record", "record", "Start or end a recording" => App(AppAction::Record);
    Pause = "pause", "play/pause", "Play or pause the recording" => Play(PlayAction::Pause);
    Faster = "faster", "faster", "Play twice as fast" => Play(PlayAction::Faster);
    Slower = "slower", "slower", "Play half as fast" => Play(PlayAction::Slower);
    Later = "later", "later", "Step forward in the recording" => Play(PlayAction::Later);
    Earlier = "earlier", "earlier", "Step back in the recording" => Play(PlayAction::Earlier);
    NextError = "next-error", "next error", "Go to the next error in the recording" => Play(PlayAction::NextError);
    PreviousError = "previous-error", "previous error", "Go to the previous error in the recording" => Play(PlayAction::PreviousError);
    Redraw = "redraw", "redraw", "Redraw the screen" => App(AppAction::Redraw);
    Suspend = "suspend", "suspend", "Suspend to the shell until `fg`" => App(AppAction::Suspend);
    Send = "send", "send", "Send: make the call, give the answer" => Here;
    Force = "force", "force", "Call without validation, to test the server" => Here;
    CancelCall = "cancel-call", "cancel", "Cancel the running call; the server is notified" => Here;
    Again = "again", "again", "Make this call again" => Here;
    EditAgain = "edit-again", "edit", "Copy the arguments of this call into the form, to edit them" => Here;
    Switch = "switch", "switch", "Switch between form and result, or request and answer" => Here;
    Editor = "editor", "editor", "Edit this field, the JSON or the answer in $EDITOR" => Here;
    History = "history", "history", "History of calls" => App(AppAction::History);
    Saved = "saved", "saved", "Saved calls" => Here;
    SaveForm = "save-form", "save", "Save: the call or answer under a name, the entry in its file" => Here;
    CopyForm = "copy-form", "copy", "Copy the call (command line, JSON-RPC, Rust) or the answer" => Here;
    FillFile = "file", "file", "Fill this field from a file" => Here;
    Suggest = "suggest", "suggest", "Take the server's suggestion" => Here;
    Older = "older", "older", "Show the previous call" => Here;
    Newer = "newer", "newer", "Show the next call" => Here;
    Compare = "compare", "compare", "Compare with the previous result" => Here;
    Search = "search", "search", "Search the result" => Here;
    OpenApp = "open-app", "app", "Show the result in the app of the tool, a page in the browser" => Here;
    Subscribe = "subscribe", "subscribe", "Subscribe to the resource, or stop" => Here;
    NextField = "next-field", "next", "Go to the next line or field" => Here;
    PreviousField = "previous-field", "previous", "Go to the previous line or field" => Here;
    FirstField = "first-field", "first", "Go to the first line" => Here;
    LastField = "last-field", "last", "Go to the line that sends" => Here;
    Toggle = "toggle", "toggle", "Toggle" => Here;
    Unset = "unset", "unset", "Unset the value" => Here;
    SetNull = "null", "null", "Set null" => Here;
    SetEmpty = "empty", "empty", "Set the empty text, list or object" => Here;
    AddItem = "add-item", "add", "Add an item, an entry or a root" => Here;
    RemoveItem = "remove-item", "remove", "Remove this item, entry or root" => Here;
    DuplicateItem = "duplicate-item", "duplicate", "Duplicate this item" => Here;
    MoveUp = "move-up", "move up", "Move this item up" => Here;
    MoveDown = "move-down", "move down", "Move this item down" => Here;
    StepUp = "step-up", "more", "Increase by one step" => Here;
    StepDown = "step-down", "less", "Decrease by one step" => Here;
    Rename = "rename-item", "rename", "Rename this entry" => Here;
    AsJson = "as-json", "as JSON", "Edit this field as JSON, or as fields again" => Here;
    Json = "json", "JSON", "Edit the whole value as JSON" => Here;
    Undo = "undo", "undo", "Undo" => Here;
    NextTab = "next-tab", "view", "Switch the view: content, structured, raw, comparison" => Here;
    NextBlock = "next-block", "block", "Go to the next block of content" => Here;
    Markdown = "markdown", "markdown", "Show Markdown or plain text" => Here;
    Hex = "hex", "hex", "Show all bytes of binary content, or the first" => Here;
    SideBySide = "side-by-side", "side by side", "Show the comparison side by side or unified" => Here;
    CopyPath = "copy-path", "copy path", "Copy the JSON pointer of what is selected" => Here;
    Deny = "deny", "deny", "Deny, with a reason where one fits" => Here;
    CancelRequest = "cancel-request", "cancel", "Cancel without deciding; the server is notified" => Here;
    EditRequest = "edit-request", "edit request", "Edit the request, or take the edits" => Here;
    SendAlways = "send-always", "send always", "Send, and choose how many more get the same answer" => Here;
    NextRequest = "next-request", "next", "Go to the next open request; this draft is kept" => Here;
    SaveMedia = "save-media", "save media", "Save its images and audio to files" => Here;
    Templates = "templates", "templates", "Choose an answer that is kept" => Here;
    UseTool = "tools", "tools", "Answer with a tool call, filled in as a form" => Here;
    Draft = "draft", "draft", "Let the registered model draft; only you send" => Here;
    MoreTime = "more-time", "more time", "Extend the deadline by 10 minutes" => Here;
    Confirm = "confirm", "yes", "Do it" => Here;
    Quit = "quit", "quit", "Quit: stop the servers and leave" => App(AppAction::Quit);
    QuitNow = "quit-now", "quit now", "Leave from anywhere: asks about open work, then quits without waiting" => App(AppAction::QuitNow);
}

/// Where an action is performed that works in more than one screen or pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionPlace {
    /// Only in the screens and panes that bind it.
    Here,
    /// In lists and texts.
    Browse(BrowseAction),
    /// It shows a pane.
    Show,
    /// By the selected server, or by the marked ones.
    Server(ServerAction),
    /// In the configuration files.
    Edit(EditAction),
    /// By the recording that is played.
    Play(PlayAction),
    /// By the dashboard.
    App(AppAction),
    /// By a command of the user's keymap file.
    User,
}

/// What a server is commanded to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerAction {
    Restart,
    StartStop,
    Refresh,
    Ping,
    SignIn,
    RefreshToken,
    SignOut,
    ResetBreaker,
}

/// What is done with the configuration files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditAction {
    AddServer,
    Import,
    EditFile,
    UndoEdit,
    EditServer,
    DuplicateServer,
    ToggleServer,
    RemoveServer,
}

/// What is done with the recording that is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayAction {
    Pause,
    Faster,
    Slower,
    Later,
    Earlier,
    NextError,
    PreviousError,
}

/// What the dashboard does wherever it is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppAction {
    NextView,
    NextPane,
    PreviousPane,
    FocusNext,
    FocusPrevious,
    NextServer,
    PreviousServer,
    AllServers,
    ToggleServerList,
    Back,
    Answer,
    History,
    AskReload,
    Inputs,
    Rules,
    Roots,
    Policy,
    Mark,
    CopyEntry,
    Request,
    Watched,
    BlackBox,
    ServerInfo,
    EditKeys,
    ServerKeys,
    ServerLogLevel,
    Why,
    Tokens,
    CompareServers,
    SaveFilter,
    Filters,
    Palette,
    Help,
    Theme,
    Bell,
    AskEnd,
    Tour,
    Record,
    Chat,
    Redraw,
    Suspend,
    Quit,
    QuitNow,
}

impl Action {
    /// The action of this name.
    pub fn by_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.id() == id)
    }

    /// Rows it moves in a list or text whose pages have `page` rows; negative is up, and first and
    /// last row exceed the length of any text. `None` if it does not move.
    pub const fn steps(self, page: isize) -> Option<isize> {
        match self.browse() {
            Some(action) => action.steps(page),
            None => None,
        }
    }

    /// The action of lists and texts that it stands for.
    const fn browse(self) -> Option<BrowseAction> {
        match self.place() {
            ActionPlace::Browse(action) => Some(action),
            ActionPlace::App(AppAction::Back) => Some(BrowseAction::Back),
            ActionPlace::Here
            | ActionPlace::Show
            | ActionPlace::Server(_)
            | ActionPlace::Edit(_)
            | ActionPlace::Play(_)
            | ActionPlace::App(_)
            | ActionPlace::User => None,
        }
    }
}

impl ToBrowse for Action {
    fn to_browse(self) -> Option<BrowseAction> {
        self.browse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_actions_are_unique_and_found_again() {
        for action in Action::ALL {
            assert_eq!(Action::by_id(action.id()), Some(*action));
        }
    }
}
