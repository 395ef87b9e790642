//! Whose work a bundle is, under which licence, and where its source is: whoever passes programs under the GPL on has to say so (GPL-2.0, section 3).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Package;
use crate::closure::{find, libraries};
use crate::error::{Error, Result};
use crate::installation::{Installation, Sources};

/// What a package says of its licences (Debian Policy, section 12.5).
const COPYRIGHT: &str = "copyright";
/// Whole licences (Debian Policy, section 12.5).
const COMMON: &str = "/usr/share/common-licenses";
/// Of QEMU's source.
const QEMU_LICENCES: [&str; 3] = ["LICENSE", "COPYING", "COPYING.LIB"];

/// What a machine was put together from.
pub(super) struct Provenance {
    packages: BTreeSet<Package>,
    licences: BTreeMap<String, Vec<u8>>,
    system: String,
}

impl Provenance {
    /// Of a machine that was built here, with these files of this system's.
    pub(super) fn of(sources: &Sources, built: &Installation, mut files: Vec<PathBuf>) -> Result<Self> {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let system =
            release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("this system").trim_matches('"').into();
        let mut all = Self { packages: BTreeSet::new(), licences: BTreeMap::new(), system };
        if built.programs.contains("perf")
            && let Some(perf) = find("perf")
        {
            let perf = perf.canonicalize().map_err(Error::file(&perf))?;
            files.extend(libraries(&perf)?);
            files.push(perf);
        }
        for file in files {
            all.add_installed(&file)?;
        }
        let packages = built.kernel.with_file_name("packages");
        for entry in fs::read_dir(&packages).map_err(Error::file(&packages))? {
            let package = entry.map_err(Error::file(&packages))?.path();
            if package.extension().is_some_and(|extension| extension == "deb") {
                all.add_archive(&package)?;
            }
        }
        all.add_qemu(&sources.qemu_folder()?)?;
        all.add_common()?;
        Ok(all)
    }

    pub(super) fn packages(&self) -> Vec<Package> {
        self.packages.iter().cloned().collect()
    }

    /// Licences, and where the sources are.
    pub(super) fn texts(self) -> impl Iterator<Item = (String, Vec<u8>)> {
        let text = self.where_sources_are();
        let licences = self.licences.into_iter().map(|(name, text)| (format!("licences/{name}"), text));
        licences.chain([("SOURCES".to_string(), text.into_bytes())])
    }

    fn where_sources_are(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!(
            "This emulated machine was put together by perftax {version} from programs of others. Their licences are in licences/.\n\n\
             Source packages, in the archive of {}; with its deb-src lines on, each is fetched by\n\n    apt-get source NAME=VERSION\n\n",
            self.system
        );
        let of: BTreeSet<(&str, &str)> = self.packages.iter().map(|p| (p.source.as_str(), p.source_version.as_str())).collect();
        of.iter().for_each(|(source, version)| text.push_str(&format!("    {source}={version}\n")));
        text.push_str(&format!(
            "\nqemu-system-x86_64 is QEMU as changed by source/vm/qemu (GPL-2.0-or-later) and built by source/vm/build-qemu, linked with the engine of perftax {version}\n\
             (crates/perftax-engine-c and crates/perftax-model of its source, MIT or Apache-2.0); qemu-x86_64 is QEMU as it came, built by\n\
             source/vm/build-qemu-user. The guest's file system is made by\n\
             source/vm/build-guest from the packages above and source/vm/guest.\n"
        ));
        text
    }

    /// The package that a file of this system's belongs to.
    fn add_installed(&mut self, file: &Path) -> Result<()> {
        let whole = file.canonicalize().map_err(Error::file(file))?;
        // A package may have its files where they were before /lib and /usr/lib became one.
        let before = whole.strip_prefix("/usr").map(|rest| Path::new("/").join(rest)).unwrap_or_default();
        let mut places = [file, whole.as_path(), before.as_path()].into_iter();
        let owner = places.find_map(|place| owner(&said(Command::new("dpkg-query").arg("-S").arg(place))?));
        let unknown = || Error::Missing {
            what: format!("the package of {}", file.display()),
            why: "dpkg-query -S knows none, so nobody could tell where its source is".into(),
            remedy: "build and bundle the machine on a Debian whose packages it is made of".into(),
        };
        let owner = owner.ok_or_else(unknown)?;
        let fields = "${Package}\t${source:Package}\t${source:Version}";
        let said = said(Command::new("dpkg-query").args(["-W", "-f", fields, &owner])).ok_or_else(unknown)?;
        let [name, source, source_version] = said.trim().split('\t').collect::<Vec<_>>()[..] else { return Err(unknown()) };
        let licence = Path::new("/usr/share/doc").join(name).join(COPYRIGHT);
        let text = fs::read(&licence).map_err(Error::file(&licence))?;
        self.add(Package { name: name.into(), source: source.into(), source_version: source_version.into() }, text);
        Ok(())
    }

