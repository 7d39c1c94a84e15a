//! Graphs: the sum has the points of all.

use super::addend::Addend;

impl Addend {
    /// TGraph::Merge.
    pub(crate) fn append_points(&mut self, owner: usize, addend: &mut Addend) {
        for (place, numbers) in self.numbers.iter_mut().filter(|(place, _)| place.0 == owner) {
            let Some(others) = addend.numbers.remove(place) else { continue };
            match place.1 {
                "fNpoints" => numbers.add(&others),
                _ => numbers.append(others),
            }
        }
    }
}
