//! Graphs: the sum has the points of all.

use super::addend::Addend;

impl Addend {
    /// TGraph::Merge.
    pub(crate) fn append_points(&mut self, owner: usize, addend: &Addend) {
        for (name, numbers) in self.numbers.of_mut(owner) {
            let Some(others) = addend.numbers.get((owner, name)) else { continue };
            match name {
                "fNpoints" => numbers.add(others),
                _ => numbers.append(others),
            }
        }
    }
}
