//! Starting a program on Linux, and hearing of its end.
//!
//! A child shares the memory of the host until it executes its program, as with `posix_spawn(3)`, which
//! knows no parent-death signal. `fork` would copy the tables of all memory of the host, and the host then
//! each page it writes to: the cost of every start would grow with the number of servers.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::{io, ptr};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::environment::MARK;
use super::exec::{ChildPipes, ChildSetup};
use super::resolve::Launch;

/// Exit code of a child that could not execute its program. Nobody sees it.
const FAILED: c_int = 127;
/// Bytes of the child's stack.
const STACK_BYTES: usize = 64 << 10;
/// Signals are numbered from 1 to this.
const LAST_SIGNAL: c_int = 64;

/// Starts a program with pipes for its streams; `mark` is added to its environment. Returns its
/// process, which the caller has to reap.
///
/// # Errors
/// Those of the system, also those of the child up to its program.
pub(super) fn spawn(
    launch: &Launch,
    mark: &str,
    setup: ChildSetup,
) -> io::Result<(Pid, ChildPipes)> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((stdin, to), (from, stdout), (log, stderr)) = (pipe()?, pipe()?, pipe()?);
    let pid = start(launch, mark, setup, [stdin, stdout, stderr])?;
    Ok((pid, (to.into(), from.into(), log.into())))
}

/// Like [`spawn`], with the stdin, stdout and stderr it is given.
pub(super) fn start(
    launch: &Launch,
    mark: &str,
    setup: ChildSetup,
    streams: [OwnedFd; 3],
) -> io::Result<Pid> {
    let mark = (OsStr::new(MARK), OsStr::new(mark));
    let own = launch.env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let assigned = |(name, value): (&OsStr, &OsStr)| {
        c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    let args = [launch.program.as_os_str()].into_iter();
    let args = args.chain(launch.args.iter().map(AsRef::as_ref));
    let args = Strings::new(args.map(|arg| c_string(arg.as_bytes())))?;
    let env = Strings::new(own.filter(|(name, _)| *name != MARK).chain([mark]).map(assigned))?;
    let cwd = c_string(launch.cwd.as_os_str().as_bytes())?;
    Image { args, env, cwd, streams, setup, error: AtomicI32::new(0) }.start()
}

/// A handle that can be read once a child is dead (`pidfd_open(2)`).
///
/// # Errors
/// Where the system has no such handles, or no more files may be open.
pub(super) fn handle(child: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    let handle = pidfd_open(child, PidfdFlags::empty())?;
    #[expect(unsafe_code, reason = "the runtime takes any file")]
    // SAFETY: it is open, and belongs to what is returned.
    Ok(unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }?)
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| Errno::INVAL.into())
}

/// Strings in the form `execve(2)` takes them.
struct Strings {
    owned: Vec<CString>,
    /// Points at each of them, and ends with null.
    pointers: Vec<*const c_char>,
}

impl Strings {
    fn new(strings: impl Iterator<Item = io::Result<CString>>) -> io::Result<Self> {
        let owned: Vec<CString> = strings.collect::<io::Result<_>>()?;
        let pointers = owned.iter().map(|one| one.as_ptr()).chain([ptr::null()]).collect();
        Ok(Self { owned, pointers })
    }

    fn first(&self) -> &CStr {
        self.owned.first().map_or(c"", |one| one)
    }
}

/// What becomes of a child, prepared by the host: the child must not allocate.
struct Image {
    args: Strings,
    env: Strings,
    cwd: CString,
    streams: [OwnedFd; 3],
    setup: ChildSetup,
    /// The error of the child; 0 for none.
    error: AtomicI32,
}

impl Image {
    /// Starts the child, and returns when it executes its program.
    fn start(&self) -> io::Result<Pid> {
        let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
        let top = stack.as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // No handler of the host may run in the child, which shares its memory.
        let held = SignalsHeld::new()?;
        #[expect(unsafe_code, reason = "there is no safe way to act between clone and exec")]
        // SAFETY: the child has a stack of its own, large enough and aligned, and does nothing
        // but system calls on what `self` holds. This thread waits until it is gone from here
        // (`CLONE_VFORK`), so that both outlive it.
        let pid =
            unsafe { libc::clone(child, top.cast(), flags, ptr::from_ref(self).cast_mut().cast()) };
        let error = io::Error::last_os_error();
        drop(held);
        let Some(pid) = Pid::from_raw(pid.max(0)) else { return Err(error) };
        match self.error.load(Ordering::Acquire) {
            0 => Ok(pid),
            error => {
                let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }

    /// Becomes the program. Returns why that failed.
    fn execute(&self) -> Errno {
        if let Err(error) = self.prepare() {
            return error;
        }
        let (program, args, env) = (self.args.first(), &self.args.pointers, &self.env.pointers);
        #[expect(unsafe_code, reason = "the standard library executes no prepared arguments")]
        // SAFETY: the pointers lead to strings that `self` holds, and end with null.
        unsafe {
            libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr());
            Errno::from_raw_os_error(*libc::__errno_location())
        }
    }

    fn prepare(&self) -> rustix::io::Result<()> {
        let [stdin, stdout, stderr] = &self.streams;
        rustix::stdio::dup2_stdin(stdin.as_fd())?;
        rustix::stdio::dup2_stdout(stdout.as_fd())?;
        rustix::stdio::dup2_stderr(stderr.as_fd())?;
        rustix::process::chdir(self.cwd.as_c_str())?;
        self.setup.apply()?;
        receive_signals();
        Ok(())
    }
}

/// Where the child begins.
extern "C" fn child(image: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "the C library hands on a pointer")]
    // SAFETY: it is the one `Image::start` gave, which waits meanwhile.
    let image = unsafe { &*image.cast::<Image>() };
    let error = image.execute();
    image.error.store(error.raw_os_error(), Ordering::Release);
    #[expect(unsafe_code, reason = "what the host does at its end must not be done here")]
    // SAFETY: it ends the child alone.
    unsafe {
        libc::_exit(FAILED)
    }
}

/// All signals of this thread are held back until this is dropped.
struct SignalsHeld(libc::sigset_t);

impl SignalsHeld {
    fn new() -> io::Result<Self> {
        let (all, mut before) = (signals(true), signals(false));
        #[expect(unsafe_code, reason = "no safe library in use has it")]
        // SAFETY: both are sets of signals.
        let failed =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        match failed {
            0 => Ok(Self(before)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "no safe library in use has it")]
        // SAFETY: it is a set of signals.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut());
        }
    }
}

/// The set of all signals, or of none.
fn signals(all: bool) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    #[expect(unsafe_code, reason = "no safe library in use has it")]
    // SAFETY: each of the two functions fills the set.
    unsafe {
        if all {
            libc::sigfillset(set.as_mut_ptr())
        } else {
            libc::sigemptyset(set.as_mut_ptr())
        };
        set.assume_init()
    }
}

/// Gives every signal with a handler its default effect, SIGPIPE too, which the host ignores, and
/// lets all through. Only the child may call this.
fn receive_signals() {
    let none = signals(false);
    #[expect(unsafe_code, reason = "no safe library in use has it")]
    // SAFETY: zeros are a valid `sigaction`, of the default effect without flags.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        for signal in 1..=LAST_SIGNAL {
            let mut now = default;
            let is_known = libc::sigaction(signal, ptr::null(), &raw mut now) == 0;
            let is_ignored = now.sa_sigaction == libc::SIG_IGN;
            if is_known && (!is_ignored || signal == libc::SIGPIPE) {
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}
