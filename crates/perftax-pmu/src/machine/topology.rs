//! Which CPUs share a core.

use super::{Root, cpu_list};

/// Whether a core runs several threads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Smt {
    /// Siblings are online.
    On,
    /// The processor could, but it is switched off.
    Off,
    /// The processor has none.
    None,
    /// The kernel does not tell.
    Unknown,
}

impl Smt {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::None => "none",
            Self::Unknown => "unknown",
        }
    }
}

/// The usable CPUs by core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The CPUs of each core, ascending; cores in the order of their first CPU.
    pub cores: Vec<Vec<u32>>,
    /// Whether cores run several threads.
    pub smt: Smt,
}

impl Topology {
    /// Reads which of these CPUs are siblings (`topology/thread_siblings_list`); a CPU of which that is not told is a core of its own.
    pub fn read(root: &Root, cpus: &[u32]) -> Self {
        let mut cores: Vec<Vec<u32>> = Vec::new();
        for &cpu in cpus {
            let listed = root.sys(&format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")).unwrap_or_default();
            let siblings = cpu_list(&listed);
            match cores.iter_mut().find(|core| core.iter().any(|sibling| siblings.contains(sibling))) {
                Some(core) => core.push(cpu),
                None => cores.push(vec![cpu]),
            }
        }
        let smt = |file: &str| root.sys(&format!("devices/system/cpu/smt/{file}"));
        let smt = match (smt("active").as_deref(), smt("control").as_deref()) {
            (Some("1"), _) => Smt::On,
            (_, Some("notsupported" | "notimplemented")) => Smt::None,
            (Some(_), _) => Smt::Off,
            (None, _) if cores.iter().any(|core| core.len() > 1) => Smt::On,
            (None, _) => Smt::Unknown,
        };
        Self { cores, smt }
    }

    /// The CPUs in the order in which work is put on them: the first one of each core, then their siblings.
    pub fn order(&self) -> Vec<u32> {
        let most = self.cores.iter().map(Vec::len).max().unwrap_or(0);
        (0..most).flat_map(|thread| self.cores.iter().filter_map(move |core| core.get(thread).copied())).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn machine(siblings: &[(u32, &str)], smt: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        };
        for (cpu, list) in siblings {
            write(format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), list);
        }
        for (file, text) in smt {
            write(format!("sys/devices/system/cpu/smt/{file}"), text);
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn siblings_come_last() {
        // Both ways of numbering that are met: siblings side by side, and in the upper half.
        let (_folder, root) = machine(&[(0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")], &[("active", "1"), ("control", "on")]);
        let topology = Topology::read(&root, &[0, 1, 2, 3]);
        assert_eq!((topology.order(), topology.smt), (vec![0, 2, 1, 3], Smt::On));
        let (_folder, root) = machine(&[(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")], &[("active", "1"), ("control", "on")]);
        assert_eq!(Topology::read(&root, &[0, 1, 2, 3]).order(), [0, 1, 2, 3]);
        // Of what may not be used nothing is said.
        assert_eq!(Topology::read(&root, &[1, 2, 3]).cores, [vec![1, 3], vec![2]]);
    }

    #[test]
    fn smt_is_told_apart_from_none() {
        let lone = [(0, "0"), (1, "1")];
        for (files, wanted) in [
            (&[("active", "0"), ("control", "notsupported")][..], Smt::None),
            (&[("active", "0"), ("control", "off")], Smt::Off),
            (&[], Smt::Unknown),
        ] {
            let (_folder, root) = machine(&lone, files);
            assert_eq!(Topology::read(&root, &[0, 1]), Topology { cores: vec![vec![0], vec![1]], smt: wanted });
        }
    }
}
