//! How the allocator is set up: what it takes from the system, and what it keeps.

/// Sets up the allocator of glibc (mallopt(3)). To be called before the first thread starts; does nothing
/// elsewhere.
///
/// It sets aside addresses for two threads and not for each of up to eight a processor (`M_ARENA_MAX`):
/// 64 MiB each, of which next to nothing is used, so that a limit on addresses (`ulimit -v`) would end a
/// program whose memory is almost empty.
///
/// It keeps no lists of small blocks beside those of each thread (`M_MXFAST`): every allocation of more
/// than 1 KiB, of which each call makes two, would first join all that are in them.
pub(crate) fn set_up() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const MAX_ARENAS: libc::c_int = 2;
        #[expect(unsafe_code, reason = "calls with two numbers, while there is one thread")]
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, MAX_ARENAS);
            libc::mallopt(libc::M_MXFAST, 0);
        }
    }
}