    /// A package that was fetched for the guest.
    fn add_archive(&mut self, file: &Path) -> Result<()> {
        let unreadable = |why: &str| Error::Build { what: format!("reading {}", file.display()), why: why.into() };
        let fields = said(Command::new("dpkg-deb").arg("-f").arg(file).args(["Package", "Source", "Version"]));
        let fields = fields.ok_or_else(|| unreadable("dpkg-deb -f cannot"))?;
        let field = |name: &str| fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let (Some(name), Some(version)) = (field("Package"), field("Version")) else {
            return Err(unreadable("it has no name, or no version"));
        };
        // `Source: linux-signed-amd64 (6.1.192+2)`, and nothing where both are the same (Debian Policy, section 5.6.1).
        let (source, source_version) = match field("Source").map(|source| source.split_once(" (").unwrap_or((source, ""))) {
            Some((source, "")) => (source, version),
            Some((source, other)) => (source, other.trim_end_matches(')')),
            None => (name, version),
        };
        let mut command = Command::new("dpkg-deb");
        let mut child =
            command.arg("--fsys-tarfile").arg(file).stdout(Stdio::piped()).spawn().map_err(Error::file("dpkg-deb"))?;
        let licence = child.stdout.take().and_then(|tar| licence_in(tar).ok().flatten());
        // It may have more to say than was wanted.
        child.kill().ok();
        child.wait().map_err(Error::file("dpkg-deb"))?;
        let licence = licence.ok_or_else(|| unreadable("it has no file usr/share/doc/*/copyright"))?;
        self.add(Package { name: name.into(), source: source.into(), source_version: source_version.into() }, licence);
        Ok(())
    }

    /// QEMU's own source, as it was unpacked.
    fn add_qemu(&mut self, folder: &Path) -> Result<()> {
        let mut text = Vec::new();
        for name in QEMU_LICENCES {
            let file = folder.join("source").join(name);
            text.extend(fs::read(&file).map_err(Error::file(&file))?);
        }
        let described = fs::read_dir(folder).map_err(Error::file(folder))?.filter_map(|entry| Some(entry.ok()?.path()));
        let is_description = |file: &PathBuf| file.extension() == Some(OsStr::new("dsc"));
        let description = described.filter(is_description).find_map(|file| fs::read_to_string(file).ok());
        let version = description.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Version: ")));
        let unpacked = fs::read_to_string(folder.join("source/VERSION")).unwrap_or_default();
        let source_version = version.unwrap_or(unpacked.trim()).to_string();
        self.add(Package { name: "qemu-system-x86".into(), source: "qemu".into(), source_version }, text);
        Ok(())
    }

    /// The licences that packages name instead of repeating them.
    fn add_common(&mut self) -> Result<()> {
        for entry in fs::read_dir(COMMON).map_err(Error::file(COMMON))? {
            let file = entry.map_err(Error::file(COMMON))?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read(&file).map_err(Error::file(&file))?;
            self.licences.insert(format!("common-licenses/{name}"), text);
        }
        Ok(())
    }

    fn add(&mut self, package: Package, licence: Vec<u8>) {
        self.licences.insert(package.name.clone(), licence);
        self.packages.insert(package);
    }
}

/// The first package that `dpkg-query -S` names, behind what it says of packages that put a file of their own in another's place.
fn owner(said: &str) -> Option<String> {
    let line = said.lines().find(|line| !line.starts_with("diversion by "))?;
    Some(line.split_once(": ")?.0.split(", ").next()?.to_string())
}

/// What a command says, if it succeeds.
fn said(command: &mut Command) -> Option<String> {
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first such file of a package's.
fn licence_in(package: impl Read) -> std::io::Result<Option<Vec<u8>>> {
    for entry in tar::Archive::new(package).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if path.file_name() == Some(OsStr::new(COPYRIGHT)) && entry.header().entry_type().is_file() {
            let mut text = Vec::new();
            entry.read_to_end(&mut text)?;
            return Ok(Some(text));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn a_file_belongs_to_who_has_it_and_not_to_who_moved_it() {
        let moved = "diversion by linux-perf from: /usr/bin/perf\ndiversion by linux-perf to: /usr/bin/perf.wrapper\nlinux-perf: /usr/bin/perf\n";
        assert_eq!(owner(moved).as_deref(), Some("linux-perf"));
        assert_eq!(owner("libc6:amd64, libc6:i386: /lib/x\n").as_deref(), Some("libc6:amd64"));
        assert_eq!(owner("diversion by linux-perf from: /usr/bin/perf\n"), None);
    }

    #[test]
    fn a_package_s_licence_is_found_in_its_files() {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, text) in [("./usr/share/doc/x/changelog", "no"), ("./usr/share/doc/x/copyright", "GPL-2")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        let bytes = archive.into_inner().unwrap();
        assert_eq!(licence_in(bytes.as_slice()).unwrap().as_deref(), Some(b"GPL-2".as_slice()));
        assert_eq!(licence_in(&bytes[1024..1024]).unwrap(), None);
    }
}
