//! Programs that take this one's place or run beside it, and whether they can load this library. One that cannot is run without it: its
//! dynamic linker would complain on its standard error, which may be a connection, or not begin.
//!
//! All of this may run in a child of `vfork`, which shares its parent's memory: nothing is kept but on the stack, or in memory that is
//! given back, as far as it fits there.

use std::ffi::{CStr, c_char, c_int};
use std::io::{Error, Write};
use std::ops::ControlFlow;
use std::ptr;

use crate::inside::Inside;
use crate::next;

/// File name of this library.
const LIBRARY: &[u8] = b"libpaceline_shim.so";
/// The variable that has it.
const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// Most scripts one behind the other that the kernel follows (fs/exec.c: exec_binprm).
const SCRIPTS: usize = 5;
/// Bytes of a script's first line that the kernel reads (uapi/linux/binfmts.h: BINPRM_BUF_SIZE).
const FIRST_LINE: usize = 256;
/// Where `execvp` looks without `PATH` (glibc's `CS_PATH`).
const USUAL_PATH: &[u8] = b"/bin:/usr/bin";
/// Most bytes of a path (limits.h: PATH_MAX).
const PATH: usize = 4096;
/// Names of libraries that end the program unless they are loaded first (AddressSanitizer, verify_asan_link_order) begin so.
const FIRST: [&[u8]; 4] = [b"libasan.so", b"libhwasan.so", b"libclang_rt.asan", b"libclang_rt.hwasan"];
/// Names of dynamic linkers for C libraries other than glibc have one of these.
const OTHER_LINKERS: [&[u8]; 3] = [b"ld-musl", b"uClibc", b"linker"];
/// What glibc's calls itself begins so (its sysdeps/*/shlib-versions).
const LINKER: &[u8] = b"ld-linux";

pub(crate) type Variables = *const *const c_char;

unsafe extern "C" {
    /// The program's environment.
    static mut environ: Variables;
}

/// The environment of this program.
pub(crate) fn own() -> Variables {
    // SAFETY: reads a pointer, as the C library does in `execv`.
    unsafe { environ }
}

/// Which program, as a call names it.
#[derive(Clone, Copy)]
pub(crate) enum Program<'a> {
    /// Relative to a folder's descriptor, as for `openat`.
    At(c_int, &'a CStr),
    /// Without a slash it is looked for in `PATH`.
    Named(&'a CStr),
    /// An open file.
    Open(c_int),
}

/// Calls `run` with the environment for a program: what is `given`, without this library where it cannot be loaded.
pub(crate) fn with_variables<T>(program: Program<'_>, given: Variables, run: impl FnOnce(Variables) -> T) -> T {
    let inside = Inside::enter();
    let Some((place, preload)) = find(given).filter(|(_, preload)| !takes(program, preload)) else {
        drop(inside);
        return run(given);
    };
    // SAFETY: the application's array, which ends with a null pointer.
    let count = unsafe { (0..).take_while(|&at| !(*given.add(at)).is_null()).count() };
    let (mut few, mut many) = ([ptr::null(); 200], Vec::new());
    let copy: &mut [*const c_char] = if count < few.len() {
        &mut few
    } else {
        many.resize(count + 1, ptr::null());
        &mut many
    };
    // SAFETY: as counted.
    copy[..count].copy_from_slice(unsafe { std::slice::from_raw_parts(given, count) });
    let mut value = [0_u8; 1024];
    match without(preload, &mut value) {
        Some(()) => copy[place] = value.as_ptr().cast(),
        // Nothing is left of it, or too much.
        None => copy[place..=count].rotate_left(1),
    }
    copy[count] = ptr::null();
    drop(inside);
    run(copy.as_ptr())
}

/// After a `chroot`: what the C library starts by itself (`system`) gets this program's environment as it is, so where this library cannot
/// be reached any more, it leaves that.
pub(crate) fn look_again() {
    let _inside = Inside::enter();
    let Some((_, preload)) = find(own()).filter(|(_, preload)| !is_reachable(preload)) else { return };
    let mut value = [0; 1024];
    let left = match without(preload, &mut value) {
        Some(()) => value.split(|byte| *byte == 0).next().unwrap_or_default(),
        None => PRELOAD,
    };
    // SAFETY: a string of this program's environment, which is not any longer after that.
    unsafe {
        let text = preload.as_ptr().cast_mut().cast::<u8>();
        ptr::copy_nonoverlapping(left.as_ptr(), text, left.len());
        text.add(left.len()).write(0);
    }
}

/// The variable that loads this library, and its place.
fn find(variables: Variables) -> Option<(usize, &'static CStr)> {
    if variables.is_null() {
        return None;
    }
    for place in 0.. {
        // SAFETY: the application's array, which ends with a null pointer.
        let variable = unsafe { *variables.add(place) };
        if variable.is_null() {
            return None;
        }
        // SAFETY: a string of it, which lives as long as the call.
        let variable = unsafe { CStr::from_ptr(variable) };
        if variable.to_bytes().starts_with(PRELOAD) {
            return libraries(variable).any(is_ours).then_some((place, variable));
        }
    }
    None
}

fn libraries(preload: &CStr) -> impl Iterator<Item = &[u8]> {
    preload.to_bytes()[PRELOAD.len()..].split(|byte| b" :".contains(byte)).filter(|library| !library.is_empty())
}

fn is_ours(library: &[u8]) -> bool {
    library.rsplit(|byte| *byte == b'/').next() == Some(LIBRARY)
}

/// The variable without this library; `None` where nothing would be left, or more than there is room for.
fn without(preload: &CStr, value: &mut [u8]) -> Option<()> {
    let mut others = libraries(preload).filter(|library| !is_ours(library)).peekable();
    others.peek()?;
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        value.get_mut(len..len + bytes.len())?.copy_from_slice(bytes);
        len += bytes.len();
        Some(())
    };
    put(PRELOAD)?;
    for library in others {
        put(library)?;
        put(b":")?;
    }
    // In place of the last colon.
    value[len - 1] = 0;
    Some(())
}

