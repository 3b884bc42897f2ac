//! A job object: holds a server's processes, limits them, lists them, and ends them together.
//!
//! The only `unsafe` code on Windows: job object and process calls with pointers to local buffers.
//! Knows nothing of servers.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use windows::Win32::Foundation::{FILETIME, HANDLE};
use windows::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION,
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOB_OBJECT_LIMIT_PROCESS_MEMORY,
    JOB_OBJECT_LIMIT_PROCESS_TIME, JOBOBJECT_BASIC_PROCESS_ID_LIST,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicProcessIdList,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};
use windows::Win32::System::ProcessStatus::{GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows::Win32::System::Threading::{
    GetProcessTimes, OpenProcess, PROCESS_NAME_FORMAT, PROCESS_QUERY_LIMITED_INFORMATION,
    QueryFullProcessImageNameW,
};
use windows::core::PWSTR;

use super::super::census::{ProcessId, ProcessRow};
use config::ProcessLimits;

/// Exit code of a process that was ended with its job.
const ENDED_EXIT_CODE: u32 = 1;

/// A job object. The system ends its processes when the last handle is closed, including when the
/// host is killed: no other process has one.
#[derive(Debug)]
pub(super) struct Job(OwnedHandle);

/// All jobs, each with the id of its first process.
static JOBS: Mutex<Vec<(u32, Weak<Job>)>> = Mutex::new(Vec::new());

impl Job {
    /// An empty job. Processes that join it, and their children, cannot leave. Of `limits`, memory
    /// (committed) and CPU time (user mode) apply, per process; the system has none for open files.
    /// A crash ends the process without an error dialog.
    pub(super) fn new(limits: &ProcessLimits) -> io::Result<Self> {
        let mut info = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        let basic = &mut info.BasicLimitInformation;
        basic.LimitFlags =
            JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
        if let Some(time) = limits.cpu_time {
            basic.LimitFlags |= JOB_OBJECT_LIMIT_PROCESS_TIME;
            // In units of 100 ns.
            basic.PerProcessUserTimeLimit =
                i64::try_from(time.as_nanos() / 100).unwrap_or(i64::MAX).max(1);
        }
        if let Some(bytes) = limits.memory {
            basic.LimitFlags |= JOB_OBJECT_LIMIT_PROCESS_MEMORY;
            info.ProcessMemoryLimit = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        #[expect(unsafe_code, reason = "the handle is new and owned by nobody else")]
        let job = Self(unsafe { OwnedHandle::from_raw_handle(CreateJobObjectW(None, None)?.0) });
        #[expect(unsafe_code, reason = "`info` has the type that this class asks for")]
        unsafe {
            SetInformationJobObject(
                job.handle(),
                JobObjectExtendedLimitInformation,
                (&raw const info).cast(),
                size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32,
            )?;
        }
        Ok(job)
    }

    fn handle(&self) -> HANDLE {
        HANDLE(self.0.as_raw_handle())
    }

    /// Adds a process that has not run yet.
    pub(super) fn assign(&self, process: RawHandle) -> io::Result<()> {
        #[expect(unsafe_code, reason = "the caller holds the process's handle")]
        unsafe {
            AssignProcessToJobObject(self.handle(), HANDLE(process))?;
        }
        Ok(())
    }

    /// Makes it known to [`rows`].
    pub(super) fn register(self: &Arc<Self>, leader: u32) {
        let mut jobs = JOBS.lock();
        jobs.retain(|(_, job)| job.strong_count() > 0);
        jobs.push((leader, Arc::downgrade(self)));
    }

    /// Ends every process in it. Does not wait.
    pub(super) fn terminate(&self) {
        #[expect(unsafe_code, reason = "the handle is ours")]
        let ended = unsafe { TerminateJobObject(self.handle(), ENDED_EXIT_CODE) };
        if let Err(error) = ended {
            tracing::warn!("a job could not be ended: {error}");
        }
    }

    /// The processes in it, as members of the group of `leader`.
    pub(super) fn rows(&self, leader: u32) -> Vec<ProcessRow> {
        self.processes().into_iter().filter_map(|pid| row(pid, leader)).collect()
    }

    /// Ids of the processes in it. At most 1024 are listed; the others still end with it.
    fn processes(&self) -> Vec<u32> {
        const MAX_JOB_PROCESSES: usize = 1024;
        const LIST_HEAD_BYTES: usize = offset_of!(JOBOBJECT_BASIC_PROCESS_ID_LIST, ProcessIdList);
        // In units of `usize`, so that it is aligned like the structure.
        let mut list = vec![0_usize; LIST_HEAD_BYTES / size_of::<usize>() + MAX_JOB_PROCESSES];
        let bytes = (list.len() * size_of::<usize>()) as u32;
        #[expect(unsafe_code, reason = "`list` has room for as much as is said")]
        let asked = unsafe {
            let class = JobObjectBasicProcessIdList;
            let place = list.as_mut_ptr().cast();
            QueryInformationJobObject(Some(self.handle()), class, place, bytes, None)
        };
        // Having more is reported as an error, but those that fit are listed anyway.
        drop(asked);
        let listed = (list[0].to_ne_bytes()[4..].try_into()).map_or(0, u32::from_ne_bytes) as usize;
        let ids = list.iter().skip(LIST_HEAD_BYTES / size_of::<usize>()).take(listed);
        ids.map(|pid| *pid as u32).collect()
    }
}

/// The processes of all jobs.
pub(crate) fn rows() -> Vec<ProcessRow> {
    let jobs = JOBS.lock().clone();
    jobs.iter()
        .filter_map(|(leader, job)| Some((leader, job.upgrade()?)))
        .flat_map(|(leader, job)| job.rows(*leader))
        .collect()
}

/// What is known of a process; `None` when it is gone, or is the console host of another, which the
/// system starts and ends with it.
fn row(pid: u32, leader: u32) -> Option<ProcessRow> {
    #[expect(unsafe_code, reason = "the handle is new and owned by nobody else")]
    let process = unsafe {
        let handle = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, false, pid).ok()?;
        OwnedHandle::from_raw_handle(handle.0)
    };
    let handle = HANDLE(process.as_raw_handle());
    let [mut created, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    #[expect(unsafe_code, reason = "the handle is open, and the results are ours")]
    unsafe {
        GetProcessTimes(handle, &raw mut created, &raw mut ended, &raw mut kernel, &raw mut user)
            .ok()?;
    }
    if is_console(handle) {
        return None;
    }
    Some(ProcessRow {
        process: ProcessId { pid, started: number(created) },
        parent: leader,
        group: leader,
        session: leader,
        zombie: number(ended) > number(created),
        suspended: false,
        running: false,
        cpu_ticks: number(kernel) + number(user),
        pages: memory(handle),
        mark: None,
    })
}

/// Resident memory in bytes.
fn memory(process: HANDLE) -> u64 {
    let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    let mut counters = PROCESS_MEMORY_COUNTERS { cb: size, ..Default::default() };
    #[expect(unsafe_code, reason = "the handle is open, and the result is ours")]
    let read = unsafe { GetProcessMemoryInfo(process, &raw mut counters, size) };
    read.map_or(0, |()| counters.WorkingSetSize as u64)
}

/// Whether it is the console host of another process.
fn is_console(process: HANDLE) -> bool {
    let mut name = [0_u16; 1024];
    let mut length = name.len() as u32;
    #[expect(unsafe_code, reason = "`name` has room for as much as is said")]
    let read = unsafe {
        let place = PWSTR(name.as_mut_ptr());
        QueryFullProcessImageNameW(process, PROCESS_NAME_FORMAT(0), place, &raw mut length)
    };
    let name = name.get(..length as usize).unwrap_or_default();
    read.is_ok()
        && String::from_utf16_lossy(name).to_ascii_lowercase().ends_with("\\system32\\conhost.exe")
}

/// A file time as a number, in units of 100 ns.
fn number(time: FILETIME) -> u64 {
    u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)
}
