//! What is left of a grid once its controls are known.

use perftax_cost::matrix::control;
use perftax_doc::{Matrix, MatrixCell, MatrixControl, MatrixKey, MatrixMode};

use crate::refusal::difference;

/// The controls, and the cells that fall with them.
pub fn conclude(document: &mut Matrix) {
    let alone: Vec<&MatrixCell> = document.cells.iter().filter(|cell| cell.key.mode == MatrixMode::Off).collect();
    let of = |cell: &&MatrixCell| {
        let MatrixKey { workload, instances, .. } = cell.key.clone();
        Some(MatrixControl { workload, instances, control: control(&cell.observations, alone.len())? })
    };
    document.controls = alone.iter().filter_map(of).collect();
    for cell in document.cells.iter_mut().filter(|cell| cell.key.mode != MatrixMode::Off && cell.excluded.is_none()) {
        let is_its = |control: &&MatrixControl| control.workload == cell.key.workload && control.instances == cell.key.instances;
        if !document.controls.iter().any(|control| is_its(&control)) {
            cell.excluded = Some("off against off was not measured for it, or in fewer than two pairs".into());
        }
    }
    for failed in document.controls.iter().filter(|control| !control.control.passed) {
        let falls = |cell: &&mut MatrixCell| cell.key.workload == failed.workload && cell.key.instances == failed.instances;
        for cell in document.cells.iter_mut().filter(falls).filter(|cell| cell.excluded.is_none()) {
            let difference = difference(&failed.control);
            cell.excluded = Some(format!("off against off differs by {difference}: something slows one arm and not the other"));
        }
    }
}
