//! Holds the open window loaded until the end of the standard input: `... hold < /dev/tty`.

#[cfg(target_os = "linux")]
fn main() -> Result<(), paceline_kernel::LoadError> {
    let _open_window = paceline_kernel::OPEN_WINDOW.load()?;
    println!("{} is loaded", paceline_kernel::OPEN_WINDOW.name);
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
