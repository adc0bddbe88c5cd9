//! How structures, lists and texts cross the border.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::slice;

use crate::outcome::{Code, Failure};

/// A structure of the header.
///
/// # Safety
/// It is plain data: zeros are a value of it, and so are any other bytes.
pub(crate) unsafe trait Plain: Copy {
    /// Its name in C.
    const NAME: &'static str;
}

/// A structure whose first member is its size, as its owner knows it.
///
/// # Safety
/// As of [`Plain`]; it begins with a `u32`.
pub(crate) unsafe trait Sized32: Plain {}

/// The least size: the first member and one more.
const LEAST: usize = 8;
/// A size above this is not one: the member was not set.
const MOST: usize = 4096;

/// What `size` of a structure is, if it can be one.
///
/// # Safety
/// `at` points to a structure that begins with its size.
unsafe fn size_of_passed<T: Sized32>(at: *const T) -> Result<usize, Failure> {
    // SAFETY: the caller's promise, and that of `Sized32`.
    let size = unsafe { at.cast::<u32>().read() } as usize;
    if (LEAST..=MOST).contains(&size) {
        return Ok(size);
    }
    let name = T::NAME;
    Err(Failure::invalid(format!("{name}.size: {size} is not a size; set it to sizeof(struct {name})")))
}

/// Reads a structure. Members that its owner does not know are zeros.
///
/// # Safety
/// `from` is null or points to as many bytes as the first member says.
#[inline]
pub(crate) unsafe fn read<T: Sized32>(from: *const T) -> Result<T, Failure> {
    if from.is_null() {
        return Err(Failure::invalid(format!("{}: it is NULL; give one", T::NAME)));
    }
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_passed(from)? };
    if size == size_of::<T>() {
        // SAFETY: the caller's promise: all of it is there.
        return Ok(unsafe { from.read() });
    }
    // SAFETY: the caller's promise.
    unsafe { part(from.cast(), size) }
}

/// Reads a structure of another size than the library's.
///
/// # Safety
/// `from` points to `size` bytes.
#[cold]
unsafe fn part<T: Plain>(from: *const u8, size: usize) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice::from_raw_parts(from, size) };
    let (known, rest) = bytes.split_at(size.min(size_of::<T>()));
    if rest.iter().any(|byte| *byte != 0) {
        let name = T::NAME;
        return Err(Failure::new(
            Code::TooBig,
            format!("{name}: it says what this library does not know; leave new members 0, or update the library"),
        ));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: there is room for `known`, and any bytes are a value (`Plain`).
    unsafe {
        value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(known.as_ptr(), known.len());
        Ok(value.assume_init())
    }
}

/// Fills in a structure of the caller's: as much as its size has room for, zeros where it has more.
///
/// # Safety
/// `to` is null or points to as many bytes as its first member says.
#[inline]
pub(crate) unsafe fn write<T: Sized32>(to: *mut T, value: &T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::invalid(format!("{}: there is no place to fill in; give one", T::NAME)));
    }
    // SAFETY: the caller's promise: all of it is there. Its size stays the caller's.
    unsafe {
        let size = size_of_passed(to)?;
        let (bytes, skip) = (to.cast::<u8>(), size_of::<u32>());
        let known = size.min(size_of::<T>());
        let from = std::ptr::from_ref(value).cast::<u8>();
        bytes.add(skip).copy_from_nonoverlapping(from.add(skip), known - skip);
        bytes.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

/// A list that a structure names: where it is, how many there are, and how far they are apart.
pub(crate) struct List<T> {
    pub(crate) first: *const T,
    pub(crate) count: u32,
    pub(crate) stride: u32,
}

impl<T: Plain> List<T> {
    /// Puts what `each` makes of the elements into `to`, in place of what is there.
    ///
    /// # Safety
    /// `count` elements, `stride` bytes apart, are at `first`.
    #[inline]
    pub(crate) unsafe fn read_into<E>(
        &self,
        to: &mut Vec<E>,
        each: impl Fn(&T) -> Result<E, Failure>,
    ) -> Result<(), Failure> {
        to.clear();
        if self.count == 0 {
            return Ok(());
        }
        let (count, stride) = (self.count as usize, self.stride as usize);
        if self.first.is_null() {
            return Err(Failure::invalid(format!("{}: there is no list of {count}; give one", T::NAME)));
        }
        if stride == size_of::<T>() {
            // SAFETY: the caller's promise.
            for element in unsafe { slice::from_raw_parts(self.first, count) } {
                to.push(each(element)?);
            }
            return Ok(());
        }
        if !(LEAST..=MOST).contains(&stride) {
            let name = T::NAME;
            return Err(Failure::invalid(format!(
                "{name}: {stride} bytes are not the size of an element; set it to sizeof(struct {name})"
            )));
        }
        for index in 0..count {
            // SAFETY: the caller's promise.
            let element = unsafe { part::<T>(self.first.cast::<u8>().add(index * stride), stride)? };
            to.push(each(&element)?);
        }
        Ok(())
    }
}

/// Numbers of packets.
///
/// # Safety
/// `count` numbers are at `first`, and outlive the answer.
pub(crate) unsafe fn numbers<'a>(first: *const u64, count: u32, what: &str) -> Result<&'a [u64], Failure> {
    match (first.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::invalid(format!("{what}: there is no list of {count}; give one"))),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts(first, count as usize) }),
    }
}

/// A blob.
///
/// # Safety
/// `len` bytes are at `blob`, and outlive the answer.
pub(crate) unsafe fn bytes<'a>(blob: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    match (blob.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::invalid(format!("blob: there are no {len} bytes; give them"))),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { slice::from_raw_parts(blob.cast(), len) }),
    }
}

/// A text of C.
///
/// # Safety
/// `text` is null or a C string that outlives the answer.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::invalid(format!("{what}: it is NULL; give one")));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Failure::invalid(format!("{what}: it is not UTF-8 text")))
}

/// A text for C without an allocation: what is longer than `ROOM` - 1 bytes is cut.
pub(crate) struct Name<const ROOM: usize>([u8; ROOM]);

impl<const ROOM: usize> Name<ROOM> {
    pub(crate) fn of(text: &str) -> Self {
        let mut bytes = [0; ROOM];
        let length = text.floor_char_boundary(ROOM - 1);
        bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self(bytes)
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

/// Refuses bits that have no meaning.
#[inline]
pub(crate) fn flags(given: u32, known: u32, what: &str) -> Result<u32, Failure> {
    if given & !known != 0 {
        return Err(Failure::invalid(format!(
            "{what}: {given:#x} has bits without a meaning; those of {known:#x} have one"
        )));
    }
    Ok(given)
}

/// Refuses a reserved member that is not 0.
#[inline]
pub(crate) fn reserved(given: u32, what: &str) -> Result<(), Failure> {
    if given != 0 {
        return Err(Failure::invalid(format!("{what}: it is {given}; set it to 0")));
    }
    Ok(())
}
