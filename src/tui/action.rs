//! All user actions as one enum, with their texts for footer, palette, help and keymap files.

use terminal::list::{BrowseAction, ToBrowse};

macro_rules! actions {
    ($($name:ident = $id:literal, $label:literal, $help:literal;)*) => {
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
        }
    };
}

actions! {
    ShowServers = "show-servers", "servers", "Show the servers";
    ShowTools = "show-tools", "tools", "Show the tools";
    ShowResources = "show-resources", "resources", "Show resources and templates";
    ShowPrompts = "show-prompts", "prompts", "Show the prompts";
    ShowTraffic = "show-traffic", "traffic", "Show every message";
    ShowLogs = "show-logs", "logs", "Show logs and stderr";
    ShowMetrics = "show-metrics", "metrics", "Show counts and latencies";
    ShowCache = "show-cache", "cache", "Show what is cached";
    ShowInbox = "show-inbox", "inbox", "Show what waits for you: requests, approvals, inputs, changed files";
    ShowConfig = "show-config", "config", "Show the configuration and its problems";
    Chat = "chat", "chat", "Chat with a model that calls the tools";
    ChatModel = "chat-model", "model", "Choose the model of the chat";
    ChatProfile = "chat-profile", "profile", "Choose for whom the model acts: yourself, or a profile of the policy";
    ChatContext = "chat-context", "context", "Show the system prompt and the tokens of each server";
    Branch = "branch", "branch", "Continue in a copy of the conversation, before the edited message";
    Policy = "policy", "policy", "Policy: changed definitions, clients, grants, limits, what was blocked";
    NextView = "next-view", "view", "Show the next view of this tab: metrics; prompts, cache";
    NextPane = "next-pane", "next pane", "Go to the next pane";
    PreviousPane = "previous-pane", "previous pane", "Go to the previous pane";
    FocusNext = "focus-next", "focus", "Move the focus: servers, list, detail";
    FocusPrevious = "focus-previous", "focus back", "Move the focus back";
    NextServer = "next-server", "next server", "Show only the next server";
    PreviousServer = "previous-server", "previous server", "Show only the previous server";
    AllServers = "all-servers", "all servers", "Show all servers in every pane";
    ToggleServerList = "toggle-server-list", "server list", "Show or hide the server list";
    ToggleDetail = "toggle-detail", "detail", "Show or hide the detail beside the list";
    Up = "up", "up", "Move up";
    Down = "down", "down", "Move down";
    Left = "left", "left", "Move or scroll left";
    Right = "right", "right", "Move or scroll right";
    PageUp = "page-up", "page up", "Move up a page";
    PageDown = "page-down", "page down", "Move down a page";
    Top = "top", "top", "Go to the first row";
    Bottom = "bottom", "bottom", "Go to the last row";
    Call = "call", "call", "Fill in and call, get or read what is selected";
    Open = "open", "open", "Open what is selected";
    Back = "back", "back", "Back; never quits";
    Filter = "filter", "filter", "Filter the list";
    ClearFilter = "clear-filter", "clear filter", "Clear the filter";
    SaveFilter = "save-filter", "save filter", "Save this filter under a name";
    Filters = "filters", "filters", "Choose a saved filter, or remove it there";
    RemoveFilter = "remove-filter", "remove", "Remove the saved filter";
    SearchNext = "search-next", "next match", "Go to the next match";
    SearchPrevious = "search-previous", "previous match", "Go to the previous match";
    Copy = "copy", "copy", "Copy what is selected";
    CopyAll = "copy-all", "copy all", "Copy everything";
    Save = "save", "save", "Save to a file";
    Page = "page", "HTML page", "Write the marked messages, or all that are listed, as one HTML page";
    Restart = "restart", "restart", "Restart the server";
    StartStop = "start-stop", "start/stop", "Start or stop the server";
    Refresh = "refresh", "refresh", "Fetch the server's lists again";
    ServerKeys = "server-keys", "more", "More about the server: the next key says what";
    Ping = "ping", "ping", "Ping the server";
    Request = "request", "request", "Send any JSON-RPC request to the server";
    Watched = "subscriptions", "subscriptions", "List subscriptions and tasks";
    SignIn = "sign-in", "sign in", "Sign in to the server, or again";
    RefreshToken = "refresh-token", "refresh token", "Get a new token for the server now";
    SignOut = "sign-out", "sign out", "Revoke and forget the token of the server";
    ResetBreaker = "reset-breaker", "reset breaker", "Close the circuit breaker";
    Tokens = "tokens", "tokens", "What the tools of each server cost a model, in tokens";
    Why = "why", "why", "Why it failed or is down, what is known about it, and what mends it";
    BlackBox = "black-box", "diagnostics", "Diagnostics: exit, recent output, start steps and messages of the server";
    Graph = "graph", "graph", "Show the order in which servers start";
    Follow = "follow", "follow", "Follow the end, or stop following";
    Freeze = "freeze", "pause", "Pause or resume the list";
    JumpPair = "jump-pair", "pair", "Jump between request and response";
    Group = "group", "rows", "What has a row: a request with its answer, an operation, every message";
    Waterfall = "waterfall", "waterfall", "Show operations on one axis of time, or messages again";
    Longer = "longer", "longer", "Raise the shortest duration shown; past the longest, show all";
    ZoomIn = "zoom-in", "zoom in", "Magnify the axis of time around the selected operation";
    ZoomOut = "zoom-out", "zoom out", "Show more of the axis of time";
    Mark = "mark", "mark", "Mark the row; marked servers are restarted and stopped together";
    CopyEntry = "copy-entry", "copy entry", "Copy the entry of the server as an mcp.json, secrets masked";
    Fold = "fold", "fold", "Fold or unfold";
    Wrap = "wrap", "wrap", "Wrap long lines, or not";
    LevelUp = "level-up", "fewer", "Show only more severe logs";
    LevelDown = "level-down", "more", "Show less severe logs too";
    ServerLogLevel = "server-log-level", "log level", "Set the log level of mcpdeck or of a server";
    ServerInfo = "server-info", "info", "Server info: version, instructions and capabilities";
    Sort = "sort", "sort", "Sort by the next column";
    SortReverse = "sort-reverse", "reverse", "Reverse the order";
    DropEntry = "drop-entry", "drop", "Drop the cache entry";
    DropAll = "drop-all", "drop all", "Clear the cache";
    Effective = "effective", "view", "Switch between file, effective values and reload plan";
    NextProblem = "next-problem", "next problem", "Go to the next problem";
    Accept = "accept", "accept", "Accept the definition as it is now";
    Refuse = "refuse", "refuse", "Refuse the definition as it is now: callers do not get it";
    Against = "against", "against", "Compare with what was approved, the lock file, or a recording";
    WriteLock = "write-lock", "write lock", "Write every definition as it is now to mcp.lock.json";
    Revoke = "revoke", "revoke", "Revoke a grant; pause, cut or revoke a client";
    Answer = "answer", "answer", "Open what waits for you first";
    DenyAll = "deny-all", "deny all", "Deny every open request of this server";
    ApproveAll = "approve-all", "approve all and start", "Approve every command shown, and start them";
    ApproveOne = "approve-one", "only this one", "Approve the command under the cursor, and start it";
    AskReload = "ask-reload", "ask first", "Show what a changed file would do before it is used, or use it at once";
    EditKeys = "edit-keys", "edit", "Change the file or an entry of it: the next key says what";
    AddServer = "add-server", "add", "Add a server to the file";
    Import = "import", "import", "Take over servers of other programs on this machine";
    EditServer = "edit-server", "edit", "Edit the server's entry in a form";
    EditFile = "edit-file", "editor", "Open the file in $EDITOR, at the server's entry";
    DuplicateServer = "duplicate-server", "duplicate", "Copy the server's entry under another name";
    ToggleServer = "toggle-server", "on/off", "Switch the server off or on in the file";
    RemoveServer = "remove-server", "remove", "Remove the server from the file";
    UndoEdit = "undo-edit", "undo", "Undo the last edit of the file";
    Inputs = "inputs", "inputs", "Answer the inputs of the configuration, or change the answers";
    Keep = "keep", "keep in the keyring", "Keep the answer in the keyring, or only until mcpdeck quits";
    OpenBrowser = "open-browser", "open", "Open the address in the browser, or use the one that is pasted";
    CopyUrl = "copy-url", "copy", "Copy the address";
    QrCode = "qr-code", "QR code", "Show the address as a QR code, for another device";
    Decline = "decline", "decline", "Do not sign in; the server stays unavailable";
    Forget = "forget", "forget it", "Forget the answer, also in the keyring";
    Rules = "rules", "rules", "Decide requests of a server by rule: ask, deny, same answer";
    Roots = "roots", "roots", "Change the roots shared with a server";
    Palette = "palette", "palette", "Find and run any action";
    Help = "help", "help", "Show the keys that work here";
    Theme = "theme", "theme", "Use the next theme";
    Bell = "bell", "bell", "Mute the bell, or not";
    AskEnd = "ask-before-ending", "ask first", "Ask before quit, restart or stop end open work, or do not ask";
    Tour = "tour", "first steps", "Show the first steps at the foot of the screen, or hide them";
    Record = "record", "record", "Start or end a recording";
    Pause = "pause", "play/pause", "Play or pause the recording";
    Faster = "faster", "faster", "Play twice as fast";
    Slower = "slower", "slower", "Play half as fast";
    Later = "later", "later", "Step forward in the recording";
    Earlier = "earlier", "earlier", "Step back in the recording";
    NextError = "next-error", "next error", "Go to the next error in the recording";
    PreviousError = "previous-error", "previous error", "Go to the previous error in the recording";
    Redraw = "redraw", "redraw", "Redraw the screen";
    Suspend = "suspend", "suspend", "Suspend to the shell until `fg`";
    Send = "send", "send", "Send: make the call, give the answer";
    Force = "force", "force", "Call without validation, to test the server";
    CancelCall = "cancel-call", "cancel", "Cancel the running call; the server is notified";
    Again = "again", "again", "Make this call again";
    EditAgain = "edit-again", "edit", "Copy the arguments of this call into the form, to edit them";
    Switch = "switch", "switch", "Switch between form and result, or request and answer";
    Editor = "editor", "editor", "Edit this field, the JSON or the answer in $EDITOR";
    History = "history", "history", "History of calls";
    Saved = "saved", "saved", "Saved calls";
    SaveForm = "save-form", "save", "Save: the call or answer under a name, the entry in its file";
    CopyForm = "copy-form", "copy", "Copy the call (command line, JSON-RPC, Rust) or the answer";
    FillFile = "file", "file", "Fill this field from a file";
    Suggest = "suggest", "suggest", "Take the server's suggestion";
    Older = "older", "older", "Show the previous call";
    Newer = "newer", "newer", "Show the next call";
    Compare = "compare", "compare", "Compare with the previous result";
    Search = "search", "search", "Search the result";
    OpenApp = "open-app", "app", "Show the result in the app of the tool, a page in the browser";
    Subscribe = "subscribe", "subscribe", "Subscribe to the resource, or stop";
    NextField = "next-field", "next", "Go to the next line or field";
    PreviousField = "previous-field", "previous", "Go to the previous line or field";
    FirstField = "first-field", "first", "Go to the first line";
    LastField = "last-field", "last", "Go to the line that sends";
    Toggle = "toggle", "toggle", "Toggle";
    Unset = "unset", "unset", "Unset the value";
    SetNull = "null", "null", "Set null";
    SetEmpty = "empty", "empty", "Set the empty text, list or object";
    AddItem = "add-item", "add", "Add an item, an entry or a root";
    RemoveItem = "remove-item", "remove", "Remove this item, entry or root";
    DuplicateItem = "duplicate-item", "duplicate", "Duplicate this item";
    MoveUp = "move-up", "move up", "Move this item up";
    MoveDown = "move-down", "move down", "Move this item down";
    StepUp = "step-up", "more", "Increase by one step";
    StepDown = "step-down", "less", "Decrease by one step";
    Rename = "rename-item", "rename", "Rename this entry";
    AsJson = "as-json", "as JSON", "Edit this field as JSON, or as fields again";
    Json = "json", "JSON", "Edit the whole value as JSON";
    Undo = "undo", "undo", "Undo";
    SidewaysLeft = "sideways-left", "left", "Scroll left";
    SidewaysRight = "sideways-right", "right", "Scroll right";
    NextTab = "next-tab", "view", "Switch the view: content, structured, raw, comparison";
    NextBlock = "next-block", "block", "Go to the next block of content";
    Markdown = "markdown", "markdown", "Show Markdown or plain text";
    Hex = "hex", "hex", "Show all bytes of binary content, or the first";
    SideBySide = "side-by-side", "side by side", "Show the comparison side by side or unified";
    CopyPath = "copy-path", "copy path", "Copy the JSON pointer of what is selected";
    Deny = "deny", "deny", "Deny, with a reason where one fits";
    CancelRequest = "cancel-request", "cancel", "Cancel without deciding; the server is notified";
    EditRequest = "edit-request", "edit request", "Edit the request, or take the edits";
    SendAlways = "send-always", "send always", "Send, and choose how many more get the same answer";
    NextRequest = "next-request", "next", "Go to the next open request; this draft is kept";
    SaveMedia = "save-media", "save media", "Save its images and audio to files";
    Templates = "templates", "templates", "Choose an answer that is kept";
    UseTool = "tools", "tools", "Answer with a tool call, filled in as a form";
    Draft = "draft", "draft", "Let the registered model draft; only you send";
    MoreTime = "more-time", "more time", "Extend the deadline by 10 minutes";
    Confirm = "confirm", "yes", "Do it";
    Quit = "quit", "quit", "Quit: stop the servers and leave";
    QuitNow = "quit-now", "quit now", "Leave from anywhere: asks about open work, then quits without waiting";
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
        Some(match self {
            Self::Up => BrowseAction::Up,
            Self::Down => BrowseAction::Down,
            Self::PageUp => BrowseAction::PageUp,
            Self::PageDown => BrowseAction::PageDown,
            Self::Top => BrowseAction::Top,
            Self::Bottom => BrowseAction::Bottom,
            Self::Left => BrowseAction::Left,
            Self::Right => BrowseAction::Right,
            Self::Open => BrowseAction::Open,
            Self::Back => BrowseAction::Back,
            Self::Filter => BrowseAction::Filter,
            Self::ClearFilter => BrowseAction::ClearFilter,
            Self::ToggleDetail => BrowseAction::ToggleDetail,
            _ => return None,
        })
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
