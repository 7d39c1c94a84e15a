// The eight queries of the ADL benchmark with RDataFrame, compiled. Each returns the bin contents, including
// underflow and overflow.
#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>
#include <TH1D.h>
#include <TROOT.h>
#include <cmath>
#include <string>
#include <vector>

using Floats = ROOT::RVecF;
using Ints = ROOT::RVecI;
using Files = std::vector<std::string>;
using Bins = std::vector<double>;

struct Momentum {
   double px, py, pz, energy;
   Momentum(float pt, float eta, float phi, float mass)
      : px(pt * std::cos(phi)), py(pt * std::sin(phi)), pz(pt * std::sinh(eta)),
        energy(std::sqrt(px * px + py * py + pz * pz + double(mass) * mass)) {}
   Momentum &operator+=(const Momentum &other) {
      px += other.px, py += other.py, pz += other.pz, energy += other.energy;
      return *this;
   }
   double mass() const { return std::sqrt(std::max(energy * energy - px * px - py * py - pz * pz, 0.0)); }
   double pt() const { return std::sqrt(px * px + py * py); }
};

inline double turned(double angle) { return std::remainder(angle, 2 * M_PI); }

inline Bins bins_of(ROOT::RDF::RResultPtr<TH1D> histogram) {
   const double *begin = histogram->GetArray();
   return {begin, begin + histogram->GetNbinsX() + 2};
}

inline std::vector<Momentum> momenta(const Floats &pt, const Floats &eta, const Floats &phi, const Floats &mass) {
   std::vector<Momentum> all;
   all.reserve(pt.size());
   for (size_t i = 0; i < pt.size(); ++i)
      all.emplace_back(pt[i], eta[i], phi[i], mass[i]);
   return all;
}

const ROOT::RDF::TH1DModel MET{"", "", 100, 0, 200}, JETS{"", "", 100, 15, 60};

inline Bins Q1(const Files &files) { return bins_of(ROOT::RDataFrame("events", files).Histo1D<float>(MET, "MET_pt")); }

inline Bins Q2(const Files &files) { return bins_of(ROOT::RDataFrame("events", files).Histo1D<Floats>(JETS, "Jet_pt")); }

inline Bins Q3(const Files &files) {
   auto central = [](const Floats &pt, const Floats &eta) { return Floats(pt[abs(eta) < 1.0f]); };
   return bins_of(
      ROOT::RDataFrame("events", files).Define("kept", central, {"Jet_pt", "Jet_eta"}).Histo1D<Floats>(JETS, "kept"));
}

inline Bins Q4(const Files &files) {
   auto two = [](const Floats &pt) { return Sum(pt > 40.0f) >= 2; };
   return bins_of(ROOT::RDataFrame("events", files).Filter(two, {"Jet_pt"}).Histo1D<float>(MET, "MET_pt"));
}

inline Bins Q5(const Files &files) {
   auto pair = [](const Floats &pt, const Floats &eta, const Floats &phi, const Floats &mass, const Ints &charge) {
      if (pt.size() < 2)
         return false;
      const auto all = momenta(pt, eta, phi, mass);
      for (size_t i = 0; i < all.size(); ++i)
         for (size_t k = i + 1; k < all.size(); ++k)
            if (charge[i] != charge[k]) {
               auto both = all[i];
               both += all[k];
               if (const auto m = both.mass(); m > 60 && m < 120)
                  return true;
            }
      return false;
   };
   return bins_of(ROOT::RDataFrame("events", files)
                     .Filter(pair, {"Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass", "Muon_charge"})
                     .Histo1D<float>(MET, "MET_pt"));
}

