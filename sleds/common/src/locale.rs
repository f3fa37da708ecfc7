//! What the user's locale makes of bytes: which are characters, and of what kind.
//!
//! The C library is asked, so that the answers are those that other programs get. The invariant
//! that the unsafe code rests on: the locale is set once, before the first question, and never
//! again ([`Locale::of_environment`] is the only way to one, and sets it in a `OnceLock`).
#![allow(unsafe_code, reason = "the C library's locale has no safe interface")]

use std::ffi::{CStr, c_int, c_uint};
use std::sync::OnceLock;

/// How characters are written as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charset {
    /// A byte each; in the C locale bytes above 127 are no characters.
    SingleByte,
    /// UTF-8.
    Utf8,
    /// Several bytes each, in another way, perhaps with states.
    Multibyte,
}

/// What some bytes begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded {
    /// This character, of this many bytes (at least one).
    Char(u32, usize),
    /// Something that is no character.
    Invalid,
    /// Perhaps a character, of which bytes are missing.
    Incomplete,
}

/// A conversion's state between calls, as the C library keeps it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct State(
    /// Room for the `mbstate_t` of any C library (glibc and musl need 8 bytes). C defines all zeroes
    /// as the initial state.
    [u64; 16],
);

impl State {
    /// True if it is not the initial state.
    pub fn is_shifted(&self) -> bool {
        // SAFETY: the pointer is to a valid state for the time of the call.
        unsafe { mbsinit(self) == 0 }
    }
}

unsafe extern "C" {
    // These look a number up in the locale's tables, and take any number.
    safe fn iswprint(c: c_uint) -> c_int;
    safe fn iswspace(c: c_uint) -> c_int;
    safe fn wcwidth(c: libc::wchar_t) -> c_int;
    // And these any number that is a byte.
    safe fn isprint(byte: c_int) -> c_int;
    safe fn isspace(byte: c_int) -> c_int;
    safe fn btowc(c: c_int) -> c_uint;
    safe fn __ctype_get_mb_cur_max() -> usize;
    fn mbsinit(state: *const State) -> c_int;
    fn mbrtowc(
        out: *mut libc::wchar_t,
        bytes: *const libc::c_char,
        n: usize,
        state: *mut State,
    ) -> usize;
}

/// The locale that `LC_ALL`, `LC_CTYPE` and `LC_COLLATE`, or `LANG` name; C if it is not installed.
#[derive(Clone, Copy, Debug)]
pub struct Locale {
    charset: Charset,
    orders_by_code: bool,
}

impl Locale {
    /// The process's locale. The first call sets it.
    pub fn of_environment() -> Locale {
        static LOCALE: OnceLock<Locale> = OnceLock::new();
        *LOCALE.get_or_init(|| {
            set(libc::LC_CTYPE);
            let order = set(libc::LC_COLLATE);
            Locale {
                charset: charset(),
                orders_by_code: order.is_none_or(is_c),
            }
        })
    }

    /// How its characters are written.
    pub fn charset(self) -> Charset {
        self.charset
    }

    /// True if characters are in the order of their codes.
    pub fn orders_by_code(self) -> bool {
        self.orders_by_code
    }

    /// What `bytes`, which are not empty, begin with, in the initial state.
    pub fn decode(self, bytes: &[u8]) -> Decoded {
        self.decode_from(bytes, &mut State::default())
    }

    /// What `bytes`, which are not empty, begin with; `state` is moved on.
    pub fn decode_from(self, bytes: &[u8], state: &mut State) -> Decoded {
        let mut c: libc::wchar_t = 0;
        // SAFETY: all three pointers are valid for the time of the call, and `n` is the length.
        let n = unsafe { mbrtowc(&mut c, bytes.as_ptr().cast(), bytes.len(), state) };
        match n {
            0 => Decoded::Char(0, 1),
            n if n == usize::MAX => Decoded::Invalid,
            n if n == usize::MAX - 1 => Decoded::Incomplete,
            n => Decoded::Char(c as u32, n),
        }
    }

    /// The character that `byte` alone is, if it is one.
    pub fn of_byte(self, byte: u8) -> Option<u32> {
        let c = btowc(c_int::from(byte));
        (c != u32::MAX).then_some(c)
    }

    /// As `isprint` has it, which need not be what [`Locale::is_print`] says of the character.
    pub fn byte_is_print(self, byte: u8) -> bool {
        isprint(c_int::from(byte)) != 0
    }

    /// As `isspace` has it.
    pub fn byte_is_space(self, byte: u8) -> bool {
        isspace(c_int::from(byte)) != 0
    }

    /// As `iswprint` has it.
    pub fn is_print(self, c: u32) -> bool {
        iswprint(c) != 0
    }

    /// As `iswspace` has it.
    pub fn is_space(self, c: u32) -> bool {
        iswspace(c) != 0
    }

    /// Columns on a terminal; less than zero if the character cannot be shown.
    pub fn width(self, c: u32) -> i32 {
        wcwidth(c as libc::wchar_t)
    }
}

/// Sets `category` of the locale as the environment says; its name, or `None` if there is no such
/// locale.
fn set(category: c_int) -> Option<&'static CStr> {
    // SAFETY: the string ends in a zero byte; nothing else asks for or sets the locale meanwhile, by
    // the module's invariant.
    let name = unsafe { libc::setlocale(category, c"".as_ptr()) };
    // SAFETY: it is a string that lives until the category is set again, which it is not.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}

/// True if `name` is that of the C locale, in ASCII or UTF-8.
fn is_c(name: &CStr) -> bool {
    let name = name.to_bytes().to_ascii_uppercase();
    [&b"C"[..], b"POSIX", b"C.UTF-8", b"C.UTF8"].contains(&&name[..])
}

fn charset() -> Charset {
    if __ctype_get_mb_cur_max() == 1 {
        return Charset::SingleByte;
    }
    // SAFETY: the string is the locale's, which is not set again.
    let codeset = unsafe { CStr::from_ptr(libc::nl_langinfo(libc::CODESET)) };
    match codeset.to_bytes() {
        b"UTF-8" => Charset::Utf8,
        _ => Charset::Multibyte,
    }
}
