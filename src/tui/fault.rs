//! Deliberate faults, in debug builds only, to test how the program behaves when a part of it
//! fails. `MCPDECK_FAULT` names one; redrawing the whole screen (ctrl-l) triggers it.

/// Triggers the fault named by the environment, in debug builds.
pub(super) fn set_off() {
    #[cfg(debug_assertions)]
    debug::set_off();
}

/// Panics while a frame is drawn, if that fault was triggered.
pub(super) fn in_render() {
    #[cfg(debug_assertions)]
    debug::in_render();
}

#[cfg(debug_assertions)]
mod debug {
    use std::sync::atomic::{AtomicU8, Ordering};

    /// 1: the next frame panics; 2: and a destructor panics while that unwinds.
    static RENDER: AtomicU8 = AtomicU8::new(0);

    struct Fragile;

    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("a fault on purpose: in a destructor");
        }
    }

    pub(super) fn set_off() {
        match std::env::var("MCPDECK_FAULT").as_deref() {
            Ok("render") => RENDER.store(1, Ordering::SeqCst),
            Ok("drop") => RENDER.store(2, Ordering::SeqCst),
            Ok("task") => {
                tokio::spawn(async { panic!("a fault on purpose: in a task") });
            }
            Ok("thread") => {
                std::thread::spawn(|| panic!("a fault on purpose: in a thread"));
            }
            Ok("abort") => std::process::abort(),
            _ => {}
        }
    }

    pub(super) fn in_render() {
        let wanted = RENDER.load(Ordering::SeqCst);
        let _fragile = (wanted == 2).then(|| Fragile);
        assert!(wanted == 0, "a fault on purpose: while drawing");
    }
}