/// Whether a program can load this library, as far as its file tells. One that is not there runs after all when `posix_spawn` goes to
/// another folder first: what it is cannot be seen then. One that may not be read is taken for a program like this one.
fn takes(program: Program<'_>, preload: &CStr) -> bool {
    is_reachable(preload)
        && match program.open() {
            Some(file) => fits(&file, SCRIPTS),
            None => Error::last_os_error().raw_os_error() != Some(libc::ENOENT),
        }
}

/// Whether this library can be opened from here: a `chroot` or other rights may be in the way.
fn is_reachable(preload: &CStr) -> bool {
    let mut room = [0; PATH];
    libraries(preload)
        .filter(|library| is_ours(library) && library.contains(&b'/'))
        .all(|library| path(&[library], &mut room).is_none_or(|path| File::open(libc::AT_FDCWD, path).is_some()))
}

/// Parts of a path as one.
fn path<'a>(parts: &[&[u8]], room: &'a mut [u8; PATH]) -> Option<&'a CStr> {
    let mut len = 0;
    for part in parts {
        room.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    *room.get_mut(len)? = 0;
    CStr::from_bytes_until_nul(&room[..=len]).ok()
}

impl Program<'_> {
    /// Its file; `None` when there is none, or none that may be read.
    fn open(self) -> Option<File> {
        match self {
            Self::At(folder, path) => File::open(folder, path),
            Self::Open(fd) => File::reopen(fd),
            Self::Named(name) if name.to_bytes().contains(&b'/') => File::open(libc::AT_FDCWD, name),
            Self::Named(name) => {
                // SAFETY: a string, or null.
                let places = unsafe { libc::getenv(c"PATH".as_ptr()).as_ref() };
                // SAFETY: as above.
                let places = places.map_or(USUAL_PATH, |places| unsafe { CStr::from_ptr(places) }.to_bytes());
                let mut room = [0; PATH];
                let found = places.split(|byte| *byte == b':').try_for_each(|folder| {
                    let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
                    let Some(path) = path(&[folder, slash, name.to_bytes()], &mut room) else {
                        return ControlFlow::Continue(());
                    };
                    // SAFETY: a string.
                    match unsafe { libc::access(path.as_ptr(), libc::X_OK) } {
                        0 => ControlFlow::Break(File::open(libc::AT_FDCWD, path)),
                        _ => ControlFlow::Continue(()),
                    }
                });
                found.break_value().flatten()
            }
        }
    }
}

/// An open file.
struct File(c_int);

impl File {
    fn open(folder: c_int, path: &CStr) -> Option<Self> {
        // SAFETY: a string.
        let fd = unsafe { libc::openat(folder, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) };
        (fd >= 0).then(|| Self(fd))
    }

    /// Opens what a descriptor has anew: one of `O_PATH` cannot be read. Without /proc it is read as it is.
    fn reopen(fd: c_int) -> Option<Self> {
        let mut room = [0_u8; 64];
        let len = write!(&mut room[..], "/proc/thread-self/fd/{fd}\0").map_or(0, |()| room.len());
        let anew = CStr::from_bytes_until_nul(&room[..len]).ok().and_then(|path| Self::open(libc::AT_FDCWD, path));
        anew.or_else(|| {
            let copy = next::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
            (copy >= 0).then(|| Self(copy))
        })
    }

    /// Fills the buffer as far as the file goes; answers how far.
    fn read(&self, to: &mut [u8], from: u64) -> usize {
        usize::try_from(next::pread(self.0, to.as_mut_ptr().cast(), to.len(), from.cast_signed())).unwrap_or(0)
    }

    /// A text that ends with a zero, or after `most` bytes.
    fn text<'a>(&self, from: u64, most: u64, room: &'a mut [u8]) -> &'a [u8] {
        let len = self.read(room, from).min(usize::try_from(most).unwrap_or(usize::MAX));
        room[..len].split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        next::close(self.0);
    }
}

