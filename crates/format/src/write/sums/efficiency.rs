//! The weights of efficiencies; their histograms are added by themselves.

use super::addend::Addend;
use crate::write::object::numbers::Numbers;

impl Addend {
    /// TEfficiency::operator+=.
    pub(crate) fn add_weight(&mut self, owner: usize, addend: &Addend) {
        let other = addend.number(owner, "fWeight");
        if let Some(Numbers::F64(weights)) = self.numbers.get_mut((owner, "fWeight")) {
            weights.iter_mut().for_each(|weight| *weight = *weight * other / (*weight + other));
        }
    }
}
