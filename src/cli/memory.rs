//! How the allocator takes addresses from the system.

/// Lets the allocator of glibc set aside addresses for two threads and not for each of up to eight a
/// processor (mallopt(3), `M_ARENA_MAX`): 64 MiB each, of which next to nothing is used, so that a limit
/// on addresses (`ulimit -v`) would end a program whose memory is almost empty. To be called before the
/// first thread starts; does nothing elsewhere.
pub(crate) fn reserve_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const MAX_ARENAS: libc::c_int = 2;
        #[expect(unsafe_code, reason = "a call with two numbers, while there is one thread")]
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, MAX_ARENAS);
        }
    }
}
