//! The module's exports and imports.
#![expect(unsafe_code, reason = "memory that is shared with the page")]

use std::cell::RefCell;
use std::panic;
use std::rc::Rc;

use serde_json::json;

use crate::browser::{self, Browser, Threw};
use crate::request;

/// Room for an answer of a controller, in bytes: a few numbers, or the text of what it threw, which is clipped.
const ANSWER: usize = 4096;

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    fn tell(message: *const u8, bytes: usize);
    fn event(event: *const u8, bytes: usize, room: *mut u8, room_bytes: usize) -> i32;
}

thread_local! {
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The page behind the imports.
struct Imports;

impl Browser for Imports {
    fn tell(&self, message: &str) {
        // SAFETY: the page reads so many bytes there, and keeps nothing.
        unsafe { tell(message.as_ptr(), message.len()) };
    }

    fn event(&self, event_text: &str) -> Result<String, Threw> {
        let mut room = [0; ANSWER];
        // SAFETY: the page reads the one and writes at most so many bytes into the other, and keeps nothing.
        let answer = unsafe { event(event_text.as_ptr(), event_text.len(), room.as_mut_ptr(), room.len()) };
        let text = |bytes: usize| String::from_utf8_lossy(&room[..bytes.min(ANSWER)]).into_owned();
        let full = || room.iter().position(|byte| *byte == 0).unwrap_or(ANSWER);
        usize::try_from(answer).map(text).map_err(|_| Threw(text(full())))
    }
}

/// A buffer for the next request; null where there is no memory for it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn room(bytes: usize) -> *mut u8 {
    ROOM.with_borrow_mut(|room| {
        room.clear();
        if room.try_reserve(bytes).is_err() {
            return std::ptr::null_mut();
        }
        room.resize(bytes, 0);
        room.as_mut_ptr()
    })
}

/// Answers the request of so many bytes in the room: 0 done, 1 failed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ask(bytes: usize) -> u32 {
    panic::set_hook(Box::new(|panic| {
        let message = format!("it panicked: {panic}; please report it");
        browser::tell(&json!({ "told": "error", "message": message, "panicked": true }));
    }));
    paceline_lab::version::built_from(paceline_commit::COMMIT);
    let request = ROOM.take();
    u32::from(!request::ask(&request[..bytes.min(request.len())], Rc::new(Imports)))
}
