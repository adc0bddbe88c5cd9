//! What softirqs and interrupts cost a processor while none of some processes runs there: `softirqs PROCESSOR PROCESS...` prints a JSON
//! object of what was counted so far for each line of its standard input, after one at its start. `scripts/bench-icn` uses it.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::io::{BufRead, Write};

    use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};

    static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/softirqs.bpf.o"));

    /// `struct softirq_counts`, in its order.
    const NAMES: [&str; 6] = ["softirq_ns", "softirqs", "interrupt_ns", "interrupts", "polls", "packets"];

    pub(crate) fn main() -> Result<(), Box<dyn Error>> {
        let words: Result<Vec<u32>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
        let words = words.map_err(|_| "usage: softirqs PROCESSOR PROCESS...")?;
        let [processor, processes @ ..] = &words[..] else { return Err("usage: softirqs PROCESSOR PROCESS...".into()) };
        // What it would print is in the error.
        libbpf_rs::set_print(None);
        let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
        put(&object, "softirq_processor", 0, &processor.to_ne_bytes())?;
        for process in processes {
            put(&object, "softirq_processes", *process, &[1])?;
        }
        let mut links = Vec::new();
        for program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            match program.attach() {
                Ok(link) => links.push(link),
                // Interrupts have other names elsewhere.
                Err(_) if !name.starts_with("softirq") && name != "napi_poll" => {}
                Err(error) => return Err(format!("{name}: {error}").into()),
            }
        }
        print(&object)?;
        for line in std::io::stdin().lock().lines() {
            line?;
            print(&object)?;
        }
        Ok(())
    }

    fn put(object: &Object, map: &str, key: u32, value: &[u8]) -> Result<(), Box<dyn Error>> {
        let map = object.maps().find(|found| found.name() == map).ok_or("the object lacks a map")?;
        Ok(map.update(&key.to_ne_bytes(), value, MapFlags::ANY)?)
    }

    fn print(object: &Object) -> Result<(), Box<dyn Error>> {
        let map = object.maps().find(|found| found.name() == "softirq_counts").ok_or("the object lacks a map")?;
        let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?.ok_or("the map has no row")?;
        let numbers = bytes.chunks_exact(8).filter_map(|bytes| Some(u64::from_ne_bytes(*bytes.first_chunk()?)));
        let fields: Vec<String> =
            NAMES.iter().zip(numbers).map(|(name, number)| format!("\"{name}\": {number}")).collect();
        let mut out = std::io::stdout();
        writeln!(out, "{{{}}}", fields.join(", "))?;
        Ok(out.flush()?)
    }
}