inline Bins Q6(const Files &files) {
   auto nearest = [](const Floats &pt, const Floats &eta, const Floats &phi, const Floats &mass) {
      const auto all = momenta(pt, eta, phi, mass);
      double least = 1e99, found = 0;
      for (size_t i = 0; i < all.size(); ++i)
         for (size_t j = i + 1; j < all.size(); ++j)
            for (size_t k = j + 1; k < all.size(); ++k) {
               auto three = all[i];
               three += all[j];
               three += all[k];
               if (const auto away = std::abs(three.mass() - 172.5); away < least)
                  least = away, found = three.pt();
            }
      return found;
   };
   return bins_of(ROOT::RDataFrame("events", files)
                     .Filter([](const Floats &pt) { return pt.size() >= 3; }, {"Jet_pt"})
                     .Define("pt", nearest, {"Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass"})
                     .Histo1D<double>({"", "", 100, 15, 140}, "pt"));
}

inline Bins Q7(const Files &files) {
   auto sum = [](const Floats &pt, const Floats &eta, const Floats &phi, const Floats &mu_pt, const Floats &mu_eta,
                 const Floats &mu_phi, const Floats &e_pt, const Floats &e_eta, const Floats &e_phi) {
      auto near = [&](size_t i, const Floats &pts, const Floats &etas, const Floats &phis) {
         for (size_t k = 0; k < pts.size(); ++k)
            if (pts[k] > 10 && std::pow(eta[i] - etas[k], 2) + std::pow(turned(phi[i] - phis[k]), 2) < 0.4 * 0.4)
               return true;
         return false;
      };
      float total = -1;
      for (size_t i = 0; i < pt.size(); ++i)
         if (pt[i] > 30 && !near(i, mu_pt, mu_eta, mu_phi) && !near(i, e_pt, e_eta, e_phi))
            total = std::max(total, 0.0f) + pt[i];
      return total;
   };
   return bins_of(ROOT::RDataFrame("events", files)
                     .Define("total", sum,
                             {"Jet_pt", "Jet_eta", "Jet_phi", "Muon_pt", "Muon_eta", "Muon_phi", "Electron_pt",
                              "Electron_eta", "Electron_phi"})
                     .Filter([](float total) { return total >= 0; }, {"total"})
                     .Histo1D<float>({"", "", 100, 15, 200}, "total"));
}

inline Bins Q8(const Files &files) {
   auto transverse = [](const Floats &mu_pt, const Floats &mu_eta, const Floats &mu_phi, const Floats &mu_mass,
                        const Ints &mu_charge, const Floats &e_pt, const Floats &e_eta, const Floats &e_phi,
                        const Floats &e_mass, const Ints &e_charge, float met, float met_phi) {
      const auto muons = mu_pt.size();
      if (muons + e_pt.size() < 3)
         return -1.0;
      const auto pt = Concatenate(mu_pt, e_pt), phi = Concatenate(mu_phi, e_phi);
      const auto charge = Concatenate(mu_charge, e_charge);
      const auto all = momenta(pt, Concatenate(mu_eta, e_eta), phi, Concatenate(mu_mass, e_mass));
      double least = 1e99;
      size_t first = 0, second = 0;
      for (size_t i = 0; i < all.size(); ++i)
         for (size_t k = i + 1; k < all.size(); ++k)
            if ((i < muons) == (k < muons) && charge[i] != charge[k]) {
               auto both = all[i];
               both += all[k];
               if (const auto away = std::abs(both.mass() - 91.2); away < least)
                  least = away, first = i, second = k;
            }
      if (least > 1e98)
         return -1.0;
      size_t leading = all.size();
      for (size_t i = 0; i < all.size(); ++i)
         if (i != first && i != second && (leading == all.size() || pt[i] > pt[leading]))
            leading = i;
      return std::sqrt(2 * double(met) * pt[leading] * (1 - std::cos(turned(met_phi - phi[leading]))));
   };
   return bins_of(ROOT::RDataFrame("events", files)
                     .Define("mass", transverse,
                             {"Muon_pt", "Muon_eta", "Muon_phi", "Muon_mass", "Muon_charge", "Electron_pt",
                              "Electron_eta", "Electron_phi", "Electron_mass", "Electron_charge", "MET_pt", "MET_phi"})
                     .Filter([](double mass) { return mass >= 0; }, {"mass"})
                     .Histo1D<double>({"", "", 100, 0, 250}, "mass"));
}
