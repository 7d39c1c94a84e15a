//! Addition of graphs. The sum contains the points of all graphs.

use super::addend::Addend;

impl Addend {
    /// Append the points of a graph, like TGraph::Merge.
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
