//! A program to be examined before it is started: a file that is broken is refused, and never harms.
#![no_main]

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use paceline_preload::Elf;

/// A file in memory that has a path.
static FILE: LazyLock<Mutex<File>> = LazyLock::new(|| {
    let file = rustix::fs::memfd_create(c"elf", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory");
    Mutex::new(file.into())
});

fuzz_target!(|bytes: &[u8]| {
    let mut file = FILE.lock().expect("one thread");
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(bytes)).expect("memory takes it");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    match Elf::read(Path::new(&path)) {
        Ok(Some(elf)) => {
            assert!(elf.bits == 32 || elf.bits == 64);
            assert!(elf.is_like(&elf) && !elf.architecture().is_empty());
            let _ = (elf.is_musl(), elf.uses_io_uring(), elf.go);
        }
        Ok(None) => {}
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