/// Whether this is a program of this architecture and C library, or a script for one.
fn fits(file: &File, scripts: usize) -> bool {
    let mut start = [0; FIRST_LINE];
    let len = file.read(&mut start, 0);
    let start = &start[..len];
    if start.starts_with(b"\x7fELF") {
        return is_like_us(file, start);
    }
    let Some(line) = start.strip_prefix(b"#!").filter(|_| scripts > 0) else { return true };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(interpreter) = line.split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty()) else { return true };
    let mut room = [0; PATH];
    let interpreter = path(&[interpreter], &mut room).and_then(|path| File::open(libc::AT_FDCWD, path));
    interpreter.is_none_or(|file| fits(&file, scripts - 1))
}

/// By the header of an ELF file (elf(5)), here of 64 bits in the byte order of this machine.
fn is_like_us(file: &File, header: &[u8]) -> bool {
    const CLASS_64: u8 = 2;
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    if header.get(4) != Some(&CLASS_64) || number(header, 18, 2) != u64::from(machine) {
        return false;
    }
    let parts = Parts { file, table: number(header, 32, 8), size: number(header, 54, 2), count: number(header, 56, 2) };
    let Some((_, at, len)) = parts.find(INTERPRETER) else {
        // Linked statically: nothing is loaded, and what it starts may be.
        return !parts.is_library()
            || parts.has_text(LIBRARY_NAME, |name| name.starts_with(LINKER)) == cfg!(target_env = "gnu");
    };
    let mut room = [0; 256];
    let linker = file.text(at, len, &mut room).rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let other = OTHER_LINKERS.iter().any(|name| linker.windows(name.len()).any(|part| part == *name));
    other == cfg!(target_env = "musl") && !parts.comes_first()
}

/// A number of this many bytes, 0 where there are fewer.
fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    let mut number = [0; 8];
    if let Some(bytes) = bytes.get(at..at + count) {
        number[..count].copy_from_slice(bytes);
    }
    u64::from_ne_bytes(number)
}

/// Parts of an executable file.
struct Parts<'a> {
    file: &'a File,
    table: u64,
    size: u64,
    count: u64,
}

/// Where a part is loaded, where it is in the file, and how long.
type Part = (u64, u64, u64);

/// Kinds of parts.
const LOADED: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;

/// Kinds of entries in the dynamic section.
const NEEDED: u64 = 1;
const NAMES: u64 = 5;
const LIBRARY_NAME: u64 = 14;

impl Parts<'_> {
    fn of(&self, kind: u64) -> impl Iterator<Item = Part> {
        (0..self.count).filter_map(move |at| {
            let mut entry = [0; 40];
            self.file.read(&mut entry, self.table.saturating_add(at * self.size));
            (number(&entry, 0, 4) == kind).then(|| (number(&entry, 16, 8), number(&entry, 8, 8), number(&entry, 32, 8)))
        })
    }

    fn find(&self, kind: u64) -> Option<Part> {
        self.of(kind).next()
    }

    /// Whether it asks for a library that ends the program unless it is the first to be loaded.
    fn comes_first(&self) -> bool {
        self.has_text(NEEDED, |name| FIRST.iter().any(|first| name.starts_with(first)))
    }

    /// Whether it is a library that can be run: a dynamic linker. Programs that are linked statically and can be loaded anywhere say so
    /// (the linker's DF_1_PIE).
    fn is_library(&self) -> bool {
        const FLAGS: u64 = 0x6fff_fffb;
        const ANYWHERE: u64 = 0x0800_0000;
        self.find(DYNAMIC).is_some() && self.entries().all(|(tag, value)| tag != FLAGS || value & ANYWHERE == 0)
    }

    /// Whether its dynamic section has a text of this kind that is so.
    fn has_text(&self, kind: u64, is_so: impl Fn(&[u8]) -> bool) -> bool {
        let Some((_, names)) = self.entries().find(|(tag, _)| *tag == NAMES) else { return false };
        let Some(names) = self.of(LOADED).find_map(|(place, at, len)| {
            names.checked_sub(place).filter(|inside| *inside < len).map(|inside| at + inside)
        }) else {
            return false;
        };
        self.entries().filter(|(tag, _)| *tag == kind).any(|(_, name)| {
            let mut room = [0; 64];
            is_so(self.file.text(names.saturating_add(name), 64, &mut room))
        })
    }

    /// Kinds and values of what its dynamic section has.
    fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        let (_, start, len) = self.find(DYNAMIC).unwrap_or_default();
        (0..len / 16).map_while(move |at| {
            let mut entry = [0; 16];
            self.file.read(&mut entry, start + at * 16);
            let (tag, value) = (number(&entry, 0, 8), number(&entry, 8, 8));
            (tag != 0).then_some((tag, value))
        })
    }
}
