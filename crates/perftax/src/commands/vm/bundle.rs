//! The machine as one file: `vm bundle` makes it, `vm install` uses it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use perftax_pmu::Error;
use perftax_pmu::guard::interrupted;
use perftax_vm::{Sources, bundle as machine};

use crate::failure::Outcome;

/// Put the machine that was built here into one file, for others to install: no compiler, no apt, no root
///
/// It holds QEMU with its libraries, kernel, file system, licences, and where the sources of all of it are. About 24 MB. The first time it fetches and compiles the
/// user emulator of sim, too (five minutes, from the distribution's archive); after that two minutes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm build && perftax vm bundle
  perftax vm bundle -o /srv/files/machine.tar.zst")]
pub struct BundleArgs {
    /// Where it goes [default: perftax-vm-VERSION-x86_64.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Use a machine that somebody else built: one file, or its address
///
/// It is unpacked below ~/.local/share/perftax/vm (120 MB), every file checked against the bundle's own list. vm run takes it where no machine was built.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax vm install perftax-vm-0.1.0-x86_64.tar.zst
  perftax vm install https://files.example/perftax-vm-0.1.0-x86_64.tar.zst --sha256 9f86d08188…
  perftax vm install --remove")]
pub struct InstallArgs {
    /// A file that vm bundle made, or an address of one (by curl, wget or apt)
    #[arg(value_name = "FILE|URL", required_unless_present = "remove")]
    from: Option<String>,
    /// Its SHA-256, from where you trust; an address needs it
    #[arg(long, value_name = "SUM", value_parser = sum)]
    sha256: Option<String>,
    /// Remove what was installed
    #[arg(long, conflicts_with_all = ["from", "sha256"])]
    remove: bool,
}

/// 64 hexadecimal digits.
fn sum(text: &str) -> Result<String, String> {
    let text = text.trim().to_ascii_lowercase();
    let is_sum = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_sum {
        Ok(text)
    } else {
        Err(format!("needs 64 hexadecimal digits, as sha256sum prints them, and has {}", text.chars().count()))
    }
}

/// Makes the file.
pub fn bundle(args: &BundleArgs) -> Result<Outcome> {
    let name = format!("perftax-vm-{}-{}.tar.zst", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let to = args.output.clone().unwrap_or_else(|| name.into());
    if std::fs::metadata(&to).is_ok_and(|found| !found.is_file()) {
        return Err(Error::Argument {
            argument: "--output",
            value: to.display().to_string(),
            needed: "a file, new or old".into(),
        }
        .into());
    }
    crate::output::check_file(&to)?;
    anstream::eprintln!("perftax: packing the machine, two minutes");
    let manifest = machine::make(&Sources::find()?, &to, interrupted)?;
    let bytes = std::fs::metadata(&to)?.len();
    let sum = machine::sha256_of(&to, interrupted)?;
    anstream::println!("bundle   {}, {:.1} MB, Linux {}", to.display(), bytes as f64 / 1e6, manifest.kernel);
    anstream::println!("sha256   {sum}");
    anstream::println!("there    perftax vm install {} --sha256 {sum}", to.file_name().unwrap_or_default().to_string_lossy());
    Ok(Outcome::Done)
}

/// Installs it.
pub fn install(args: &InstallArgs) -> Result<Outcome> {
    let Some(from) = &args.from else {
        let found = if machine::remove()? { "removed" } else { "nothing was installed in" };
        anstream::println!("{found} {}", machine::folder().display());
        return Ok(Outcome::Done);
    };
    if !machine::is_url(from) {
        return checked(Path::new(from), from, args.sha256.as_deref());
    }
    let Some(sum) = &args.sha256 else {
        let needed = "--sha256 SUM, from where you trust: whoever holds the address, or sits in between, could send anything";
        return Err(Error::Argument { argument: "FILE|URL", value: from.clone(), needed: needed.into() }.into());
    };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bundle");
    machine::download(from, &file, interrupted)?;
    checked(&file, from, Some(sum))
}

/// Installs a file if it is the one that was meant.
fn checked(file: &Path, from: &str, wanted: Option<&str>) -> Result<Outcome> {
    let sum = machine::sha256_of(file, interrupted)?;
    if let Some(wanted) = wanted.filter(|wanted| *wanted != sum) {
        let why = format!(
            "its SHA-256 is {sum}, and --sha256 says {wanted}: it was changed on its way, or the sum is another file's. Nothing was installed"
        );
        return Err(perftax_vm::Error::Bundle { file: from.into(), why }.into());
    }
    let (manifest, folder) = machine::install(file, interrupted)?;
    anstream::println!("machine  Linux {}, for perftax {}", manifest.kernel, manifest.perftax);
    anstream::println!("sha256   {sum}{}", if wanted.is_some() { ", as wanted" } else { "" });
    anstream::println!("folder   {}   (licences and sources: licences/, SOURCES)", folder.display());
    anstream::println!("next     perftax vm run -- perf stat -e instructions:u true");
    Ok(Outcome::Done)
}
