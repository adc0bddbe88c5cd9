//! Other programs in this one's place.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use super::spawn;
use crate::child::{self, Program};
use crate::inside::Inside;
use crate::next;
use crate::stack;
use crate::state;

type Words = *const *const c_char;

/// The new program has no engine that would send what is queued.
fn before_exec() {
    match state::own() {
        Some(state) => stack::apart(|| state.before_exec()),
        // After `vfork` the program goes on beside the new one.
        None => spawn::lend_standard(),
    }
}

/// What a call names; null as nothing.
pub(super) fn text<'a>(text: *const c_char) -> &'a CStr {
    if text.is_null() {
        return c"";
    }
    // SAFETY: the application vouches for it.
    unsafe { CStr::from_ptr(text) }
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn execve(path: *const c_char, words: Words, variables: Words) -> c_int {
    before_exec();
    let program = Program::At(libc::AT_FDCWD, text(path));
    child::with_variables(program, variables, |variables| next::execve(path, words, variables))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn execv(path: *const c_char, words: Words) -> c_int {
    execve(path, words, child::own())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn execvp(file: *const c_char, words: Words) -> c_int {
    execvpe(file, words, child::own())
}

#[unsafe(no_mangle)]
extern "C-unwind" fn execvpe(file: *const c_char, words: Words, variables: Words) -> c_int {
    before_exec();
    let program = Program::Named(text(file));
    child::with_variables(program, variables, |variables| next::execvpe(file, words, variables))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn fexecve(fd: c_int, words: Words, variables: Words) -> c_int {
    before_exec();
    child::with_variables(Program::Open(fd), variables, |variables| next::fexecve(fd, words, variables))
}

#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn execveat(
    folder: c_int,
    path: *const c_char,
    words: Words,
    variables: Words,
    flags: c_int,
) -> c_int {
    before_exec();
    let name = text(path);
    let itself = name.is_empty() && flags & libc::AT_EMPTY_PATH != 0;
    let program = if itself { Program::Open(folder) } else { Program::At(folder, name) };
    child::with_variables(program, variables, |variables| next::execveat(folder, path, words, variables, flags))
}

/// Defines a function with any number of words as arguments: calls `$gathered` with the place of those in registers, how many these
/// are, and the place of the others, and answers what it answers.
macro_rules! gathered {
    ($name:ident, $gathered:path) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, 48",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov rdi, rsp",
                "mov esi, 6",
                "lea rdx, [rbp + 16]",
                "call {gathered}",
                "leave",
                "ret",
                gathered = sym $gathered,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "add x0, sp, #16",
                "mov x1, #8",
                "add x2, sp, #80",
                "bl {gathered}",
                "ldp x29, x30, [sp], #80",
                "ret",
                gathered = sym $gathered,
            )
        }
    };
}

gathered!(execl, gathered_execl);
gathered!(execle, gathered_execle);
gathered!(execlp, gathered_execlp);

/// The words of a call with any number of them.
#[derive(Clone, Copy)]
struct Gathered {
    registers: Words,
    count: usize,
    others: Words,
}

impl Gathered {
    fn word(&self, at: usize) -> *const c_char {
        // SAFETY: the caller passed a null pointer after them, which is the last that is asked for, but for one more of `execle`.
        unsafe { if at < self.count { *self.registers.add(at) } else { *self.others.add(at - self.count) } }
    }

    /// Calls `run` with the first, those after it as an array, and what stands behind its end.
    fn run(&self, run: impl FnOnce(*const c_char, Words, usize) -> c_int) -> c_int {
        let end = (1..).find(|&at| self.word(at).is_null()).unwrap_or(1);
        let (mut few, mut many) = ([ptr::null(); 100], Vec::new());
        let words = if end < few.len() {
            &mut few[..end]
        } else {
            let _inside = Inside::enter();
            many.resize(end, ptr::null());
            &mut many[..]
        };
        for (at, word) in words[..end - 1].iter_mut().enumerate() {
            *word = self.word(at + 1);
        }
        run(self.word(0), words.as_ptr(), end + 1)
    }
}

extern "C-unwind" fn gathered_execl(registers: Words, count: usize, others: Words) -> c_int {
    Gathered { registers, count, others }.run(|path, words, _| execv(path, words))
}

extern "C-unwind" fn gathered_execlp(registers: Words, count: usize, others: Words) -> c_int {
    Gathered { registers, count, others }.run(|file, words, _| execvp(file, words))
}

extern "C-unwind" fn gathered_execle(registers: Words, count: usize, others: Words) -> c_int {
    let all = Gathered { registers, count, others };
    all.run(|path, words, behind| execve(path, words, all.word(behind).cast()))
}

#[unsafe(no_mangle)]
extern "C-unwind" fn chroot(path: *const c_char) -> c_int {
    let answer = next::chroot(path);
    if answer == 0 {
        child::look_again();
    }
    answer
}
