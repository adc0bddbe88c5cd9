//! What an ELF file says of itself, as far as a preloaded library is concerned.

use std::fs::File;
use std::io;
use std::path::Path;

use object::elf::{DT_NEEDED, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache};

/// An executable or a shared library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// Address width: 32 or 64.
    pub bits: u8,
    /// `e_machine`.
    pub machine: u16,
    /// The dynamic linker it asks for; a library and a static program ask for none.
    pub linker: Option<String>,
    /// Libraries it asks for.
    pub needed: Vec<String>,
    /// Built by Go: it has a section or a note of Go's own.
    pub go: bool,
}

impl Elf {
    /// Reads a file; `None` when it is something else.
    ///
    /// # Errors
    /// When it cannot be read, or is a broken ELF file.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        // Only what is looked at is read: executables can be large.
        let data = ReadCache::new(File::open(path)?);
        let elf = match FileKind::parse(&data) {
            Ok(FileKind::Elf64) => parse::<FileHeader64<Endianness>>(64, &data),
            Ok(FileKind::Elf32) => parse::<FileHeader32<Endianness>>(32, &data),
            _ => return Ok(None),
        };
        elf.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// The architecture, as people call it.
    pub fn architecture(&self) -> String {
        match (self.machine, self.bits) {
            (3, _) => "x86 (32 bits)".to_owned(),
            (62, 64) => "x86-64".to_owned(),
            (62, _) => "x32".to_owned(),
            (40, _) => "Arm (32 bits)".to_owned(),
            (183, _) => "Arm (64 bits)".to_owned(),
            (243, bits) => format!("RISC-V ({bits} bits)"),
            (machine, bits) => format!("ELF machine {machine} ({bits} bits)"),
        }
    }

    /// Whether a process of this program can load `library`.
    pub fn is_like(&self, library: &Self) -> bool {
        (self.machine, self.bits) == (library.machine, library.bits)
    }

    /// Whether it is made for the C library musl, going by its dynamic linker, or by the C library it asks for.
    pub fn is_musl(&self) -> bool {
        let linker = self.linker.as_deref().unwrap_or_default();
        linker.contains("/ld-musl-")
            || self.needed.iter().any(|name| name == "libc.so" || name.starts_with("libc.musl-"))
    }

    /// Whether it asks for a runtime that is to be loaded before any other library.
    pub fn wants_order(&self) -> bool {
        self.needed.iter().any(|name| LINK_ORDER.iter().any(|first| name.starts_with(first)))
    }

    /// Whether it asks for the library of io_uring.
    pub fn uses_io_uring(&self) -> bool {
        self.needed.iter().any(|name| name.starts_with("liburing"))
    }
}

/// Sections that Go's linker makes, some of which people strip (cmd/link/internal/ld: data.go, elf.go, pcln.go).
const GO_SECTIONS: [&[u8]; 6] =
    [b".go.buildinfo", b".gopclntab", b".data.rel.ro.gopclntab", b".gosymtab", b".go.fipsinfo", b".note.go.buildid"];
/// Names of AddressSanitizer's runtime begin so; it ends a program unless it is loaded first.
const LINK_ORDER: [&str; 4] = ["libasan.so", "libhwasan.so", "libclang_rt.asan", "libclang_rt.hwasan"];

fn parse<Header>(bits: u8, data: &ReadCache<File>) -> object::read::Result<Elf>
where
    Header: FileHeader<Endian = Endianness>,
{
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let (mut linker, mut go) = (None, false);
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            linker = Some(String::from_utf8_lossy(path).into_owned());
        }
        if let Some(mut notes) = segment.notes(endian, data)? {
            while let Ok(Some(note)) = notes.next() {
                go |= note.name() == b"Go";
            }
        }
    }
    let sections = header.sections(endian, data)?;
    let dynamic = sections.dynamic_table(endian, data)?;
    let needed = dynamic.iter().filter(|entry| entry.tag == DT_NEEDED);
    let needed = needed.filter_map(|entry| Some(String::from_utf8_lossy(dynamic.string(entry).ok()?).into_owned()));
    Ok(Elf {
        bits,
        machine: header.e_machine(endian).0,
        linker,
        needed: needed.collect(),
        go: go || GO_SECTIONS.iter().any(|name| sections.section_by_name(endian, name).is_some()),
    })
}
